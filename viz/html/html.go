// Package html writes a report: one HTML file with charts, timelines and
// tables that needs nothing but itself.
//
//	Report ──bars───────▶ go-echarts options ─┐
//	       ──lanes──────▶ panel of rows       ├─▶ JSON in the page ──page/*.js──▶ canvas
//	       ──workgroups─▶ panel of rows      ─┘
//	       ──tables─────▶ html/template ─────────────────────────────────────────▶ tables
//
// Names in a report come from traces and are hostile text. They reach the page
// as escaped HTML or as strings of a JSON document, never as markup or code,
// and the page's policy lets only the scripts run that this package wrote.
package html

import (
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
)

// A Report is everything that the page shows. It is plain data: who makes it
// decides what is compared with what. Empty parts are left out of the page.
type Report struct {
	Title      string
	Verdict    string     // what to do, in a sentence or two; may be ""
	Facts      []Fact     // shown below the title: machine, capture, model error
	Strategies []Bar      // in the order they are shown
	Captured   trace.Time // the captured schedule's time, which changes are measured against; 0: show none
	Runs       []Named    // in the order they are shown, one below the other on one time axis
	Tables     []Table    // the why: idle causes, evidence, ledger
}

// A Fact is a short statement about the whole report.
type Fact struct{ Name, Value string }

// A Bar is one strategy.
type Bar struct {
	Name   string
	Params string     // "chunks=4 channels=8"; may be ""
	Time   trace.Time // makespan; 0 if it did not run, and Note says why
	Parts  Parts
	Bound  bool   // a bound to compare with, which no schedule need reach
	Note   string // what limits it
}

// Parts is what a makespan went to. What they lack of it counts as idle.
type Parts struct {
	Compute    trace.Time // computation with nothing beside it
	Overlapped trace.Time // computation and communication or copies at once
	Exposed    trace.Time // communication with nothing beside it
	Copies     trace.Time // copies with nothing beside them
}

// A Named is a run under the name that the reader knows it by.
type Named struct {
	Name    string
	Note    string // beside its time: "−22.8 %"; may be ""
	Run     *trace.Run
	Gaps    []layout.Gap // why queues stood still, where somebody knows
	Cluster int          // workgroups that compute one slice together, for the order of rows; 0 stands for 16
}

// A Table is rows of text under a heading.
type Table struct {
	Title   string
	Note    string // a sentence above the table
	Columns []Column
	Rows    [][]string
}

// A Column is the head of a column. Numbers stand to the right and sort by value.
type Column struct {
	Name   string
	Number bool
}

//go:generate npm ci --ignore-scripts --no-audit --no-fund
//go:generate npm run --silent embed

//go:embed page
var page embed.FS

//go:embed assets
var assets embed.FS

// EChartsURL is where a report without ECharts inside loads it from, and
// EChartsIntegrity is the only content that it accepts from there.
const (
	EChartsVersion   = "5.6.0"
	EChartsURL       = "https://cdn.jsdelivr.net/npm/echarts@" + EChartsVersion + "/dist/echarts.min.js"
	EChartsIntegrity = "sha384-pPi0zxBAoDu6+JXW/C68UZLvBUUtU+7zonhif43rqj7pxsGyqyqzcian2Rj37Rss"
)

// Embedded reports whether this binary carries ECharts, so that its reports
// need no network. `go generate ./viz/html` before the build puts it there.
func Embedded() bool { return echarts() != "" }

func echarts() string {
	b, err := assets.ReadFile("assets/echarts.min.js")
	if err != nil {
		return "" // only the placeholder is there
	}
	return string(b)
}

// Write writes the report to w.
func Write(w io.Writer, rep Report) error { return write(w, rep, echarts()) }

// view is what page.html is filled with.
type view struct {
	Report
	Policy                                       string
	Style                                        template.CSS
	Data, ECharts, Script                        template.JS
	EChartsVersion, EChartsURL, EChartsIntegrity string
	Verdict                                      string
	Bars                                         *cells
	Lanes, Workgroups                            bool
	Tables                                       []cells
}

func write(w io.Writer, rep Report, echarts string) error {
	d, err := newData(rep)
	if err != nil {
		return fmt.Errorf("report %q: %w", rep.Title, err)
	}
	text, err := json.Marshal(d) // escapes <, > and &, so that no name can end the script
	if err != nil {
		return fmt.Errorf("report %q: %w", rep.Title, err)
	}
	v := view{
		Report:           rep,
		Style:            template.CSS(pageFile("page.css")),
		Data:             template.JS(text),
		ECharts:          template.JS(echarts),
		Script:           template.JS(script()),
		EChartsVersion:   EChartsVersion,
		EChartsURL:       EChartsURL,
		EChartsIntegrity: EChartsIntegrity,
		Verdict:          rep.Verdict,
		Bars:             rep.strategyCells(),
		Lanes:            d.Lanes != nil,
		Workgroups:       d.Workgroups != nil,
	}
	v.Policy = policy(string(v.Script), echarts)
	for _, t := range rep.Tables {
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
	for _, name := range []string{"data.js", "paint.js", "timeline.js", "input.js", "page.js"} {
		b.WriteString(pageFile(name))
	}
	b.WriteString("})();\n")
	return b.String()
}

// policy is the page's content security policy: no network, and of scripts
// only those whose hash it states. Without ECharts inside, its address is let through.
func policy(script, echarts string) string {
	sources := hash(script)
	if echarts != "" {
		sources += " " + hash(echarts)
	} else {
		sources += " " + EChartsURL
	}
	return "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src " + sources
}

func hash(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
