package lift

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// The stage of the order finds the operations of one captured rank in their order: the spans of its
// device, the host calls that launched them, what each of them waited for, and the iterations
// that the program marked.

// Resolve joins a rank's ops with the host calls, and finds what each waited for and to which
// iteration it belongs. It returns the number of dependencies that host calls suggest and times
// contradict.
func (r *rankOps) Resolve(run *trace.Run) (refuted int) {
	r.settle(run)
	refuted = r.order(run)
	r.assignSteps()
	r.cutSteps(run)
	return refuted
}

// Free frees what no later stage needs.
func (r *rankOps) Free() {
	r.Facts, r.Stated, r.waits, r.events, r.marks, r.ends, r.calls, r.results = nil, nil, nil, nil, nil, nil, nil, nil
}

// order finds what every op waited for. All of it are assumptions that the
// measured times may refute: what had not ended when an op started, the op did
// not wait for.
//
//	queue 7  |AAAA  BBBB      DD|   B after A: stream order
//	queue 19 |          CCCC    |   C after B: launched behind B on its own stream
//	host     |a b c   w d       |   D after C: the host made queue 7 wait (w), or the file says for what
//
// It returns the number of dependencies that host calls suggest and times contradict.
func (r *rankOps) order(run *trace.Run) (refuted int) {
	near := r.followQueues()
	after, refuted := r.followHost(run)
	stated := r.Stated
	deps := make([]workload.Dep, 0, len(r.Ops)+len(after)+len(stated)) // one array, for speed
	for i := range r.Ops {
		op, f := &r.Ops[i], &r.Facts[i]
		first := len(deps)
		if f.before >= 0 {
			deps = append(deps, workload.Dep{Op: f.before, Why: workload.StreamOrder})
		}
		for ; len(stated) > 0 && stated[0].Op == op.ID; stated = stated[1:] {
			if on := stated[0].On; r.ended(on, op.ID) {
				deps = append(deps, workload.Dep{Op: on, Why: workload.Stated})
			} else if r.Facts[on].Queue != f.Queue { // of one queue, kernels may be launched to overlap
				refuted++
			}
		}
		for len(after) > 0 && after[0].op == op.ID {
			deps = append(deps, after[0].dep)
			after = after[1:]
		}
		if len(deps) == first || len(deps) == first+1 && f.before >= 0 {
			if near[i] >= 0 && (r.onlyTimeTells(op, f) || r.waitedFor(op, f, near[i])) {
				deps = append(deps, workload.Dep{Op: near[i], Why: workload.Timing})
			}
		}
		n := first + len(r.latestByQueue(deps[first:]))
		deps = deps[:n]
		if n > first {
			op.After = deps[first:n:n]
		}
		op.Gap = op.Start
		for _, d := range op.After {
			op.Gap = min(op.Gap, op.Start-r.Ops[d.Op].End)
		}
	}
	return refuted
}

// latestByQueue keeps, in place, of several ops of one queue the last to end: it
// implies the others. The result is ordered by op.
func (r *rankOps) latestByQueue(deps []workload.Dep) []workload.Dep {
	slices.SortStableFunc(deps, func(a, b workload.Dep) int {
		return cmp.Or(cmp.Compare(r.Ops[a.Op].End, r.Ops[b.Op].End), cmp.Compare(a.Op, b.Op))
	})
	kept := deps[:0]
	for i, d := range deps {
		implied := false
		for _, e := range deps[i+1:] {
			implied = implied || r.Facts[e.Op].Queue == r.Facts[d.Op].Queue
		}
		if !implied {
			kept = append(kept, d)
		}
	}
	slices.SortFunc(kept, func(a, b workload.Dep) int { return cmp.Compare(a.Op, b.Op) })
	return kept
}

// onlyTimeTells reports whether the trace lacks the host calls that would show
// what the op waited for on other streams.
func (r *rankOps) onlyTimeTells(op *workload.Op, f *fact) bool {
	if f.Stated != 0 {
		return false
	}
	return f.Launch == trace.None || f.shared || op.Kind != trace.Collective && len(r.waits) == 0
}

// waitedFor reports whether an op that its host had issued, on a queue idle for longer than a launch takes, began right
// behind the end of a collective of another queue: no launch held it, the collective did (rule V1).
func (r *rankOps) waitedFor(op *workload.Op, f *fact, near int32) bool {
	on := &r.Ops[near]
	if f.Stated != 0 || f.before < 0 || on.Kind != trace.Collective || op.Issued == trace.Infinity {
		return false
	}
	return max(op.Issued, r.Ops[f.before].End)+eventHop < on.End
}

// followQueues finds the op of its queue that each followed: the last to have
// ended. Queues on which ops overlap, as on AMD, keep what order the times
// leave. near is the op of another queue that ended last before each op, within
// EventHop of its start and after its own queue had fallen idle; else -1.
func (r *rankOps) followQueues() (near []int32) {
	near = again(&r.near, len(r.Ops))
	ended := make([]int32, r.queues) // by queue: the last op to have ended
	for q := range ended {
		ended[q] = -1
	}
	var last, other int32 = -1, -1 // of all queues; and of all queues but last's
	// those that have not ended, the first to end in front; only those before the present op started
	running := again(&r.running, len(r.Ops))
	for i := range running {
		running[i] = int32(i)
	}
	slices.SortStableFunc(running, func(a, b int32) int { return cmp.Compare(r.Ops[a].End, r.Ops[b].End) })
	for i := range r.Ops {
		op, f := &r.Ops[i], &r.Facts[i]
		for e := running[0]; int(e) < i && r.Ops[e].End <= op.Start; e = running[0] {
			running = running[1:]
			q := r.Facts[e].Queue
			ended[q] = e
			if last >= 0 && r.Facts[last].Queue != q {
				other = last
			}
			last = e
		}
		f.before = ended[f.Queue]
		near[i] = last
		if last >= 0 && r.Facts[last].Queue == f.Queue {
			near[i] = other
		}
		if n := near[i]; n >= 0 {
			idle := f.before < 0 || r.Ops[f.before].End < r.Ops[n].End
			if !idle || op.Start-r.Ops[n].End > eventHop {
				near[i] = -1
			}
		}
	}
	return near
}

// A statedEdge is a dependency of an op on an earlier one that the file states.
type statedEdge struct{ Op, On int32 }

// findStated finds the rank's dependencies among those that the file states. Where it states one
// of a captured graph, it states all between the nodes of that graph.
func (r *rankOps) findStated(run *trace.Run) {
	if r.Stated = r.Stated[:0]; len(run.Depends) == 0 {
		return
	}
	opAt := again(&r.opAt, len(run.Spans))
	for i := range r.Ops {
		opAt[r.Ops[i].Span] = int32(i) + 1
	}
	graphs := map[int64]bool{} // by the launch's correlation
	for _, d := range run.Depends {
		if op, on := opAt[d.To]-1, opAt[d.From]-1; op >= 0 && on >= 0 {
			r.Stated = append(r.Stated, statedEdge{op, on})
			correlation, _ := joins(run, run.Spans[d.To])
			graphs[correlation] = true
		}
	}
	slices.SortFunc(r.Stated, compareStated)
	for i := range r.Ops {
		if correlation, _ := joins(run, run.Spans[r.Ops[i].Span]); graphs[correlation] {
			r.Facts[i].Stated, r.Ops[i].GraphEdges = correlation, true
		}
	}
}

// A stream is one of a device, as the file numbers it.
type stream struct {
	device int32
	id     int64
}

// findEvents finds the dependencies by recorded events: what a stream is given after a wait starts
// after all that the other stream had been given when the event was recorded. Calls are in the
// order of their correlations, which every profiler counts up.
//
//	stream 7 |A  r  B|   stream 9 waits for r, then C: C after A
//	stream 9 |   C   |
func (r *rankOps) findEvents(run *trace.Run) {
	if len(r.events) == 0 {
		return
	}
	ops := map[stream][]int32{}
	correlations := make([]int64, len(r.Ops))
	for i := range r.Ops {
		s := run.Spans[r.Ops[i].Span]
		on := stream{device: run.Lanes[s.Lane].Device}
		on.id, _ = run.StreamOf(s)
		if correlations[i], _ = joins(run, s); correlations[i] != 0 {
			ops[on] = append(ops[on], int32(i))
		}
	}
	for _, list := range ops {
		slices.SortStableFunc(list, func(a, b int32) int { return cmp.Compare(correlations[a], correlations[b]) })
	}
	from := func(list []int32, correlation int64) int {
		at, _ := slices.BinarySearchFunc(list, correlation, func(op int32, c int64) int { return cmp.Compare(correlations[op], c) })
		return at
	}
	for _, w := range r.events {
		on, waiting := ops[stream{w.Device, w.On}], ops[stream{w.Device, w.Stream}]
		last, first := from(on, w.Record)-1, from(waiting, w.Correlation)
		if last >= 0 && first < len(waiting) && r.Facts[on[last]].Queue != r.Facts[waiting[first]].Queue {
			r.Stated = append(r.Stated, statedEdge{waiting[first], on[last]})
		}
	}
	slices.SortFunc(r.Stated, compareStated)
	r.Stated = slices.Compact(r.Stated)
}

func compareStated(a, b statedEdge) int {
	return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.On, b.On))
}

// eventHop bounds the time from the end of an op to the start of one on another
// stream that waited for it, where only time tells: four times launch.event of
// H200 (rule V1).
const eventHop = trace.Time(22_000)
