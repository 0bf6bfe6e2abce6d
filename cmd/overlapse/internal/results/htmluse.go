package results

import (
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/console"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/html"
	"github.com/overlapse/overlapse/viz/layout"
)

// leastShare is the share of a resource that a chart shows.
const leastShare = 0.005

// useOf is what the GPUs use over time, as shares: compute units, memory and links as
// simulated, and how many copies run.
func useOf(r *replay.Result) []html.Use {
	classes := map[string]layout.Class{replay.ComputeUnits: layout.Local, replay.Memory.String(): layout.Memory, replay.MemoryOfComputation: layout.Memory, replay.Cache.String(): layout.Memory}
	var all []html.Use
	for _, u := range r.Usage {
		if slices.Max(u.Shares) < leastShare {
			continue
		}
		class, ok := classes[u.Of]
		if !ok {
			class = layout.Comm
		}
		use := html.Use{Rank: int32(u.GPU), Name: u.Of, Color: class.CSS(), Most: 100, Unit: "%"}
		for i, share := range u.Shares {
			use.Points = append(use.Points, html.Point{At: trace.Time(i) * u.Width, Value: 100 * share})
		}
		all = append(all, use)
	}
	return all
}

// causeColors are those of the causes of memory traffic, in the order in which they appear.
var causeColors = []string{"#56b4e9", "#cc79a7", "#e69f00", "#009e73", "#0072b2", "#f0e442", "#d55e00", "#999999", "#6a51a3", "#b08d57"}

// memoryTable has each strategy's memory traffic by cause.
func (r *Replayed) memoryTable() html.Table {
	t := console.Table{
		Title:   "Memory traffic by cause",
		Note:    "Bytes per rank and iteration. Library collectives count by the rule of their ring, all other traffic as simulated.",
		Columns: []string{"strategy", "cause", "read, MB", "written, MB"},
	}
	chart := html.Chart{Unit: "MB"}
	part := map[string]int{}
	for _, row := range r.Rows {
		if len(row.Memory) == 0 {
			continue
		}
		bar, sum := html.Line{Name: r.RunName(row.At)}, 0.0
		for _, m := range row.Memory {
			t.Add(bar.Name, m.Cause, fmt.Sprintf("%.1f", m.Read/1e6), fmt.Sprintf("%.1f", m.Written/1e6))
			cause := m.Cause
			if strings.HasPrefix(cause, "copy ") { // of each pair of ranks
				cause = "copies"
			}
			at, ok := part[cause]
			if !ok {
				at = len(chart.Parts)
				part[cause] = at
				chart.Parts = append(chart.Parts, html.Part{Name: cause, Color: causeColors[at%len(causeColors)]})
			}
			bar.Values = append(bar.Values, make([]float64, max(0, at+1-len(bar.Values)))...)
			bar.Values[at] += (m.Read + m.Written) / 1e6
			sum += (m.Read + m.Written) / 1e6
		}
		bar.Note = html.Value(sum, "MB")
		bar.Tip = bar.Name + ": " + bar.Note
		chart.Bars = append(chart.Bars, bar)
	}
	page := t.HTML()
	page.Chart = &chart
	return page
}
