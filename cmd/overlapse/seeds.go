package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/viz/plain"
)

// mostSeeds is more than a distribution needs and less than an evening takes.
const mostSeeds = 1000

func seedsInRange(n int) error {
	if n < 0 || n > mostSeeds {
		return usageError{fmt.Errorf("--seeds %d: give 0 to %d", n, mostSeeds)}
	}
	return nil
}

// spread replays every strategy under n seeds.
func (a *app) spread(ctx context.Context, r *replayed, m machine.Machine, sel []plan.Selection, n int, stop func() bool) error {
	bar := a.progress(len(sel)*n, "replaying with other luck")
	found, err := compare.Spreads(r.workload, m, sel, r.scenario, n, stop, func() { _ = bar.Add(1) })
	_ = bar.Finish()
	if err != nil {
		return stopped(ctx, err)
	}
	if len(found) != len(r.Rows) {
		return errors.New("strategies and their distributions differ in number")
	}
	for i, s := range found {
		if len(s.Times) > 0 {
			r.Rows[i].Seeds = &s
		}
	}
	return nil
}

// printSpreads prints fastest, median and slowest where they were asked for.
func (a *app) printSpreads(r *replayed) {
	if !slices.ContainsFunc(r.Rows, func(row replayRow) bool { return row.Seeds != nil }) {
		return
	}
	t := a.section("with other luck: who gets compute units first, when ranks arrive", "strategy", "parameters", "seeds", "fastest", "median", "slowest", "modes")
	for _, row := range r.Rows {
		if s := row.Seeds; s != nil {
			t.AppendRow(table.Row{row.Strategy, row.settings, len(s.Times), micros(s.Fastest()), micros(s.Median()), micros(s.Slowest()), modesOf(s)})
		}
	}
	t.Render()
}

// modesOf names two groups of times, if there are two.
func modesOf(s *compare.Spread) string {
	if len(s.Modes) < 2 {
		return ""
	}
	var words []string
	for _, m := range s.Modes {
		words = append(words, fmt.Sprintf("%d near %s", m.Seeds, micros(m.Median)))
	}
	return strings.Join(words, ", ")
}

// printDoubts says why predictions are to be taken with care, each reason once.
func (a *app) printDoubts(r *replayed) {
	type doubt struct{ level, why string }
	var order []doubt
	by := map[doubt][]string{}
	for _, row := range r.Rows {
		d := doubt{string(row.Confidence.Level), row.Confidence.Why}
		if !row.Applies || row.Confidence.Level == verdict.High {
			continue
		}
		if by[d] == nil {
			order = append(order, d)
		}
		if !slices.Contains(by[d], r.shown(row.Strategy)) {
			by[d] = append(by[d], r.shown(row.Strategy))
		}
	}
	if len(order) > 0 {
		fmt.Fprintln(a.out)
	}
	for _, d := range order {
		fmt.Fprintf(a.out, "confidence %s: %s: %s\n", d.level, strings.Join(by[d], ", "), plain.Line(d.why))
	}
}

// spread is a row's fastest, median and slowest time for CSV; empty without seeds.
func (r *replayRow) spread() []string {
	if r.Seeds == nil {
		return []string{"", "", ""}
	}
	us := func(t program.Time) string { return fmt.Sprintf("%.3f", float64(t)/1e3) }
	return []string{us(r.Seeds.Fastest()), us(r.Seeds.Median()), us(r.Seeds.Slowest())}
}
