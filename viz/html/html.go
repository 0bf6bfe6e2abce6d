// Package html writes a report: one HTML file with charts, timelines and
// tables, self-contained.
//
//	Report ──bars───────▶ go-echarts options ─┐
//	       ──lanes──────▶ panel of rows       ├─▶ JSON in the page ──page/*.js──▶ canvas
//	       ──workgroups─▶ panel of rows      ─┘
//	       ──all charts─▶ viz/svg ───────────────────────────────────────────────▶ SVG
//	       ──tables─────▶ html/template ─────────────────────────────────────────▶ tables
//
// A page shows its charts as SVG at once. Its script replaces them by those that can be
// zoomed and searched, which needs ECharts: a build with the tag noecharts has none, and
// writes reports without the JSON and with more SVG.
//
// Names in a report come from traces and are untrusted text. They reach the page
// as escaped HTML or as strings of a JSON document, never as markup or code,
// and the page's policy lets only the scripts run that this package wrote.
package html

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/plain"
	"github.com/overlapse/overlapse/viz/svg"
)

// A Report is everything that the page shows. It is plain data. Empty parts are left out of the page.
type Report struct {
	Title      string
	Verdict    []string      // the recommendation, then how sure it is, why, and what to do
	Facts      []Fact        // shown below the title: machine, capture, model error
	Strategies []Bar         // in the order they are shown
	Captured   trace.Time    // the captured schedule's time, which changes are measured against; 0: show none
	Base       string        // whose time Captured is; "": "captured"
	Heading    string        // of the bars; "": "Strategies"
	Runs       []Named       // in the order they are shown, one below the other on one time axis
	Parts      []layout.Part // pairs that the workgroups of runs are compared on; nil: each kernel
	Tables     []Table       // idle causes, evidence, ledger
}

// A Fact is a short statement about the whole report.
type Fact struct{ Name, Value string }

// A Bar is one strategy.
type Bar struct {
	Name   string
	Params string     // "chunks=4 channels=8"; may be ""
	Time   trace.Time // makespan; 0 if it did not run, and Note says why
	Parts  Parts
	Bound  bool   // a bound, not a schedule
	Note   string // what limits it
}

// Parts is what a makespan went to. What they lack of it counts as idle.
type Parts struct {
	Compute    trace.Time // computation without communication or copies
	Overlapped trace.Time // computation and communication or copies at once
	Exposed    trace.Time // communication without computation
	Copies     trace.Time // copies without computation or communication
}

// A Named is a run with its name in the report.
type Named struct {
	Name    string
	Note    string // printed next to its time: "−22.8 %"; may be ""
	Run     *trace.Run
	Start   trace.Time   // of its first iteration: timelines show all runs from there
	Gaps    []layout.Gap // why queues were stalled, where known
	Use     []Use        // what its ranks use over time; nil: counts of kernels and copies
	Cluster int          // workgroups that compute one slice together, for the order of rows; 0: 16
}

// A Table is rows of text under a heading.
type Table struct {
	Title   string
	Note    string // a sentence above the table
	Columns []Column
	Rows    [][]string
	Drawing *svg.Drawing // shown above the rows; nil: none
}

// A Column is the header of a column. Numbers are right-aligned and sorted by value.
type Column struct {
	Name   string
	Number bool
}

// The assets are in the repository. These lines, which need npm and the network,
// put there what package-lock.json pins, to change its version.
//
//go:generate npm ci --ignore-scripts --no-audit --no-fund
//go:generate npm run --silent embed

//go:embed page
var page embed.FS

// EChartsVersion is that of the charts' library.
const EChartsVersion = "5.6.0"

// HasECharts reports whether this build has ECharts, without which reports have charts and
// timelines as SVG only.
func HasECharts() bool { return len(library) > 0 }

// unpack decompresses ECharts.
func unpack(library []byte) string {
	z, err := gzip.NewReader(bytes.NewReader(library))
	if err != nil {
		panic(err) // embedded at build time
	}
	b, err := io.ReadAll(z)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Write writes the report to w. No character that a terminal must not get is in it.
func Write(w io.Writer, rep Report) error { return write(plain.Writer(w), rep, library) }

// view is what page.html is filled with.
type view struct {
	Report
	Policy                string
	Style                 template.CSS
	Data, ECharts, Script template.JS // Data and ECharts: "" without ECharts
	EChartsVersion        string
	Bars                  *cells
	BarFigure             template.HTML
	Legend                []part // of the bars
	Lanes, Workgroups     *figures
	Use                   *figures
	Tables                []cells
}

// write writes a report with the compressed library, or one without a library.
func write(w io.Writer, rep Report, library []byte) error {
	v := view{
		Report:         rep,
		Style:          template.CSS(pageFile("page.css")),
		Script:         template.JS(script()),
		EChartsVersion: EChartsVersion,
		Bars:           rep.strategyCells(),
		Lanes:          rep.laneFigures(len(library) == 0),
		Workgroups:     rep.partFigures(len(library) == 0),
		Use:            rep.useFigures(),
	}
	if v.Bars != nil {
		v.BarFigure, v.Legend = rep.barFigure(), rep.used(parts())
	}
	v.Policy = policy(string(v.Script))
	if len(library) > 0 {
		d, err := newData(rep)
		if err != nil {
			return fmt.Errorf("report %q: %w", rep.Title, err)
		}
		var text bytes.Buffer
		if err := json.NewEncoder(plain.JSON(&text)).Encode(d); err != nil { // escapes <, > and &, so that no name can end the script
			return fmt.Errorf("report %q: %w", rep.Title, err)
		}
		v.Data, v.ECharts = template.JS(text.String()), template.JS(base64.StdEncoding.EncodeToString(library))
		v.Policy = policy(string(v.Script), unpack(library))
	}
	for _, t := range rep.Tables {
		if len(t.Rows) == 0 {
			continue
		}
		v.Tables = append(v.Tables, t.cells())
	}
	t, err := template.ParseFS(page, "page/page.html")
	if err != nil {
		return err
	}
	if err := t.Execute(w, v); err != nil {
		return fmt.Errorf("report %q: %w", rep.Title, err)
	}
	return nil
}

func pageFile(name string) string {
	b, err := page.ReadFile("page/" + name)
	if err != nil {
		panic(err) // embedded at build time
	}
	return string(b)
}

// script is the page's own code, in the order that its files need.
func script() string {
	var b strings.Builder
	b.WriteString("\"use strict\";\n(() => {\n")
	for _, name := range []string{"tables.js", "data.js", "paint.js", "timeline.js", "input.js", "address.js", "page.js"} {
		b.WriteString(pageFile(name))
	}
	b.WriteString("})();\n")
	return b.String()
}

// policy is the page's content security policy: no network, and of scripts
// only those whose hash it states.
func policy(scripts ...string) string {
	p := "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src"
	for _, s := range scripts {
		p += " " + hash(s)
	}
	return p
}

func hash(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
