package sweep

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/console"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/schema"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/words"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/html"
)

// Of is the result of the cells of a complete sweep.
func Of(axes *Axes, rows []Row) Results {
	return Results{schema.Version, axes.Version, BestOf(rows, recommendable), rows}
}

// Save writes results.json, results.csv, results.parquet and results.html.
func (r *Results) Save(to Folder, axes *Axes) error {
	const title = "Sweep" // not the plan's name: a merge without the plan gives the same bytes
	all := []struct {
		name  string
		write func(*bytes.Buffer) error
	}{
		{"results.json", func(w *bytes.Buffer) error { return schema.WriteJSON(w, r) }},
		{"results.csv", func(w *bytes.Buffer) error { return schema.WriteTableCSV(w, slices.Values(r.Cells)) }},
		{"results.parquet", func(w *bytes.Buffer) error { return schema.WriteParquet(w, slices.Values(r.Cells)) }},
		{"results.html", func(w *bytes.Buffer) error { return html.WriteSweep(w, r.page(title, axes)) }},
	}
	texts := make([]bytes.Buffer, len(all)) // complete before the first is written, so that they are soon replaced together
	for i, f := range all {
		if err := f.write(&texts[i]); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	for i, f := range all {
		if err := to.write(f.name, texts[i].Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// page is the report of a sweep. Every setting of a strategy is an axis.
func (r *Results) page(title string, axes *Axes) html.Sweep {
	names := []string{"input", "machine", "what if", "clock", "ranks", "retarget", "seed", "strategy"}
	fixed := len(names)
	values := map[string]plan.Values{} // by strategy and settings
	for _, s := range axes.Strategies {
		values[s.Strategy+" "+s.Settings] = s.Values
		for _, name := range slices.Sorted(maps.Keys(s.Values)) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	p := html.Sweep{Title: title, Axes: names, Scenario: fixed - 1, Facts: []html.Fact{{Name: "cells", Value: fmt.Sprint(len(r.Cells))}, {Name: "program", Value: r.Version}}}
	for _, cell := range r.Cells {
		at := make([]string, len(names))
		copy(at, []string{cell.Input, cmp.Or(cell.Machine, "default"), cmp.Or(cell.WhatIf, "default"), cmp.Or(cell.Clock, "captured"), cmp.Or(cell.Ranks, "default"), cmp.Or(cell.Retarget, "default"), fmt.Sprint(cell.Seed), cell.Strategy})
		for i, name := range names[fixed:] {
			at[fixed+i] = values[cell.Strategy+" "+cell.Settings][name]
		}
		c := html.SweepCell{At: at}
		if cell.Applies {
			c.Time, c.Change, c.Exposed = float64(cell.Time)/1e3, 100*cell.Change, float64(cell.Exposed)/1e3
		}
		p.Cells = append(p.Cells, c)
	}
	p.Best = r.best().HTML()
	return p
}

// A Results is results.json.
type Results struct {
	Schema  int    `json:"schema"`
	Version string `json:"version"` // of the program
	Best    []Best `json:"best"`
	Cells   []Row  `json:"cells"`
}

// recommendable reports whether a strategy can run on GPUs that exist.
func recommendable(name string) bool {
	i := slices.IndexFunc(engines.All(), func(s plan.Strategy) bool { return s.Name == name })
	return i >= 0 && !engines.All()[i].Bound && !engines.All()[i].Future
}

// Print prints the fastest setting of each workload.
func (r *Results) Print(con *console.Console) { con.Show(r.best()) }

// best has the fastest settings. Axes with one value have no column, except the inputs.
func (r *Results) best() *console.Table {
	t := &console.Table{Title: "fastest setting of each workload"}
	rows := make([][]any, len(r.Best))
	for _, axis := range []struct {
		name string
		of   func(Best) string
	}{
		{"input", func(b Best) string { return b.Input }},
		{"machine", func(b Best) string { return b.Machine }},
		{"what if", func(b Best) string { return b.WhatIf }},
		{"clock", func(b Best) string { return b.Clock }},
		{"ranks", func(b Best) string { return b.Ranks }},
		{"retarget", func(b Best) string { return b.Retarget }},
	} {
		differs := slices.ContainsFunc(r.Best, func(b Best) bool { return axis.of(b) != axis.of(r.Best[0]) })
		if axis.name != "input" && !differs {
			continue
		}
		t.Columns = append(t.Columns, axis.name)
		for i, b := range r.Best {
			rows[i] = append(rows[i], cmp.Or(axis.of(b), "default"))
		}
	}
	t.Columns = append(t.Columns, "time", "vs captured", "confidence", "next", "fastest setting")
	for i, b := range r.Best {
		if b.Strategy == "" {
			t.Add(append(rows[i], "-", "-", "-", "-", "no strategy applies")...)
			continue
		}
		next := "-"
		if b.NextTime > 0 {
			next = words.Percent(float64(b.NextTime)/float64(b.Time)-1) + " " + b.Next
		}
		t.Add(append(rows[i], words.Micros(trace.Time(b.Time)), words.Percent(b.Change), b.Confidence, next, strings.TrimSpace(b.Strategy+" "+b.Settings))...)
	}
	return t
}
