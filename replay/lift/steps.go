package lift

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A mark is one iteration as a program marked it on the host, or as the
// profiler repeated the mark above the device.
type mark struct {
	name, base string
	start, end trace.Time
	lane       trace.LaneID
	host       bool
	step       int32
}

func (r *rankOps) addMark(run *trace.Run, s trace.Span, base string) {
	r.marks = append(r.marks, mark{
		name:  run.NameOf(s),
		base:  base,
		start: s.Start,
		end:   s.End,
		lane:  s.Lane,
		host:  run.Lanes[s.Lane].Kind == trace.HostThread,
		step:  -1,
	})
}

// addEnd adds the range of an optimizer's step: to the one before where no backward pass is between, as of one of several optimizers.
func (r *rankOps) addEnd(s trace.Span) {
	if n := len(r.ends); n > 0 && !r.backward {
		r.ends[n-1].end = max(r.ends[n-1].end, s.End)
		return
	}
	r.ends, r.backward = append(r.ends, mark{start: s.Start, end: s.End, host: true}), false
}

// untilOptimizer are the iterations that end with an optimizer's step, in a run without marks: each from the end of the one before. It
// needs two, and as many on every rank.
func untilOptimizer(ranks []rankOps) (steps []workload.Step) {
	n := len(ranks[0].ends)
	if n < 2 || slices.ContainsFunc(ranks, func(r rankOps) bool { return len(r.ends) != n }) {
		return nil
	}
	for k := range n {
		steps = append(steps, workload.Step{Name: fmt.Sprintf("to optimizer step %d", k+1)})
	}
	for i := range ranks {
		r, from := &ranks[i], trace.Time(math.MinInt64)
		for k, end := range r.ends {
			r.marks = append(r.marks, mark{name: steps[k].Name, start: from, end: end.end, host: true, step: int32(k)})
			from = end.end
		}
	}
	return steps
}

// iterationSteps finds the iterations that the program marked, or those that end with an optimizer's step. Ranks of a run with
// neither are cut by Resolve instead.
func iterationSteps(ranks []rankOps) (steps []workload.Step) {
	base := stepsBase(ranks)
	if base == "" {
		if len(ranks) > 0 {
			steps = untilOptimizer(ranks)
		}
		if steps != nil {
			return steps
		}
		for i := range ranks {
			ranks[i].unmarked = true
		}
		return nil
	}
	type use struct {
		name string
		nth  int // programs start counting again
	}
	rows := map[use]int32{}
	for i := range ranks {
		r := &ranks[i]
		seen := map[string]int{}
		r.marks = outermost(slices.DeleteFunc(r.marks, func(m mark) bool { return m.base != base }))
		slices.SortStableFunc(r.marks, func(a, b mark) int {
			return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.name, b.name), cmp.Compare(a.end, b.end))
		})
		for k := range r.marks {
			m := &r.marks[k]
			onLane := fmt.Sprint(m.lane, m.name)
			u := use{m.name, seen[onLane]}
			seen[onLane]++
			row, ok := rows[u]
			if !ok {
				row = int32(len(rows))
				rows[u] = row
				steps = append(steps, workload.Step{Name: m.name, Batch: batchOf(m.name)})
			}
			m.step = row
		}
	}
	dropUnmarked(ranks, len(steps))
	return steps
}

// dropUnmarked leaves out the marks above the device of iterations that a rank does not mark on its host, while other ranks do: its
// recording began within them, or the mark is lost, and only a part of the operations is below the mark above the device. A rank
// without any mark on its host has none to compare.
func dropUnmarked(ranks []rankOps, steps int) {
	anywhere, here := make([]bool, steps), make([]map[int32]bool, len(ranks)) // marked on a host
	for i := range ranks {
		here[i] = map[int32]bool{}
		for _, m := range ranks[i].marks {
			if m.host {
				anywhere[m.step], here[i][m.step] = true, true
			}
		}
	}
	for i := range ranks {
		if len(here[i]) > 0 {
			ranks[i].marks = slices.DeleteFunc(ranks[i].marks, func(m mark) bool { return anywhere[m.step] && !here[i][m.step] })
		}
	}
}

// outermost leaves of marks inside one another on a lane the outer one: an engine and its model runner both mark a pass.
func outermost(marks []mark) []mark {
	slices.SortStableFunc(marks, func(a, b mark) int {
		return cmp.Or(cmp.Compare(a.lane, b.lane), cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(a.name, b.name))
	})
	kept := marks[:0]
	for _, m := range marks {
		if n := len(kept); n == 0 || kept[n-1].lane != m.lane || kept[n-1].end < m.end ||
			kept[n-1].start == m.start && kept[n-1].end == m.end && kept[n-1].name == m.name {
			kept = append(kept, m)
		}
	}
	return kept
}

// stepsBase is the mark that stands for iterations: those of serving engines, which say what a
// batch holds, else the profiler's own, else the one under which most time passes.
func stepsBase(ranks []rankOps) string {
	spent := map[string]trace.Time{}
	for i := range ranks {
		for _, m := range ranks[i].marks {
			spent[m.base] += m.end - m.start
		}
	}
	for _, base := range []string{forwardBatch, "ProfilerStep"} {
		if _, ok := spent[base]; ok {
			return base
		}
	}
	best := ""
	for b, t := range spent {
		if best == "" || t > spent[best] || t == spent[best] && b < best {
			best = b
		}
	}
	return best
}

// assignSteps says of every op to which iteration it belongs: the one during
// whose host mark it was launched, else the one under whose mark above the
// device it started.
func (r *rankOps) assignSteps() {
	var host, device []mark
	for _, m := range r.marks {
		if m.host {
			host = append(host, m)
		} else {
			device = append(device, m)
		}
	}
	for i := range r.Ops {
		op := &r.Ops[i]
		if op.Issued != trace.Infinity {
			op.Step = stepAt(host, op.Issued, 0)
		}
		if op.Step < 0 {
			op.Step = stepAt(device, op.Start, 0)
		}
		if op.Step < 0 && op.Issued == trace.Infinity && device == nil {
			op.Step = stepAt(host, op.Start, trace.Infinity) // the device works behind the host
		}
	}
}

// stepAt is the step of the last mark to start by t, if it has not ended for longer than behind; else -1.
func stepAt(marks []mark, t, behind trace.Time) int32 {
	i, _ := slices.BinarySearchFunc(marks, t, func(m mark, t trace.Time) int {
		if m.start <= t {
			return -1
		}
		return 1
	})
	if i == 0 || t-marks[i-1].end > behind {
		return -1
	}
	return marks[i-1].step
}

// The iterations that stand for all of many: at least so many after a first one, and so many more that the standard error of their
// median time is below sampleError, relative: half of what two runs of one program differ by (rule E8).
const (
	fewestSampled = 12
	sampleError   = 0.003
)

// sample is a stretch of n marked steps that stands for all of a workload with at least twice as many of the same kernels, where these
// run one step after another on every rank (rule V36): of the stretches that are long enough the one whose times are nearest to
// the median of all. n is 0 where every step counts. It needs Classify.
func (l *lifter) sample() (first, n int) {
	all := len(l.Steps)
	if all < 2*(fewestSampled+1) {
		return 0, 0
	}
	var times []trace.Time // by step but the first, from the end of the one before to its end
	for i := range l.Steps {
		s := &l.Steps[i]
		if s.Found || s.Batch.Phase != workload.NoPhase || slices.Contains(s.Start, trace.Infinity) {
			return 0, 0
		}
		if i == 0 {
			continue
		}
		before := l.Steps[i-1].End
		for rank, end := range before {
			if s.Start[rank] < end {
				return 0, 0
			}
		}
		times = append(times, slices.Max(s.End)-slices.Max(before))
	}
	median := overlap.Median(times)
	off := make([]trace.Time, len(times))
	for i, t := range times {
		off[i] = max(t-median, median-t)
	}
	// 1.48 median deviations are a standard deviation; the median of k values has 1.25 of these over the root of k.
	need := 1.48 * 1.25 * float64(overlap.Median(off)) / (sampleError * float64(max(1, median)))
	k := max(fewestSampled, int(math.Ceil(need*need)))
	if 2*(k+1) > all {
		return 0, 0
	}
	least := trace.Infinity
	for i := range len(times) - k + 1 {
		sum := trace.Time(0)
		for _, t := range off[i : i+k] {
			sum += t
		}
		if sum < least {
			least, first = sum, i
		}
	}
	return first, k + 1
}

// stretch is the workload of n steps alone. What is damaged elsewhere counts.
func (l *lifter) stretch(first, n int) (*workload.Workload, error) {
	last, out := first+n-1, map[trace.SpanID]bool{}
	for i := range l.Ops {
		op := &l.Ops[i]
		inside := op.Step >= int32(first) && op.Step <= int32(last)
		if op.Step < 0 {
			inside = op.Start >= l.Steps[first].Start[op.Rank] && op.Start <= l.Steps[last].End[op.Rank]
		}
		if !inside && !l.Copies[op.Rank] {
			out[op.Span] = true
		}
	}
	w, err := workloadWithout(l.Run, l.opt, out)
	if err != nil {
		return nil, err
	}
	w.Damage = l.Damage
	w.Notes = append(w.Notes, fmt.Sprintf("%d of %d iterations are replayed, %s to %s: all run the same kernels, "+
		"and these are nearest to the median time of all", n, len(l.Steps), l.Steps[first].Name, l.Steps[last].Name))
	return w, nil
}
