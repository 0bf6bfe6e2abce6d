package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/plain"
)

// printApproximation says below the table of which strategies the rates are approximate.
func (a *app) printApproximation(r *replayed) {
	for _, row := range r.Rows {
		if x := row.Approximation; x != nil {
			fmt.Fprintf(a.out, "\n%s: approximate rates, since up to %d transfers contend at once: each is early or late by up to %.2g %% of the time\n",
				row.Strategy, x.Paths, 100*x.Error)
		}
	}
}

func (a *app) printReplay(r *replayed) {
	fmt.Fprintf(a.out, "%s on %s: %d ranks, %s of %s; times of %s\n", plain.Line(r.Path), plain.Line(r.Machine), r.Ranks, counted(r.Pairs, "pair"), counted(len(r.workload.PairKinds()), "kind"), r.unit())
	if r.Clock != "" {
		fmt.Fprintf(a.out, "all times are at clock %s, the captured schedule's too\n", r.Clock)
	}
	if r.Estimated != "" {
		fmt.Fprintln(a.out, plain.Line(r.Estimated))
	}
	fmt.Fprintln(a.out)
	t := a.table("strategy", "parameters", "time", "change", "exposed comm.", "confidence", "limited by")
	for _, row := range r.Rows {
		if !row.Applies {
			t.AppendRow(table.Row{r.shown(row.Strategy), row.settings, "-", "-", "-", "-", row.reason()})
			continue
		}
		t.AppendRow(table.Row{r.shown(row.Strategy), row.settings, micros(trace.Time(row.Time)), percent(row.Change), micros(trace.Time(row.Exposed)), row.Confidence.Level, row.Limit})
	}
	t.Render()
	a.printApproximation(r)
	a.printVerdict(r.Verdict)
	a.printPairs(r)
	a.printSpreads(r)
	a.printConfidence(r)
	a.printIsolation(r.Isolation)
	res := r.Residual
	fmt.Fprintf(a.out, "\nresidual of the %s schedule: worst %s of %d operations", r.given(), micros(res.Worst), res.Ops)
	if res.Worst > 0 {
		fmt.Fprintf(a.out, " (%s, %.2f %%)", plain.Line(shorten(res.WorstOp, 40)), res.WorstPct)
	}
	fmt.Fprintf(a.out, "; %d beyond 1 µs and 1 %%; %s %s\n", res.Outside, r.basis(), micros(trace.Time(r.Measured)))
}

func writeCSV(w io.Writer, r *replayed) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"strategy", "parameters", "applies", "time_us", "change", "exposed_us", "limited_by", "confidence", "confidence_why", "fastest_us", "median_us", "slowest_us", "basis"})
	for _, row := range r.Rows {
		why := row.Limit
		if !row.Applies {
			why = row.Why
		}
		_ = c.Write(slices.Concat([]string{
			row.Strategy, row.settings, fmt.Sprint(row.Applies), fmt.Sprintf("%.3f", float64(row.Time)/1e3),
			fmt.Sprintf("%.4f", row.Change), fmt.Sprintf("%.3f", float64(row.Exposed)/1e3), why,
			string(row.Confidence.Level), row.Confidence.Why,
		}, row.spread(), []string{r.basis()}))
	}
	c.Flush()
	return c.Error()
}

// printVerdict says what to do, and what takes less than the bound.
func (a *app) printVerdict(v verdict.Verdict) {
	for i, sentence := range v.Sentences {
		if i == 0 {
			fmt.Fprintln(a.out)
		}
		fmt.Fprintln(a.out, plain.Line(sentence))
	}
	for i, b := range v.Below {
		if i == 0 {
			fmt.Fprintln(a.out)
		}
		fmt.Fprintf(a.out, "%s takes less than ideal, which pays for what it saves: %s\n", plain.Line(b.Strategy), b.Why)
	}
}

// printIsolation says what the captured overlap did to kernels and collectives.
func (a *app) printIsolation(i *workload.Isolation) {
	switch {
	case i == nil || i.Disturbed == 0:
	case i.Why != "":
		fmt.Fprintf(a.out, "\n%d of %d operations ran beside others when captured; their times alone are not known: %s\n", i.Disturbed, i.Operations, plain.Line(i.Why))
	default:
		fmt.Fprintf(a.out, "\n%d of %d operations ran beside others when captured: alone, their compute takes %.0f %% less and their collectives %.0f %% less "+
			"(simulated with interference, they are %.1f %% off their captured times in the median, %.1f %% in the 90th percentile)\n",
			i.Disturbed, i.Operations, 100*(1-1/max(1, i.Compute)), 100*(1-1/max(1, i.Collective)), 100*i.Median, 100*i.P90)
	}
}

// printConfidence says why predictions are to be taken with care, each reason once.
func (a *app) printConfidence(r *replayed) {
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
