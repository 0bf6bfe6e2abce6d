package lift

import (
	"cmp"
	"fmt"
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

// iterationSteps finds the iterations that the program marked. Ranks of a run without marks are cut by
// Resolve instead.
func iterationSteps(ranks []rankOps) (steps []workload.Step) {
	base := stepsBase(ranks)
	if base == "" {
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
