package layout

import (
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// Indexed returns views that keep what PartsOf, Compared and Part.Length look up in a run,
// from the first use on. Without it, each part reads every span.
func Indexed(views []View) []View {
	views = slices.Clone(views)
	for i := range views {
		views[i].parts = &partIndex{}
	}
	return views
}

// A partIndex is what the parts of a run are made of.
type partIndex struct {
	classes  []Class
	states   strip
	lanes    []trace.LaneID                  // sortedLanes
	kernels  map[int32][]trace.SpanID        // by operation: kernels and copies, by start
	launches map[int32][]*launch             // by rank row
	of       map[trace.SpanID]*launch        // by kernel
	vacant   map[trace.LaneID][]trace.SpanID // vacant spans of lanes of workgroups
}

func newPartIndex(v View) partIndex {
	r := v.Run
	x := partIndex{
		classes: classify(r), states: newStrip(v), lanes: sortedLanes(r), kernels: map[int32][]trace.SpanID{}, launches: launches(r),
		of: map[trace.SpanID]*launch{}, vacant: vacantSpans(r),
	}
	for _, all := range x.launches {
		for _, l := range all {
			x.of[l.parent] = l
		}
	}
	for i, s := range r.Spans {
		if !s.Kind.OnDevice() {
			continue
		}
		op := int32(trace.None)
		if k := r.Kernel(s); k != nil {
			op = k.Origin
		} else if c := r.Copy(s); c != nil {
			op = c.Origin
		}
		if op != trace.None {
			x.kernels[op] = append(x.kernels[op], trace.SpanID(i))
		}
	}
	return x
}

// index is the view's index, made at the first call, and at each if the view keeps none.
func (v View) index() *partIndex {
	x := v.parts
	if x == nil {
		x = &partIndex{}
	}
	if x.kernels == nil {
		*x = newPartIndex(v)
	}
	return x
}

// vacantSpans are the vacant spans by lane.
func vacantSpans(r *trace.Run) map[trace.LaneID][]trace.SpanID {
	vacant := map[trace.LaneID][]trace.SpanID{}
	for i, s := range r.Spans {
		if s.Vacant() {
			vacant[s.Lane] = append(vacant[s.Lane], trace.SpanID(i))
		}
	}
	return vacant
}
