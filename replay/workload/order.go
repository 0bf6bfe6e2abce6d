package workload

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// order finds what every op waited for. All of it are assumptions that the
// measured times may refute: what had not ended when an op started, the op did
// not wait for.
//
//	queue 7  |AAAA  BBBB      DD|   B after A: stream order
//	queue 19 |          CCCC    |   C after B: launched behind B on its own stream
//	host     |a b c   w d       |   D after C: the host made queue 7 wait (w)
//
// It returns the number of dependencies that host calls suggest and times contradict.
func (src *source) order(run *trace.Run) (refuted int) {
	near := src.followQueues()
	after, refuted := src.followHost(run)
	deps := make([]Dep, 0, len(src.ops)+len(after)) // one array, for speed
	for i := range src.ops {
		op, f := &src.ops[i], &src.facts[i]
		first := len(deps)
		if f.before >= 0 {
			deps = append(deps, Dep{f.before, StreamOrder})
		}
		for len(after) > 0 && after[0].op == op.ID {
			deps = append(deps, after[0].dep)
			after = after[1:]
		}
		if len(deps) == first || len(deps) == first+1 && f.before >= 0 {
			if near[i] >= 0 && src.onlyTimeTells(op, f) {
				deps = append(deps, Dep{near[i], Timing})
			}
		}
		n := first + len(src.latestByQueue(deps[first:]))
		deps = deps[:n]
		if n > first {
			op.After = deps[first:n:n]
		}
		op.Gap = op.Start
		for _, d := range op.After {
			op.Gap = min(op.Gap, op.Start-src.ops[d.Op].End)
		}
	}
	return refuted
}

// latestByQueue keeps, in place, of several ops of one queue the last to end: it
// implies the others. The result is ordered by op.
func (src *source) latestByQueue(deps []Dep) []Dep {
	slices.SortStableFunc(deps, func(a, b Dep) int {
		return cmp.Or(cmp.Compare(src.ops[a.Op].End, src.ops[b.Op].End), cmp.Compare(a.Op, b.Op))
	})
	kept := deps[:0]
	for i, d := range deps {
		implied := false
		for _, e := range deps[i+1:] {
			implied = implied || src.facts[e.Op].queue == src.facts[d.Op].queue
		}
		if !implied {
			kept = append(kept, d)
		}
	}
	slices.SortFunc(kept, func(a, b Dep) int { return cmp.Compare(a.Op, b.Op) })
	return kept
}

// onlyTimeTells reports whether the trace lacks the host calls that would show
// what the op waited for on other streams.
func (src *source) onlyTimeTells(op *Op, f *fact) bool {
	return f.launch == trace.None || f.shared || op.Kind != trace.Collective && len(src.waits) == 0
}

// followQueues finds the op of its queue that each followed: the last to have
// ended. Queues on which ops overlap, as on AMD, keep what order the times
// leave. near is the op of another queue that ended last before each op, within
// EventHop of its start and after its own queue had fallen idle; else -1.
func (src *source) followQueues() (near []int32) {
	near = make([]int32, len(src.ops))
	ended := make([]int32, src.queues) // by queue: the last op to have ended
	for q := range ended {
		ended[q] = -1
	}
	var last, other int32 = -1, -1         // of all queues; and of all queues but last's
	running := make([]int32, len(src.ops)) // those that have not ended, the first to end in front; only those before the present op started
	for i := range running {
		running[i] = int32(i)
	}
	slices.SortStableFunc(running, func(a, b int32) int { return cmp.Compare(src.ops[a].End, src.ops[b].End) })
	for i := range src.ops {
		op, f := &src.ops[i], &src.facts[i]
		for e := running[0]; int(e) < i && src.ops[e].End <= op.Start; e = running[0] {
			running = running[1:]
			q := src.facts[e].queue
			ended[q] = e
			if last >= 0 && src.facts[last].queue != q {
				other = last
			}
			last = e
		}
		f.before = ended[f.queue]
		near[i] = last
		if last >= 0 && src.facts[last].queue == f.queue {
			near[i] = other
		}
		if n := near[i]; n >= 0 {
			idle := f.before < 0 || src.ops[f.before].End < src.ops[n].End
			if !idle || op.Start-src.ops[n].End > EventHop {
				near[i] = -1
			}
		}
	}
	return near
}
