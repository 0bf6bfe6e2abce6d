package lift

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

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
