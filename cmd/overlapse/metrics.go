package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// printMetrics shows where each rank's time went, with our definitions or another tool's.
func (a *app) printMetrics(run *trace.Run, m *overlap.Metrics, compat string) {
	title := "where the time went"
	parts := make([]overlap.Breakdown, len(m.Ranks))
	for i, r := range m.Ranks {
		parts[i] = r.Breakdown
	}
	if compat != "" {
		title += ", as " + compat + " defines it"
		parts = overlap.Compat(run, overlap.Tool(compat))
	}
	t := a.section(title, "rank", "total", "compute", "communication", "overlapped", "overlap", "exposed", "exposed copies", "idle", "idle because")
	for i, b := range parts {
		percent := "-"
		if p, ok := b.OverlapPercent(); ok {
			percent = fmt.Sprintf("%.2f %%", p)
		}
		t.AppendRow(table.Row{
			m.Ranks[i].Rank, micros(b.Total), micros(b.Compute), micros(b.Communication), micros(b.Overlapped), percent,
			micros(b.Exposed), micros(b.ExposedCopy), micros(b.Idle), because(m.Ranks[i].IdleCauses),
		})
	}
	t.Render()
}

// because lists causes of idle time, those that are a tenth of it or more.
func because(c overlap.Causes) string {
	all := c.Host + c.Sync + c.Launch + c.Queued + c.Unknown
	var words []string
	for _, x := range []struct {
		name string
		t    trace.Time
	}{{"host late", c.Host}, {"synchronised", c.Sync}, {"launch", c.Launch}, {"queued", c.Queued}, {"unknown", c.Unknown}} {
		if x.t > 0 && x.t*10 >= all {
			words = append(words, fmt.Sprintf("%s %.0f %%", x.name, 100*float64(x.t)/float64(all)))
		}
	}
	return strings.Join(words, ", ")
}

// explainMetrics prints what every figure means.
func (a *app) explainMetrics(compat string) {
	fmt.Fprintln(a.out)
	for _, d := range overlap.Explain() {
		fmt.Fprintf(a.out, "%s: %s\n", d.Term, d.Meaning)
	}
	if compat != "" {
		fmt.Fprintf(a.out, "%s: %s\n", compat, overlap.Tool(compat).Definition())
	}
}
