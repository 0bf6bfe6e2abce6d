// Package validate replays measured rows under their strategies and compares
// what is predicted with what was measured.
package validate

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/calibrate"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Check is one measured row beside the prediction for it.
type Check struct {
	Row        calibrate.Row
	Predicted  float64 // microseconds an iteration, the mean over how tosses fall; 0 where Why says that there is none
	Fastest    float64 // with seeds: microseconds; else 0
	Slowest    float64
	Confidence verdict.Confidence
	Why        string
	Warm       float64 // the GPUs' average draw after the row, in the terms of machine.Clock
}

// Error is predicted over measured, less one.
func (c Check) Error() float64 { return c.Predicted/c.Row.Us - 1 }

// CheckRow replays a row's trace under the row's strategy and settings; with
// seeds, so many times, and the median counts. What cannot be predicted is a
// Check with the reason. warm is the average draw of the GPUs when the row was
// begun: Warm of the row that was measured before it, 0 after a pause.
func CheckRow(row calibrate.Row, run *trace.Run, m machine.Machine, seeds int, warm float64) Check {
	c := Check{Row: row, Warm: warm}
	s, why := selectionOf(row)
	if why != "" {
		c.Why = why
		return c
	}
	w, err := workload.Lift(run, correctionsOf(row))
	if err != nil {
		c.Why = err.Error()
		return c
	}
	itself := row.Params.Iterations > 0 && len(w.Steps) < 2
	w = unroll(w, row.Params.Iterations)
	sc := plan.Scenario{Clock: plan.FullClock, Rest: rest(row.Params) / float64(max(1, row.Params.Iterations))}
	if itself && !row.Params.Cool && !row.Params.Sustained { // the capture is of such a loop as was measured, as warm as that
		sc.Clock = plan.CapturedClock
	}
	if row.Params.Queued {
		l := &m.Launch
		l.Host.Value, l.Compiled.Value, l.HostEvent.Value, l.HostCollective.Value = 0, 0, 0, 0
	}
	out, err := compare.Run(w, m, s, sc, replay.Options{})
	if err == nil && out.Result != nil && sc.Clock == plan.FullClock {
		if sc.Clock = c.measuredIn(w, &m, out); sc.Clock != plan.FullClock {
			out, err = compare.Run(w, m, s, sc, replay.Options{})
		}
	}
	switch {
	case err != nil:
		c.Why = err.Error()
	case out.Result == nil:
		c.Why = out.Why
	default:
		c.Predicted, c.Confidence = float64(out.Expected)/1e3, verdict.ConfidenceOf(w, out)
		c.spread(w, m, s, sc, seeds)
	}
	return c
}

// How samples/capture measures a row: iterations to warm up, then those of which
// the median counts, after each of which the GPUs idle until all ranks have met
// and the host is ahead again, before loops and one-sided operators for longer
// (the gaps of samples/measurements/2026-11-22-h200x4-fifth/kernels.jsonl.gz: 2.7 to 3.3 ms).
const (
	warmUps  = 3
	timed    = 10
	meeting  = 1.3e-3 // seconds
	ahead    = 0.4e-3
	aheadPer = 0.1e-3 // chunk
	aheadFar = 1.5e-3
)

// rest is the seconds for which GPUs idle after an iteration of a row.
func rest(p calibrate.Params) float64 {
	switch {
	case p.RestUs > 0:
		return p.RestUs * 1e-6
	case p.Sustained:
		return 0
	case !p.Queued:
		return meeting
	case p.Iterations > 0 || p.Impl != "":
		return meeting + aheadFar
	}
	return meeting + ahead + aheadPer*float64(p.Chunks)
}

// measuredIn is the regime that the median iteration of the row was in, where out
// is the prediction for a cool one.
func (c *Check) measuredIn(w *workload.Workload, m *machine.Machine, out compare.Outcome) plan.ClockRegime {
	p := c.Row.Params
	d := plan.ClockOf(w, m, out.Scenario).Demand(out.Scenario, out.Time)
	if d.Time == 0 || p.Cool {
		return plan.FullClock
	}
	draw, before := m.Clock.Draw(d, 1), c.Warm
	each := d.Time * float64(max(1, p.Iterations))
	c.Warm = m.Clock.Warmed(before, draw, each*(warmUps+timed))
	if p.Sustained || each*(warmUps+timed/2) > m.Clock.Lasts(before, draw) {
		return plan.SettledClock
	}
	return plan.FullClock
}

// InTurn groups rows, by their place, that were measured one after another by one
// process: neighbours that start from the same trace.
func InTurn(rows []calibrate.Row) [][]int {
	var turns [][]int
	for i, row := range rows {
		if i == 0 || row.Trace != rows[i-1].Trace || row.Trace == "" {
			turns = append(turns, nil)
		}
		turns[len(turns)-1] = append(turns[len(turns)-1], i)
	}
	return turns
}

func (c *Check) spread(w *workload.Workload, m machine.Machine, s plan.Selection, sc plan.Scenario, seeds int) {
	found, err := compare.Spreads(w, m, []plan.Selection{s}, sc, seeds, nil, nil)
	if err != nil {
		c.Why = err.Error()
	} else if x := found[0]; len(x.Times) > 0 {
		c.Predicted, c.Fastest, c.Slowest = float64(x.Median())/1e3, float64(x.Fastest())/1e3, float64(x.Slowest())/1e3
	}
}

// correctionsOf tells the lift what a row knows and its trace does not: shapes
// and tiles of kernels that no framework operator launched.
func correctionsOf(row calibrate.Row) workload.Options {
	k := row.Workload
	o := workload.Options{Unprofiled: true, Shapes: map[string]workload.Shape{}, Tiles: map[string]workload.Tiling{}}
	switch {
	case len(k.Tile) == 3 && k.M > 0:
		o.Shapes["gemm_k"] = workload.Shape{Kind: workload.GEMM, M: k.M, N: k.N, K: k.K, ElemSize: 2, DType: k.DType, Evidence: "row " + row.ID}
		o.Tiles["gemm_k"] = workload.Tiling{TileM: k.Tile[0], TileN: k.Tile[1]}
	case k.Kind == "gemm+gemm" && len(k.Tile) == 3 && len(k.Grids) == 2:
		for i, name := range []string{fmt.Sprintf("sync_k@%d", k.Grids[0]), fmt.Sprintf("sync_k@%d", k.Grids[1])} {
			sh := workload.Shape{Kind: workload.GEMM, M: k.Batch, N: k.FFN, K: k.Hidden, ElemSize: 2, DType: k.DType, Evidence: "row " + row.ID}
			if i == 1 {
				sh.N, sh.K = sh.K, sh.N
			}
			o.Shapes[name] = sh
			o.Tiles[name] = workload.Tiling{TileM: k.Tile[0], TileN: k.Tile[1]}
		}
	case k.Kind == "embedding+collective" && k.SameBuild:
		vectors := k.LogicalWGs
		o.Shapes["emb_k"] = workload.Shape{Kind: workload.Embedding, M: vectors, N: k.Dim, K: k.Pool, ElemSize: 4, DType: k.DType, Evidence: "row " + row.ID}
		o.Tiles["emb_k"] = workload.Tiling{Tiles: int(vectors)}
	case k.Kind == "gemv+collective" && k.Tiles > 0:
		o.Tiles["gemv_ar_k"] = workload.Tiling{Tiles: k.Tiles}
	}
	return o
}

// selectionOf is the engine and the settings that a row's strategy stands for.
func selectionOf(row calibrate.Row) (plan.Selection, string) {
	i := slices.IndexFunc(engines.All(), func(e plan.Strategy) bool { return e.Name == row.Strategy })
	if i < 0 {
		return plan.Selection{}, fmt.Sprintf("no engine %q", row.Strategy)
	}
	e := engines.All()[i]
	set := map[string]string{}
	whole := func(name string, n int) {
		if n > 0 {
			set[name] = strconv.Itoa(n)
		}
	}
	p := row.Params
	whole("channels", p.Channels)
	whole("chunks", p.Chunks)
	if slices.ContainsFunc(e.Params, func(p plan.Param) bool { return p.Name == "programs" }) {
		whole("programs", p.Programs)
	}
	if p.Order != "" {
		set["order"] = p.Order
	}
	if p.CommPriority && e.Name != "bulk" {
		set["priority"] = "on"
	}
	if p.Graph {
		set["graph"] = "on"
	}
	if p.Policy != "" { // measured with semaphores cleared and the producer launched first, without a wait kernel
		set["policy"], set["reset"], set["waitkernel"] = p.Policy, "on", "off"
	}
	switch p.Impl {
	case "torch_fused_all_gather_matmul", "torch_fused_matmul_reduce_scatter": // a library call a shard
		set["impl"], set["product"] = "pull", "chunks"
	case "one_shot_all_reduce":
		set["impl"] = "oneshot"
	}
	v, err := e.Values(set)
	if err != nil {
		return plan.Selection{}, err.Error()
	}
	return plan.Selection{Strategy: e, Values: v}, ""
}

// A Score is how well one strategy's rows are predicted.
type Score struct {
	Strategy    string
	N           int
	Median, P90 float64 // of |error|
}

// Scores are the errors by strategy, in the order of All, and over all rows
// last. Rows without a prediction are left out.
func Scores(checks []Check) []Score {
	by := map[string][]float64{}
	var all []float64
	for _, c := range checks {
		if c.Why == "" {
			by[c.Row.Strategy] = append(by[c.Row.Strategy], math.Abs(c.Error()))
			all = append(all, math.Abs(c.Error()))
		}
	}
	var scores []Score
	for _, name := range engines.Names() {
		if len(by[name]) > 0 {
			scores = append(scores, score(name, by[name]))
		}
	}
	if len(all) > 0 {
		scores = append(scores, score("all", all))
	}
	return scores
}

func score(name string, errs []float64) Score {
	slices.Sort(errs)
	return Score{name, len(errs), quantile(errs, 0.5), quantile(errs, 0.9)}
}

// quantile interpolates between the two nearest of sorted values.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	lo := int(at)
	hi := min(lo+1, len(sorted)-1)
	return sorted[lo] + (at-float64(lo))*(sorted[hi]-sorted[lo])
}

// A Choice is one workload that was measured under several strategies: which was
// best, which the prediction picks, and what trusting it costs.
type Choice struct {
	Workload  string
	Best      string  // measured
	Predicted string  // to be chosen by prediction
	Plain     string  // bulk, where that is not clearly slower; else ""
	Regret    float64 // measured time of the predicted best over that of the best, less one
	Rows      int
}

// Choices groups rows by workload and says what choosing by prediction costs on
// each. Rows without a prediction cannot be chosen, but they can be the best.
func Choices(checks []Check) []Choice {
	var keys []string
	groups := map[string][]Check{}
	for _, c := range checks {
		k := workloadKey(c.Row)
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], c)
	}
	var choices []Choice
	for _, k := range keys {
		var expected []float64
		var plain []bool
		best := groups[k][0]
		for _, c := range groups[k] {
			if c.Row.Us < best.Row.Us {
				best = c
			}
			if c.Why != "" {
				c.Predicted = 0
			}
			expected, plain = append(expected, c.Predicted), append(plain, c.Row.Strategy == "bulk")
		}
		take, alike := compare.Choose(expected, plain)
		if take < 0 || len(groups[k]) < 2 {
			continue
		}
		picked := groups[k][take].Row
		c := Choice{Workload: k, Best: RowName(best.Row), Predicted: RowName(picked), Regret: picked.Us/best.Row.Us - 1, Rows: len(groups[k])}
		if alike >= 0 {
			c.Plain = RowName(groups[k][alike].Row)
		}
		choices = append(choices, c)
	}
	return choices
}

// workloadKey is what rows of one workload have in common.
func workloadKey(row calibrate.Row) string {
	k := row.Workload
	s := fmt.Sprintf("%s %s on %d ranks", k.Kind, k.Name, row.World)
	for _, n := range []struct {
		name string
		n    int64
	}{{"m", k.M}, {"n", k.N}, {"k", k.K}, {"batch", k.Batch}, {"tables", k.Tables}, {"tiles", int64(k.Tiles)}} {
		if n.n > 0 {
			s += fmt.Sprintf(" %s=%d", n.name, n.n)
		}
	}
	if k.Collective != "" {
		s += " " + k.Collective
	}
	if row.Params.Iterations > 0 {
		s += ", in a loop"
	}
	if row.Params.Graph {
		s += ", as a graph"
	}
	return s
}

// RowName is a row's strategy with its settings.
func RowName(row calibrate.Row) string {
	p := row.Params
	s := row.Strategy
	for _, x := range []struct {
		name string
		n    int
	}{{"chunks", p.Chunks}, {"channels", p.Channels}, {"programs", p.Programs}} {
		if x.n > 0 {
			s += fmt.Sprintf(" %s=%d", x.name, x.n)
		}
	}
	for _, w := range []string{p.Order, p.Policy, p.Impl} {
		if w != "" {
			s += " " + w
		}
	}
	if p.CommPriority {
		s += " priority"
	}
	return s
}
