package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"maps"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/sweep"
	"github.com/overlapse/overlapse/viz/html"
)

func writeSweepCSV(w *bytes.Buffer, rows []sweep.Row) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"input", "machine", "what_if", "clock", "ranks", "retarget", "strategy", "settings", "seed", "applies", "time_us", "fastest_us", "slowest_us", "captured_us", "change", "exposed_us", "confidence", "why", "id"})
	us := func(ns int64) string { return fmt.Sprintf("%.3f", float64(ns)/1e3) }
	for _, r := range rows {
		_ = c.Write([]string{
			r.Input, r.Machine, r.WhatIf, r.Clock, r.Ranks, r.Retarget, r.Strategy, r.Settings, fmt.Sprint(r.Seed), fmt.Sprint(r.Applies),
			us(r.Time), us(r.Fastest), us(r.Slowest), us(r.Captured), fmt.Sprintf("%.4f", r.Change), us(r.Exposed), r.Confidence, r.Why, r.ID,
		})
	}
	c.Flush()
	return c.Error()
}

// sweepPage is the report of a sweep. Every setting of a strategy is an axis.
func sweepPage(title string, axes *sweep.Axes, found sweepResult) html.Sweep {
	names := []string{"input", "machine", "what if", "clock", "ranks", "retarget", "strategy", "seed"}
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
	p := html.Sweep{Title: title, Axes: names, Facts: []html.Fact{{Name: "cells", Value: fmt.Sprint(len(found.Cells))}, {Name: "program", Value: found.Version}}}
	for _, r := range found.Cells {
		at := make([]string, len(names))
		copy(at, []string{r.Input, cmp.Or(r.Machine, "default"), cmp.Or(r.WhatIf, "default"), cmp.Or(r.Clock, "captured"), cmp.Or(r.Ranks, "default"), cmp.Or(r.Retarget, "default"), r.Strategy, fmt.Sprint(r.Seed)})
		for i, name := range names[fixed:] {
			at[fixed+i] = values[r.Strategy+" "+r.Settings][name]
		}
		c := html.SweepCell{At: at}
		if r.Applies {
			c.Time, c.Change, c.Exposed = float64(r.Time)/1e3, 100*r.Change, float64(r.Exposed)/1e3
		}
		p.Cells = append(p.Cells, c)
	}
	p.Best = html.Table{Title: "Fastest setting of each workload"}
	heads, rows := bestTable(found.Best)
	for _, h := range heads {
		p.Best.Columns = append(p.Best.Columns, html.Column{Name: h, Number: h == "time" || h == "vs captured"})
	}
	p.Best.Rows = rows
	return p
}
