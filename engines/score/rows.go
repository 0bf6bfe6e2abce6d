// Package score compares predictions with what others measured.
//
//	rows.go         measured rows: a trace, a strategy with settings and a time become a Check
//	settings.go     settings of rows as strategies have them
//	errors.go       the errors of checks, what choosing by prediction costs, the signs of changes
//	fit.go          the probability of being faster, which is fitted to the changes of rows
//	stamps.go       workgroups against time stamps
//	page.go         the accuracy tables
//	claims.go       published claims: points, which are rows with a tolerance
//	experiments.go  their replays
//	measure.go      what is read off a replay
//	tolerance.go    when a point is within tolerance and a claim reproduced
//
// Profiles are calibrated elsewhere, from other rows, and no constant of overlapse comes from a point that is scored.
package score

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// A Check is one measured row alongside the prediction for it.
type Check struct {
	Set        string // of a dataset; else ""
	Row        dataset.Row
	Predicted  float64          // microseconds per iteration, mean over race outcomes; 0 if Why is set
	Clock      plan.ClockRegime // that the protocol of the row has the iteration at
	Why        string
	absent     bool // for want of its trace
	Evidence   verdict.Evidence
	noise      float64            // of the outcome (engines.Outcome)
	Confidence verdict.Confidence // that the row is faster than its reference
	Compared   bool               // with a reference that is predicted too, neither of them noisy
	Change     float64            // predicted, against the reference: -0.1 is 10 % less time
	Measured   float64            // the same as measured
	warm       float64            // the GPUs' average draw after the row, in the terms of machine.Clock
}

// Error is predicted over measured, less one.
func (c Check) Error() float64 { return c.Predicted/c.Row.Us - 1 }

// Inputs are where a run of checks gets its traces and machines from. Functions
// are called from several goroutines.
type Inputs struct {
	Trace   func(dataset.Row) (*trace.Run, error)      // opens the trace of Row.Trace; of Dataset: not needed
	Machine func(dataset.Row) (machine.Machine, error) // to predict for
	Stop    func() error                               // called before each row; its error ends the run
	Done    func()                                     // called after each row; may be nil
}

// predictRows predicts every row, on as many goroutines as there are cores. The checks
// are in the order of the rows. Rows that start from one trace and follow each
// other were measured one after another by one process: each begins with the GPUs
// as warm as the row before left them.
func predictRows(rows []dataset.Row, in Inputs) ([]Check, error) {
	checks := make([]Check, len(rows))
	groups := groupRows(rows)
	err := guard.Each(len(groups), func(at int) error {
		same := groups[at]
		t := rowGroup{lifted: map[string]*workload.Workload{}}
		var why error
		if rows[same[0]].Trace == "" {
			why = errors.New("the row names no trace to start from")
		} else {
			t.run, why = in.Trace(rows[same[0]])
		}
		for _, i := range same {
			if in.Stop != nil {
				if err := in.Stop(); err != nil {
					return err
				}
			}
			if checks[i] = (Check{Row: rows[i]}); why != nil {
				checks[i].Why = why.Error()
				checks[i].absent = errors.Is(why, errAbsent) || errors.Is(why, fs.ErrNotExist)
			} else {
				m, err := in.Machine(rows[i])
				if err != nil {
					return fmt.Errorf("row %s: %w", rows[i].ID, err)
				}
				checks[i] = t.check(rows[i], m)
			}
			if in.Done != nil {
				in.Done()
			}
		}
		return nil
	})
	compareRows(checks)
	return checks, err
}

// compareRows sets what rows change against their references.
func compareRows(checks []Check) {
	for i, base := range references(checks) {
		c := &checks[i]
		c.Confidence.Why = c.Evidence.Why
		switch {
		case base == nil || c.Why != "" || base.Why != "":
		case base == c:
			c.Confidence.Level = verdict.High // no change, by definition
		default:
			c.Compared = !c.Row.Noisy && !base.Row.Noisy
			c.Change, c.Measured = c.against(base)
			c.Evidence = c.Evidence.Beside(c.noise, c.Change)
			c.Confidence = c.Evidence.Confidence(c.Change)
		}
	}
}

// A SetResult is one set of a dataset with the predictions for it.
type SetResult struct {
	Set     *dataset.Set
	Checks  []Check // none for a set of benchmarks, of which nothing is predicted
	Stamped []stamped
}

// errAbsent says why a row of a dataset has no prediction.
var errAbsent = errors.New("the trace is listed in the index and not included")

// Dataset predicts every set of a dataset that has rows of strategies, whose traces are opened with read. Probabilities are of
// models that were not fitted to the rows (rule E8): of a file of rows, of the one that ships.
func Dataset(d *dataset.Dataset, read func(path string) (*trace.Run, error), in Inputs) ([]SetResult, error) {
	var results []SetResult
	for i := range d.Sets {
		s := &d.Sets[i]
		r := SetResult{Set: s}
		if Predictable(s) {
			in.Trace = func(row dataset.Row) (*trace.Run, error) {
				if d.Absent(s, row.Trace) {
					return nil, errAbsent
				}
				return read(d.Path(s, row.Trace))
			}
			var err error
			if r.Checks, err = predictRows(s.Rows, in); err != nil {
				return nil, err
			}
			for i := range r.Checks {
				r.Checks[i].Set = s.Name
			}
			open := func(name string) (*trace.Run, error) { return read(d.Path(s, name)) }
			for _, of := range s.Stamps {
				r.Stamped = append(r.Stamped, stampsOf(s, of, open, in.Machine))
			}
		}
		results = append(results, r)
	}
	if isFile(d) {
		return results, nil
	}
	rows := compared(results)
	models := heldOut(rows)
	for _, c := range rows {
		c.Confidence = models[c.program()].Confidence(c.Change, c.Evidence)
	}
	return results, nil
}

// isFile reports whether a dataset is a file of rows.
func isFile(d *dataset.Dataset) bool { return len(d.Sets) == 1 && d.Sets[0].Name == "" }

// Predictable reports whether a set has rows of strategies; benchmarks have none. Each row of a file is predicted, or why not.
func Predictable(s *dataset.Set) bool {
	return s.Name == "" || s.Split != dataset.Calibrate && slices.ContainsFunc(s.Rows,
		func(r dataset.Row) bool { return slices.Contains(engines.Names(), r.Strategy) })
}

// groupRows groups rows, by their index, that were measured one after another by one
// process: neighbours that start from the same trace.
func groupRows(rows []dataset.Row) [][]int {
	var turns [][]int
	for i, row := range rows {
		if i == 0 || row.Trace != rows[i-1].Trace || row.Trace == "" {
			turns = append(turns, nil)
		}
		turns[len(turns)-1] = append(turns[len(turns)-1], i)
	}
	return turns
}

// A rowGroup is rows that start from the same trace, one after another.
type rowGroup struct {
	run    *trace.Run
	lifted map[string]*workload.Workload // with durations alone, by the information that rows add to the trace
	warm   float64                       // the GPUs' average draw after the row before; 0 after a pause
}

// lift is the row's workload, with durations alone. Rows to which the same is known share one.
func (t *rowGroup) lift(row *dataset.Row, m machine.Machine) (*workload.Workload, error) {
	given := given(row, t.run)
	key := known(row, given)
	if w := t.lifted[key]; w != nil {
		return w, nil
	}
	w, err := lift.Workload(t.run, given)
	if err != nil {
		return nil, err
	}
	lift.GuessSizes(w, &m)
	if w.World < row.World {
		w, err = t.grown(row, w, m, given)
	} else if again := repeat(w, row.Params.Iterations); again != w && len(row.Params.Tokens) == 2 {
		return w, nil // split into batches first
	} else {
		w, err = engines.Isolate(again, m, nil)
	}
	if err == nil {
		t.lifted[key] = w
	}
	return w, err
}

// known is what is known to the lift of a row.
func known(row *dataset.Row, given lift.Options) string {
	return fmt.Sprint(given.Shapes, given.Tiles, row.World, row.Params.Iterations, row.Params.Queued) // which sets the cost of launches
}

// grown is the workload of a row with more ranks than its trace, which are those of one
// group.
func (t *rowGroup) grown(row *dataset.Row, w *workload.Workload, m machine.Machine, given lift.Options) (*workload.Workload, error) {
	captured := m.Resize(w.World)
	w, err := engines.Isolate(w, captured, nil)
	if err != nil {
		return nil, err
	}
	run, resized, err := edit.Ranks(t.run, w.World, "", row.World)
	if err != nil {
		return nil, err
	}
	lifted, err := lift.Workload(run, given)
	if err != nil {
		return nil, err
	}
	return resized.Lifted(lifted, w, captured, m), nil
}

// check replays the turn's trace under the row's strategy and settings. What
// cannot be predicted is a Check with the reason.
func (t *rowGroup) check(row dataset.Row, m machine.Machine) Check {
	c := Check{Row: row, warm: t.warm}
	if err := c.predict(t, m); err != nil {
		c.Why = err.Error()
	}
	t.warm = c.warm
	return c
}

func (c *Check) predict(t *rowGroup, m machine.Machine) error {
	row := &c.Row
	s, err := selectionOf(row)
	if err != nil {
		return err
	}
	sc := plan.Scenario{Clock: plan.FullClock, Rest: rest(row) / float64(max(1, row.Params.Iterations))}
	if row.Params.Queued {
		l := &m.Launch
		for _, cost := range []*machine.Quantity{&l.Host, &l.Compiled, &l.HostEvent, &l.HostCollective, &l.Pipelined, &l.PipelinedShard} {
			cost.Value = 0
		}
	}
	w, err := t.lift(row, m)
	if err != nil {
		return err
	}
	if row.Params.Iterations > 0 && len(w.Steps) < 2 && !row.Params.Cool && !row.Params.Sustained {
		sc.Clock = plan.CapturedClock // the capture is of such a loop as was measured, as warm as that
	}
	if t := row.Params.Tokens; len(t) == 2 {
		w = edit.Batch(edit.WithTokens(w, t[0]), m, int(t[1]), int(t[0]), 1)
	}
	if w, err = engines.Isolate(repeat(w, row.Params.Iterations), m, nil); err != nil {
		return err
	}
	out, err := engines.Run(w, m, s, sc, replay.Options{})
	if err == nil && out.Result != nil && sc.Clock == plan.FullClock {
		if sc.Clock = c.measuredIn(w, &m, out); sc.Clock != plan.FullClock {
			out, err = engines.Run(w, m, s, sc, replay.Options{})
		}
	}
	if err == nil && out.Result == nil {
		err = errors.New(out.Why)
	}
	if err != nil {
		return err
	}
	c.Clock, c.Predicted, c.Evidence, c.noise = sc.Clock, float64(out.Expected)/1e3, verdict.EvidenceOf(w, out), out.Noise
	return nil
}

// How samples/capture measures a row: iterations to warm up, then those of which
// the median counts, after each of which the GPUs idle until all ranks have met
// and the host is ahead again. Before loops and one-sided operators they idle for
// longer: 2.7 to 3.3 ms between the loops of the set h200x4-fifth.
const (
	warmUps           = 3
	timed             = 10
	barrierRest       = 1.3e-3 // seconds
	hostAheadRest     = 0.4e-3
	hostAheadPerChunk = 0.1e-3 // chunk
	networkRest       = 1.5e-3
)

// rest is the seconds for which GPUs idle after an iteration of a row (rule P7).
func rest(row *dataset.Row) float64 {
	p := row.Params
	switch {
	case row.Workload.Kind == "step": // of a loop
		return 0
	case p.RestUs > 0:
		return p.RestUs * 1e-6
	case p.Sustained:
		return 0
	case !p.Queued:
		return barrierRest
	case p.Iterations > 0 || p.Impl != "":
		return barrierRest + networkRest
	}
	return barrierRest + hostAheadRest + hostAheadPerChunk*float64(p.Chunks)
}

// measuredIn is the regime that the median iteration of the row was in, where out
// is the prediction for a cool one.
func (c *Check) measuredIn(w *workload.Workload, m *machine.Machine, out engines.Outcome) plan.ClockRegime {
	p := c.Row.Params
	d := plan.ClockOf(w, m, out.Scenario, out.Changed).Demand(out.Scenario, out.Time)
	if d.Time == 0 || p.Cool {
		return plan.FullClock
	}
	draw, before := m.Clock.Draw(d, 1), c.warm
	each := d.Time * float64(max(1, p.Iterations))
	c.warm = m.Clock.Warmed(before, draw, each*(warmUps+timed))
	if p.Sustained || each*(warmUps+timed/2) > m.Clock.Lasts(before, draw) {
		return plan.SettledClock
	}
	return plan.FullClock
}

// given tells the lift what a row knows and its trace does not: shapes and tiles
// of kernels that no framework operator launched. They are the row's only compute
// kernels of any weight; two of a chain differ by their number of workgroups.
func given(row *dataset.Row, run *trace.Run) lift.Options {
	k := row.Workload
	o := lift.Options{Unprofiled: true, Shapes: map[string]workload.Shape{}, Tiles: map[string]workload.Tiling{}}
	add := func(name string, sh workload.Shape, t workload.Tiling) {
		if name == "" {
			return
		}
		if sh.Kind != 0 {
			sh.DType, sh.Evidence = k.DType, "row of measurements"
			o.Shapes[name] = sh
		}
		o.Tiles[name] = t
	}
	switch {
	case len(k.Tile) == 3 && k.M > 0:
		add(longest(run), workload.Shape{Kind: workload.GEMM, M: k.M, N: k.N, K: k.K, ElemSize: 2},
			workload.Tiling{TileM: k.Tile[0], TileN: k.Tile[1]})
	case len(k.Tile) == 3 && len(k.Grids) > 1:
		name := longest(run)
		for i, sh := range chained(k) {
			at := i * (len(k.Grids) - 1) // those between are no GEMMs
			add(fmt.Sprintf("%s@%d", name, k.Grids[at]), sh, workload.Tiling{TileM: k.Tile[0], TileN: k.Tile[1]})
		}
	case k.Kind == "embedding+collective" && k.SameBuild:
		add(longest(run), workload.Shape{Kind: workload.Embedding, M: k.LogicalWGs, N: k.Dim, K: k.Pool, ElemSize: 4},
			workload.Tiling{Tiles: int(k.LogicalWGs)})
	case k.Kind == "gemv+collective" && k.Tiles > 0:
		add(longest(run), workload.Shape{}, workload.Tiling{Tiles: k.Tiles})
	}
	return o
}

// chained are the first and the last GEMM of a row's chain; none of a kind that has no such.
func chained(k dataset.Workload) []workload.Shape {
	producer := workload.Shape{Kind: workload.GEMM, M: k.Batch, N: k.FFN, K: k.Hidden, ElemSize: 2}
	consumer := producer
	consumer.N, consumer.K = producer.K, producer.N
	switch k.Kind {
	case "gemm+gemm", "gemm+softmax+gemm":
		return []workload.Shape{producer, consumer}
	case "conv+conv": // as implicit GEMMs
		for _, sh := range []*workload.Shape{&producer, &consumer} {
			sh.M, sh.K = k.Batch*k.Height*k.Width, sh.K*k.Filter*k.Filter
			sh.Like = lift.Convolution
		}
		return []workload.Shape{producer, consumer}
	}
	return nil
}

// longest is the name of the compute kernels that take the most time in a run.
func longest(run *trace.Run) string {
	took := map[string]trace.Time{}
	most := ""
	for _, s := range run.Spans {
		if s.Kind != trace.Compute {
			continue
		}
		name := run.NameOf(s)
		if took[name] += s.End - s.Start; most == "" || cmp.Compare(took[name], took[most]) > 0 {
			most = name
		}
	}
	return most
}
