package results

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/tiles"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// A pairRow is a kind of pair, with every strategy applied to this kind only.
type pairRow struct {
	Number     int    `json:"number"` // from 1, as inspect lists them
	Direction  string `json:"direction"`
	First      string `json:"first"`
	Second     string `json:"second"`
	Bytes      int64  `json:"bytes"`
	Count      int    `json:"count"`
	Strategies []Row  `json:"strategies"`      // with only a time, a change, or why they do not apply
	Phase      string `json:"phase,omitempty"` // of the first of them, whose steps the times are of, where phases are answered apart
	Best       string `json:"best,omitempty"`  // with its settings; "" if none is faster than the captured schedule
	best       *Row   // or nil
	kernels    string // pairNames
}

// ComparePairs adds the rows by kind of pair, and the row of the best mix.
func ComparePairs(ctx context.Context, con *cli.Console, r *Replayed, m machine.Machine, sel []plan.Selection, opts replay.Options) error {
	sel = slices.DeleteFunc(slices.Clone(sel), func(s plan.Selection) bool {
		return s.Strategy.Kind == plan.Exact || s.Strategy.Kind == plan.Bound || s.Strategy.Kind == plan.Future
	})
	bar := con.Progress(len(sel)*len(workload.Pairs(r.workload)), "replaying pairs")
	choices, mixed, err := engines.Pairs(r.workload, m, sel, r.scenario, r.reference, opts, func() { bar.Add(1) })
	bar.Finish()
	if err != nil {
		return Stopped(ctx, err)
	}
	for k, c := range choices {
		row := pairRow{Number: k + 1, Direction: c.Direction, First: c.First, Second: c.Second, Bytes: c.Bytes, Count: c.Count}
		first, second := pairNames(r.workload, c.Rows)
		row.kernels = first + " → " + second
		if c.Phase > 0 {
			row.Phase = r.Phases[c.Phase-1].Phase
		}
		for i, out := range c.Outcomes {
			t := Row{Applies: out.Why == "", Why: out.Why}
			t.Strategy, t.Parameters, t.Settings, t.Phase = out.Strategy.Name, out.Values, out.Strategy.String(out.Values), row.Phase
			if t.Applies {
				t.Time, t.Change = int64(out.Expected), out.ChangeFrom(r.reference.Of(c.Phase).Expected)
			}
			row.Strategies = append(row.Strategies, t)
			if i == c.Best {
				row.Best, row.best = t.Name(), &t
			}
		}
		r.PairKinds = append(r.PairKinds, row)
	}
	r.add(r.judged(mixed))
	for _, mix := range r.mixes() {
		mix.Settings = mixed.Strategy.Summary
	}
	r.judge()
	return nil
}

// mixes are the rows of the best mix, which are the last.
func (r *Replayed) mixes() (rows []*Row) {
	for i := range r.Rows {
		if row := &r.Rows[i]; row.At == len(r.Outcomes)-1 {
			rows = append(rows, row)
		}
	}
	return rows
}

// printPairs prints the fastest strategy of each kind of pair.
func printPairs(con *cli.Console, r *Replayed) {
	if len(r.PairKinds) == 0 {
		return
	}
	title, changes := "no strategy gains on any kind of pair alone", []string(nil)
	for _, mix := range r.mixes() {
		if mix.Applies {
			changes = append(changes, r.ofPhase(mix.phase)+trace.Percent(mix.Change))
			title = fmt.Sprintf("the best of each kind of pair together (%s): %s", mix.Settings, strings.Join(changes, ", "))
		}
	}
	fmt.Fprintf(con.Out, "\n%s; each kind alone:\n", guard.Line(title))
	t := cli.Table{Columns: []string{"pair", "kernels", "size", "count"}}
	for _, s := range r.PairKinds[0].Strategies {
		t.Columns = append(t.Columns, s.Name())
	}
	t.Columns = append(t.Columns, "best")
	cells := r.cells()
	for _, p := range r.PairKinds {
		if p.Phase != "" && !slices.Contains(t.Columns, "steps") {
			t.Columns = append(t.Columns, "steps")
		}
		row := []any{p.Number, p.kernels, unless(p.Bytes == 0, trace.Bytes(p.Bytes)), p.Count}
		for _, s := range p.Strategies {
			row = append(row, cells["change"](&s))
		}
		best := "as captured"
		if p.best != nil {
			best = fmt.Sprintf("%s %s", p.Best, trace.Percent(p.best.Change))
		}
		t.Add(append(row, best, p.Phase)[:len(t.Columns)]...)
	}
	con.Show(&t)
}

// pairNames are short names of the kernels of alike pairs: their sizes where they are products, as one kernel computes several.
func pairNames(w *workload.Workload, rows []int) (first, second string) {
	name := func(of func(*workload.Pair) int32) string {
		op := &w.Ops[of(&w.Pairs[rows[0]])]
		other := func(row int) bool { return w.Ops[of(&w.Pairs[row])].Shape != op.Shape }
		if text := op.Shape.String(); strings.HasPrefix(text, "gemm ") && !slices.ContainsFunc(rows, other) {
			return strings.Join(strings.Fields(text)[:2], " ")
		}
		return cli.Middle(trace.Short(op.Name), 22)
	}
	return name(func(p *workload.Pair) int32 { return p.First[0] }), name(func(p *workload.Pair) int32 { return p.Second[0] })
}

// A pairWaves is the waves of the two kernels of a kind of pair.
type pairWaves struct {
	Pair   int    `json:"pair"` // from 1, as inspect lists them
	First  string `json:"first_kernel"`
	Second string `json:"second_kernel"`
	tiles.Waves
}

// wavesOf counts the waves of each kind of dependent kernels.
func wavesOf(w *workload.Workload, m machine.Machine) []pairWaves {
	var all []pairWaves
	for i, kind := range workload.Pairs(w) {
		p := &w.Pairs[kind.Rows[0]]
		if p.Direction != workload.ComputeThenCompute || len(p.First) == 0 {
			continue
		}
		first, second := &w.Ops[p.First[0]], &w.Ops[p.Second[0]]
		if waves, ok := tiles.WavesOf(m, first, second); ok {
			all = append(all, pairWaves{i + 1, first.Name, second.Name, waves})
		}
	}
	return all
}
