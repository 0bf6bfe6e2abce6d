package results

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// Measured compares two folders written by replay -o, or two traces: per step if both have iterations, of each phase that both have,
// else as whole runs.
func Measured(r *cli.Reader, a, b string) (Difference, error) {
	if IsResult(a) && IsResult(b) {
		return ofFolders(a, b)
	}
	var sides [2]side
	var lifted [2]*workload.Workload
	for i, path := range []string{a, b} {
		run, err := r.One(path, "")
		if err != nil {
			return Difference{}, err
		}
		sides[i] = side{Name: path, Time: run.End, run: run}
		if lifted[i], err = r.Workload(run, path, lift.Options{}); err == nil {
			sides[i].steps = workload.Iterations(lifted[i])
		}
	}
	x, y := &sides[0], &sides[1]
	var notes []string
	if note := wholeRuns(x, y); note != "" {
		notes = append(notes, note)
	}
	var steps [2]*plan.Steps
	for i, w := range lifted {
		if w == nil {
			continue
		}
		steps[i] = plan.MeasuredSteps(w)
		if m := cli.KnownMachine(w); m != nil {
			lift.OnMachine(w, m)
		}
	}
	pairs, note := phasesOf(steps, x.steps > 0)
	if note != "" {
		notes = append(notes, note)
	}
	var each []Difference
	for _, pair := range pairs {
		of := sides
		for i, w := range lifted {
			of[i].measure(w, pair[i])
		}
		each = append(each, differenceOf(of[0], of[1]))
	}
	d := apart(each)
	if !d.comparable() {
		notes = append(notes, "A and B have next to no kernel in common: they may be two programs, "+
			"and the times say nothing about a change of one.")
	}
	d.Notes = notes
	return d, nil
}

// leastCommon is the part of the kernels' time of one side at least that kernels of both have in two captures of one program.
const leastCommon = 0.1

// comparable reports whether kernels of the same names take a part of both sides' time in any phase, collectives aside, whose names
// many programs have.
func (d *Difference) comparable() bool {
	for _, p := range d.Each() {
		var all, common [2]trace.Time // of A and B
		for _, row := range p.Rows {
			if row.Group != overlap.ByKernel || trace.KernelOp(row.Name) != trace.UnknownOp {
				continue
			}
			all[0], all[1] = all[0]+row.A, all[1]+row.B
			if row.A > 0 && row.B > 0 {
				common[0], common[1] = common[0]+row.A, common[1]+row.B
			}
		}
		for i := range all {
			if float64(common[i]) >= leastCommon*float64(all[i]) { // also if only collectives take time
				return true
			}
		}
	}
	return false
}

// phasesOf pairs the steps of two captures that are compared: of each phase of that name, where one has several phases
// (rule V34); else all. It says what is not compared.
func phasesOf(of [2]*plan.Steps, perStep bool) (pairs [][2]*plan.Steps, note string) {
	if !perStep || len(of[0].Phases()) < 2 && len(of[1].Phases()) < 2 {
		return [][2]*plan.Steps{of}, ""
	}
	var only []string
	other := of[1].Phases()
	for i, p := range of[0].Phases() {
		at := slices.IndexFunc(other, func(q plan.PhaseTime) bool { return q.Phase == p.Phase })
		if at < 0 {
			only = append(only, fmt.Sprintf("only A has %s steps", p.Phase))
			continue
		}
		pairs = append(pairs, [2]*plan.Steps{of[0].Of(i + 1), of[1].Of(at + 1)})
	}
	for _, q := range other {
		if !slices.ContainsFunc(pairs, func(pair [2]*plan.Steps) bool { return pair[1].Phase().Phase == q.Phase }) {
			only = append(only, fmt.Sprintf("only B has %s steps", q.Phase))
		}
	}
	if pairs == nil {
		return [][2]*plan.Steps{of}, "A and B have steps of different phases: times are means over different work."
	}
	if only != nil {
		note = "not compared: " + strings.Join(only, ", ") + "."
	}
	return pairs, note
}

// wholeRuns makes times of both sides those of whole runs if only one side has iterations, and says so; else "".
func wholeRuns(x, y *side) string {
	if (x.steps > 0) == (y.steps > 0) {
		return ""
	}
	with, without := "A", "B"
	if y.steps > 0 {
		with, without = without, with
	}
	note := fmt.Sprintf("%s has %d iterations and none were found in %s: times are of the whole runs.", with, x.steps+y.steps, without)
	x.steps, y.steps = 0, 0
	return note
}

// measure fills in the times of a captured run, of one of its steps; w may be nil.
func (s *side) measure(w *workload.Workload, steps *plan.Steps) {
	if w == nil {
		s.items = overlap.Items(s.run, nil, nil)
		return
	}
	of := (*overlap.Iteration)(nil)
	s.Time, s.start, s.phase = steps.Whole().Length(), MeasuredStart(w), steps.Phase().Phase
	if s.steps > 0 {
		s.Time, s.samples = steps.Time(), samplesOf(w)
		of = steps.Iteration(overlap.Collect(s.run), 0)
	}
	s.items = overlap.Items(s.run, nil, of)
	s.items = append(s.items, pairItems(w, func(op int32) (start, end trace.Time, ok bool) {
		return w.Ops[op].Start, w.Ops[op].End, steps.Has(int(w.Ops[op].Step))
	})...)
	s.tellUnseen(w, of)
	if s.steps > 0 {
		s.work = operations(w, s.run, steps)
	}
}

// tellUnseen counts the time in which collectives waited for ranks that nobody captured (rule C27) as waiting instead
// of transfer.
func (s *side) tellUnseen(w *workload.Workload, of *overlap.Iteration) {
	move := func(group, prefix string, late trace.Time) {
		for is, d := range map[overlap.Is]trace.Time{overlap.Transferring: -late, overlap.Waiting: late} {
			name := prefix + is.String()
			i := slices.IndexFunc(s.items, func(x overlap.Item) bool { return x.Group == group && x.Name == name })
			if i < 0 {
				i = slices.IndexFunc(s.items, func(x overlap.Item) bool { return x.Group == group })
				s.items = slices.Insert(s.items, i, overlap.Item{Group: group, Name: name})
			}
			s.items[i].Time += d
		}
	}
	w.UnseenWaits(func(op *workload.Op, late trace.Time) {
		if of != nil {
			if x := of.In[w.Rows[op.Rank]]; op.Start < x.Start || op.Start >= x.End {
				return
			}
			late /= trace.Time(of.Of)
		}
		move(overlap.ByState, "", late/trace.Time(len(w.Run.Ranks)))
		move(overlap.ByRank, fmt.Sprintf("rank %d ", w.Run.RankID(w.Rows[op.Rank])), late)
	})
}

// Simulated compares two strategies that ran on a workload.
func Simulated(r *Replayed, w *workload.Workload, a, b *engines.Outcome) Difference {
	var each []Difference
	for _, phase := range a.Each() {
		each = append(each, differenceOf(replayedSide(r, w, a.Of(phase)), replayedSide(r, w, b.Of(phase))))
	}
	return apart(each)
}

// replayedSide is a strategy on the phase that its outcome is of.
func replayedSide(r *Replayed, w *workload.Workload, out engines.Outcome) side {
	run := out.Result.Run
	steps := plan.StepsOf(w, run).Of(out.Phase)
	s := side{Name: run.Name, Time: out.Expected, phase: steps.Phase().Phase, steps: r.Iterations, run: run, start: StartOf(w, run), gaps: ReasonsOf(out.Result, 0, 0)}
	starts, ends := opTimes(run, len(w.Ops))
	s.work = operations(w, run, steps)
	of := steps.Iteration(overlap.Collect(run), out.Time)
	of.Mean = verdict.TimesOf(w, out)
	s.items = append(overlap.Items(run, ReasonsOf(out.Result, 0, 0), of), pairItems(w, func(op int32) (trace.Time, trace.Time, bool) {
		return starts[op], ends[op], starts[op] <= ends[op] && steps.Has(int(w.Ops[op].Step))
	})...)
	return s
}

// opTimes is when the first kernel of each operation starts and the last ends; a start
// after the end: it did not run.
func opTimes(run *trace.Run, ops int) (starts, ends []trace.Time) {
	starts, ends = slices.Repeat([]trace.Time{trace.Infinity}, ops), make([]trace.Time, ops)
	for _, s := range run.Spans {
		if op := plan.OriginOf(run, s); op >= 0 {
			starts[op], ends[op] = min(starts[op], s.Start), max(ends[op], s.End)
		}
	}
	return starts, ends
}

// pairItems is the mean time of each kind of pair, from the start of the first operation
// to the end of the last.
func pairItems(w *workload.Workload, times func(op int32) (start, end trace.Time, ok bool)) []overlap.Item {
	var items []overlap.Item
	for _, k := range workload.Pairs(w) {
		var sum trace.Time
		n := 0
		for _, row := range k.Rows {
			p := &w.Pairs[row]
			for rank := range p.First {
				start, end, ok := times(p.First[rank])
				if second, last, ran := times(p.Second[rank]); ran {
					start, end, ok = min(start, second), max(end, last), true
				}
				if ok {
					sum, n = sum+end-start, n+1
				}
			}
		}
		if n == 0 { // of other phases
			continue
		}
		size := "" // none between kernels
		if k.Bytes > 0 {
			size = " " + trace.Bytes(k.Bytes)
		}
		name := fmt.Sprintf("%s → %s%s", cli.Shorten(trace.Short(k.First), 24), cli.Shorten(trace.Short(k.Second), 24), size)
		items = append(items, overlap.Item{Group: "pair, mean of its kind", Name: name, Time: sum / trace.Time(n), Count: n})
	}
	return items
}

// IsResult reports whether a path is a folder written by replay -o.
func IsResult(path string) bool { return cli.IsFile(filepath.Join(path, resultFile)) }

// resultFile is the name of a result in the folder that replay -o writes.
const resultFile = "result.json"

// ofFolders compares the strategies that two results have in common, of each phase that both have: the first of them, which is the
// captured schedule where it was selected, by state, and the times of all.
func ofFolders(a, b string) (Difference, error) {
	x, err := Read(filepath.Join(a, resultFile))
	if err != nil {
		return Difference{}, err
	}
	y, err := Read(filepath.Join(b, resultFile))
	if err != nil {
		return Difference{}, err
	}
	var pairs [][2]side
	at := map[string]int32{}
	for _, p := range x.Rows {
		i := slices.IndexFunc(y.Rows, func(q Row) bool { return q.Applies && q.Name() == p.Name() && q.Phase == p.Phase })
		if !p.Applies || i < 0 {
			continue
		}
		q := &y.Rows[i]
		pair := &pairs[trace.Memo(at, p.Phase, func() int32 {
			return trace.Push(&pairs, [2]side{p.side(a, x.Iterations), q.side(b, y.Iterations)})
		})]
		pair[0].items = append(pair[0].items, overlap.Item{Group: byStrategy, Name: p.Name(), Time: trace.Time(p.Time)})
		pair[1].items = append(pair[1].items, overlap.Item{Group: byStrategy, Name: p.Name(), Time: trace.Time(q.Time)})
	}
	if pairs == nil {
		return Difference{}, fmt.Errorf("%s and %s have no strategy in common", a, b)
	}
	var each []Difference
	for _, pair := range pairs {
		times := [2]int{max(1, pair[0].steps), max(1, pair[1].steps)}
		note := wholeRuns(&pair[0], &pair[1])
		for k := 0; k < len(pair) && note != ""; k++ {
			pair[k].Time *= trace.Time(times[k])
			for i := range pair[k].items {
				pair[k].items[i].Time *= trace.Time(times[k])
			}
		}
		d := differenceOf(pair[0], pair[1])
		if note != "" {
			d.Notes = append(d.Notes, note)
		}
		each = append(each, d)
	}
	return apart(each), nil
}

// side is the row's time by state, of a result with some iterations.
func (r *Row) side(name string, steps int) side {
	of := &overlap.Iteration{Mean: r.Times}
	return side{Name: name, Time: trace.Time(r.Time), phase: r.Phase, steps: steps, items: overlap.Items(&trace.Run{}, nil, of), under: r.Name()}
}
