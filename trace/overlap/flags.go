package overlap

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// mostFlags bounds the memory that the flags of a run take.
const mostFlags = 1 << 20

// flags are the edges of a simulated run by what they released.
type flags struct {
	run     *trace.Run
	streams []Edge                  // by To: the operation that started
	waits   map[laneOf][]Edge       // by Landed: waits that took time
	last    map[trace.SpanID]laneOf // of an operation: the lane of the workgroup that ended last
	idles   [][][]Reason            // by rank row, queue and time
}

// laneOf is the lane of workgroups of an operation.
type laneOf struct {
	op   trace.SpanID
	lane trace.LaneID
}

func newFlags(run *trace.Run, reasons []Reason) *flags {
	f := &flags{run: run, waits: map[laneOf][]Edge{}, last: map[trace.SpanID]laneOf{}, idles: byQueue(reasons, len(run.Ranks))}
	ends := map[trace.SpanID]trace.Time{}
	for _, e := range Edges(run, reasons, mostFlags) {
		switch e.Kind {
		case posted:
			f.streams = append(f.streams, e)
		case released:
			if s := run.Spans[e.To]; s.Start < s.End {
				key := laneOf{f.operation(e.To), s.Lane}
				f.waits[key] = append(f.waits[key], e)
			}
		}
	}
	for _, list := range f.waits {
		slices.SortStableFunc(list, func(a, b Edge) int { return cmp.Compare(a.Landed, b.Landed) })
	}
	for i, s := range run.Spans {
		if s.Kind != trace.Workgroup || s.Parent == trace.None {
			continue
		}
		if end, ok := ends[s.Parent]; !ok || s.End > end {
			ends[s.Parent] = s.End
			f.last[s.Parent] = laneOf{f.operation(trace.SpanID(i)), s.Lane}
		}
	}
	return f
}

// operation is the kernel that a workgroup or a phase is a part of; other spans are
// their own.
func (f *flags) operation(id trace.SpanID) trace.SpanID {
	for f.run.Spans[id].Kind.InKernel() && f.run.Spans[id].Parent != trace.None {
		id = f.run.Spans[id].Parent
	}
	return id
}

// inside finds the last wait of a workgroup for a flag up to a place, where the path comes
// from: what posted the flag, and when the wait ended. Without a lane it is the workgroup
// that ended last, if the place is the operation's end.
func (f *flags) inside(at place) (post place, landed trace.Time, ok bool) {
	if f == nil {
		return place{}, 0, false
	}
	key := laneOf{at.op, at.lane}
	if at.lane == trace.None {
		if at.until != f.run.Spans[at.op].End {
			return place{}, 0, false
		}
		key = f.last[at.op]
	}
	list := f.waits[key]
	n, _ := slices.BinarySearchFunc(list, at.until, func(e Edge, t trace.Time) int { return upTo(e.Landed, t) })
	for n--; n >= 0; n-- {
		if post, ok := f.post(list[n]); ok && post.until < at.until {
			return post, list[n].Landed, true
		}
	}
	return place{}, 0, false
}

// idle is why the stream of an operation was idle, by start.
func (f *flags) idle(op trace.SpanID) []Reason {
	if f == nil {
		return nil
	}
	lane := &f.run.Lanes[f.run.Spans[op].Lane]
	for _, q := range f.idles[lane.Rank] {
		if lane.Kind == trace.Queue && q[0].Queue == lane.ID {
			return q
		}
	}
	return nil
}

// before finds what posted the last flag that the stream of an operation waited for before
// it started.
func (f *flags) before(op trace.SpanID) (post place, landed trace.Time, ok bool) {
	if f == nil {
		return place{}, 0, false
	}
	n, _ := slices.BinarySearchFunc(f.streams, op, func(e Edge, id trace.SpanID) int { return cmp.Compare(e.To, id) })
	start := f.run.Spans[op].Start
	for ; n < len(f.streams) && f.streams[n].To == op; n++ {
		e := f.streams[n]
		if p, good := f.post(e); good && p.until < start && e.Landed <= start && (!ok || e.Landed > landed) {
			post, landed, ok = p, e.Landed, true
		}
	}
	return post, landed, ok
}

// post is where an edge comes from, if that is device work.
func (f *flags) post(e Edge) (place, bool) {
	at := place{op: f.operation(e.From), lane: trace.None, until: e.Left}
	if from := f.run.Spans[e.From]; from.Kind.InKernel() {
		at.lane = from.Lane
	}
	s := f.run.Spans[at.op]
	return at, f.run.Class(s) != trace.NoClass && s.Start <= e.Left && e.Left <= s.End
}
