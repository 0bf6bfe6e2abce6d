package layout

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A Part is some operations of a step that strategies are compared on: a pair of
// computation and communication, or one kernel.
type Part struct {
	Name string
	Ops  []int32 // Kernel.Origin: the operations, of all ranks
}

// PartsOf lists the kernels whose workgroups some run recorded on a rank, in the order of
// the step: first those that send to peers under some strategy.
func PartsOf(views []View, rank int32) []Part {
	var parts []Part
	known, sends := map[int32]bool{}, map[int32]int{}
	for _, v := range views {
		for _, l := range v.index().launches[rank] {
			op := l.origin(v.Run)
			if l.senders > 0 {
				sends[op] = 1
			}
			if op == trace.None || known[op] {
				continue
			}
			known[op] = true
			parts = append(parts, Part{fmt.Sprintf("%s, operation %d", trace.Short(l.name), op), []int32{op}})
		}
	}
	slices.SortStableFunc(parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(sends[b.Ops[0]], sends[a.Ops[0]]), cmp.Compare(a.Ops[0], b.Ops[0]))
	})
	return parts
}

// origin is the operation that a launch stands for, or None.
func (l *launch) origin(r *trace.Run) int32 {
	if l.parent == trace.None {
		return trace.None
	}
	if k := r.Kernel(r.Spans[l.parent]); k != nil {
		return k.Origin
	}
	return trace.None
}

// Compared lays out a part of the step on a rank of every run that has it, one run below
// the other, all from the start of its first kernel: a heading per kernel or copy, which
// shows when it ran, and below it at most most workgroups, ordered as by Figure11; most 0
// is 16, negative all. It is an error if no run has the part.
//
//	bulk  3.11 ms   |GGGGGGGGGGXXXX   |
//	  gemm (132)    |GGGGGGGGGG       |
//	    WG 0        |RRRRRCCCCC       |
//	  all_to_all    |          XXXX   |
//	fused  2.86 ms  |GGGGGGGGGGGG     |
//	  gemm + all_...|RRRRRRCCCCCC     |
func Compared(views []View, rank int32, p Part, most int) (*Timeline, error) {
	if most == 0 {
		most = 16
	}
	t := &Timeline{Title: p.Name}
	var first trace.Time // the time that the first run takes
	for _, v := range views {
		x := v.index()
		kernels := p.kernels(v.Run, x, rank)
		if len(kernels) == 0 {
			continue
		}
		start, end := v.Run.Spans[kernels[0]].Start, trace.Time(0)
		for _, id := range kernels {
			end = max(end, v.Run.Spans[id].End)
		}
		v.Offset = -start
		t.Views, t.classes, t.strips = append(t.Views, v), append(t.classes, slices.Clone(x.classes)), append(t.strips, strip{})
		first = max(cmp.Or(first, end-start), 1)
		label := fmt.Sprintf("%s  %s", cmp.Or(v.Name, v.Run.Name), Short(end-start))
		if len(t.Views) > 1 {
			label += fmt.Sprintf("  %+.1f %%", math.Round(1000*float64(end-start-first)/float64(first))/10+0) // no "-0.0 %"
		}
		heading := Row{
			Label: label, Kind: RunHeading, View: len(t.Views) - 1, Rank: rank, Parent: trace.None,
			Largest: x.states.largestGaps(rank, start, end, 3),
		}
		t.addPart(heading, x, kernels, most)
		t.End = max(t.End, end-start)
	}
	if len(t.Views) == 0 {
		return nil, fmt.Errorf("no run has %s on rank row %d", p.Name, rank)
	}
	t.End = max(t.End, 1)
	return t, nil
}

// Length is the longest time that a run takes for the part on a rank.
func (p Part) Length(views []View, rank int32) (longest trace.Time) {
	for _, v := range views {
		kernels := p.kernels(v.Run, v.index(), rank)
		for _, id := range kernels {
			longest = max(longest, v.Run.Spans[id].End-v.Run.Spans[kernels[0]].Start)
		}
	}
	return longest
}

// kernels are the kernels and copies that stand for the part's operations, by start.
func (p Part) kernels(r *trace.Run, x *partIndex, rank int32) []trace.SpanID {
	var ids []trace.SpanID
	for _, op := range p.Ops {
		for _, id := range x.kernels[op] {
			if r.Lanes[r.Spans[id].Lane].Rank == rank {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids) // spans are sorted by start
	return slices.Compact(ids)
}

// addPart adds the rows of one run.
func (t *Timeline) addPart(heading Row, x *partIndex, kernels []trace.SpanID, most int) {
	top, v := t.open(heading), heading.View
	r := t.Views[v].Run
	for _, id := range kernels {
		row := Row{Label: trace.Short(r.NameOf(r.Spans[id])), Kind: GroupHeading, Depth: 1, View: v, Rank: heading.Rank, Parent: top}
		l := x.of[id]
		if l != nil {
			row.Label += fmt.Sprintf(" (%d)", l.lanes(r))
		}
		at := t.open(row)
		if l != nil {
			t.addWorkgroups(at, l, x, most)
		}
		k := &t.Rows[at]
		k.After, k.Spans = len(t.Rows), []trace.SpanID{id}
		k.index = newIndex(&source{run: r, classes: t.classes[v]}, k.Spans)
	}
	t.close(top, GroupHeading)
	t.Rows[top].Lanes = 1
}

// addWorkgroups adds at most most of a launch's workgroups below its heading.
func (t *Timeline) addWorkgroups(heading int, l *launch, x *partIndex, most int) {
	v := t.Rows[heading].View
	r := t.Views[v].Run
	for _, id := range l.addVacant(r, x.vacant) {
		t.classes[v][id] = Wait
	}
	rows := l.rows(r, x.lanes)
	if most > 0 {
		rows = rows[:min(most, len(rows))]
	}
	for cluster := range slices.Chunk(rows, 16) { // as in Figure11
		slices.SortStableFunc(cluster, func(a, b Row) int { return cmp.Compare(a.ComputeEnd, b.ComputeEnd) })
	}
	if !hasMarks(rows, SliceDone) {
		markSlices(r, t.classes[v], rows)
	}
	for _, row := range rows {
		row.Depth, row.View, row.Parent = 2, v, heading
		t.add(row)
	}
}

// lanes is how many lanes the launch used.
func (l *launch) lanes(r *trace.Run) int {
	used := map[trace.LaneID]bool{}
	for _, id := range l.spans {
		used[r.Spans[id].Lane] = true
	}
	return len(used)
}
