package lift

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
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
				steps = append(steps, workload.Step{Name: m.name, Batch: kernel.BatchOf(m.name)})
			}
			m.step = row
		}
	}
	return steps
}

// outermost leaves of marks inside one another on a lane the outer one: an engine and its model runner both mark a pass.
func outermost(marks []mark) []mark {
	slices.SortStableFunc(marks, func(a, b mark) int {
		return cmp.Or(cmp.Compare(a.lane, b.lane), cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(a.name, b.name))
	})
	kept := marks[:0]
	for _, m := range marks {
		if n := len(kept); n == 0 || kept[n-1].lane != m.lane || kept[n-1].end < m.end || kept[n-1].start == m.start && kept[n-1].end == m.end && kept[n-1].name == m.name {
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
	for _, base := range []string{kernel.ForwardBatch, "ProfilerStep"} {
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
