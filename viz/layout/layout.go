// Package layout turns runs into the rows of a timeline, without drawing
// them: the terminal and the report share it, and so show the same thing.
//
//	trace.Run ──New──────▶ Timeline ──Merge──▶ []Cell   (a row, a window, so many cells)
//	          ──Figure11─▶          ──At─────▶ SpanID   (what is under a point)
//	                                 Ticks ──▶ Axis
//
// A Timeline is a tree of rows in the order they are drawn: runs, ranks, and
// under each rank its queues, engines, links, workgroups, annotations and host
// threads. It keeps 8 to 14 bytes a span and row, never a copy of a span.
//
// Merge is exact at every zoom, and its cost depends on the number of cells and
// not on the number of spans in them. It needs for each row
//
//	F(t) = time of each class before t = Σ over spans begun (t − start) − Σ over spans ended (t − end)
//
// which two running sums give, one over the spans by start and one over them
// by end, kept for blocks of 16 spans (64 states) with the times that the blocks end at. A cell is F at its right edge minus F at its
// left. Nothing in this assumes that the spans of a row are disjoint, so the
// row of a collapsed heading is merged the same way from all that is below it.
//
// New makes the states of ranks in a goroutine, beside the rows of lanes. The result does not
// depend on that.
//
// Labels and names are text from the trace and may hold anything; who shows
// them escapes them.
package layout

import (
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A View is a run to be shown and its place on the common time axis.
type View struct {
	Run    *trace.Run
	Name   string           // heading; "": the run's name
	Offset trace.Time       // added to the run's times to give times of the axis
	Gaps   []overlap.Reason // why queues were stalled, where known
	CopyOf []int            // by rank row: the rank that it is a copy of, None for others; nil: no rank is one
	parts  *partIndex       // of Indexed views; else nil
}

// Align sets the offsets such that all runs are at their starts, times of each run, at the
// same time of the axis, and the first span of any is at 0. A capture begins with the
// host, and its first iteration later than that of a simulation: from the start of the
// run, the one would look longer than the other.
func Align(views []View, starts []trace.Time) {
	var lead trace.Time
	for i, v := range views {
		if len(v.Run.Spans) > 0 {
			lead = max(lead, starts[i]-v.Run.Spans[0].Start)
		}
	}
	for i := range views {
		views[i].Offset = lead - starts[i]
	}
}

// A Timeline is the rows of one or more runs over one time axis. Nothing
// changes it once it is made.
type Timeline struct {
	Title      string // of a Figure 11: the kernel, its launch and the rank; else ""
	Views      []View
	Rows       []Row      // preorder: a row's descendants follow it
	Start, End trace.Time // of the axis; End > Start

	classes [][]Class  // by view, then span
	strips  []strip    // by view; of a Figure 11 none
	late    trace.Time // of a Figure 11: how long after End its launch ended on the rank on which it ended last
}

// A Row is one line of the timeline: a heading that sums up the rows below it,
// a lane, or one level of nesting of a lane.
type Row struct {
	Label  string
	Kind   RowKind
	Depth  int          // of indentation, from 0
	View   int          // of Timeline.Views
	Strip  bool         // a heading whose spans are the states of its ranks
	Rank   int32        // row of Run.Ranks; None on the heading of a run
	Lane   trace.LaneID // None on headings
	Parent int          // row, or None
	After  int          // the first row that is no descendant: descendants are Rows[i+1 : After]
	Lanes  int          // lanes that a full cell represents: those of a group, the ranks of a run; else 1
	Detail bool         // hidden by default

	// Largest are the largest intervals without computation, of the heading of a run in Compared.
	Largest []interval

	// Spans by start, each after the span it nests in. On a lane they nest or
	// are disjoint; on a heading they overlap.
	Spans []trace.SpanID
	Marks []Mark // by time; only on workgroup lanes

	// ComputeEnd is when the row's last computation ended (Figure 11's order
	// within a cluster), in the run's time. Only set by Figure11.
	ComputeEnd trace.Time

	index index
}

// Leaf reports whether the row has no rows below it.
func (t *Timeline) Leaf(row int) bool { return t.Rows[row].After == row+1 }

// An interval is a stretch of a rank's time in one state, in the run's time.
type interval struct {
	From, To trace.Time
	Class    Class
	Name     string // "transfer", "idle: flag"
}

// String is the interval with its length: "idle: flag 21.00 µs".
func (i interval) String() string { return i.Name + " " + Short(i.To-i.From) }

// A RowKind is the kind of a row.
type RowKind uint8

// The kinds of rows.
const (
	RunHeading RowKind = iota
	RankHeading
	GroupHeading // workgroups, slots, host threads of a rank; a cluster of Figure 11
	LaneRow
	levelRow // a deeper level of the lane row above it
)

// A Mark is an instant on a workgroup's row.
type Mark struct {
	At   trace.Time // in the run's time
	Kind MarkKind
	Span trace.SpanID // what it was read from
}

// A MarkKind is the kind of event at a mark.
type MarkKind uint8

// The marks of Figure 11 of the fused operators' paper (SC'24).
const (
	PutIssued   MarkKind = iota // a non-blocking put was issued
	StoreIssued                 // a store to a peer began; the store itself is drawn too
	SliceDone                   // a slice that stays on this rank was complete
	OtherMark                   // a flag, a semaphore, a tracked tile
	NumMarks                    // how many kinds there are
)

// Glyph is the mark in Unicode, Letter in ASCII.
func (k MarkKind) Glyph() rune { return [...]rune{'▲', '△', '◆', '•'}[k] }

func (k MarkKind) String() string {
	return [...]string{"put issued", "store to a peer", "local slice complete", "flag or signal"}[k]
}

// Run is the run that has the names and the lanes of the row's spans.
func (t *Timeline) Run(row int) *trace.Run { return t.sourceOf(&t.Rows[row]).run }

func (t *Timeline) sourceOf(r *Row) source {
	if r.Strip {
		return source{run: t.strips[r.View].run, strip: &t.strips[r.View]}
	}
	return source{run: t.Views[r.View].Run, classes: t.classes[r.View]}
}

// Offset is what the row's run times are shifted by on the axis.
func (t *Timeline) Offset(row int) trace.Time { return t.Views[t.Rows[row].View].Offset }

// Span is a span of the row's run, in that run's own time.
func (t *Timeline) Span(row int, id trace.SpanID) trace.Span {
	from := t.sourceOf(&t.Rows[row])
	return from.span(id)
}

// Class is what a span of the row's run counts as.
func (t *Timeline) Class(row int, id trace.SpanID) Class {
	from := t.sourceOf(&t.Rows[row])
	return from.class(id)
}

// ClassName is what a class is called on a row: states of ranks have names of their own.
func (t *Timeline) ClassName(row int, c Class) string {
	switch {
	case t.Rows[row].Strip && c == Local:
		return overlap.Computing.String()
	case t.Rows[row].Strip && c == Comm:
		return overlap.Transferring.String()
	}
	return c.String()
}

// HasClass reports whether spans of some of the classes are on a row.
func (t *Timeline) HasClass(row int, set ClassSet) bool {
	return slices.ContainsFunc(t.Rows[row].index.classes, set.has)
}

// Present lists the classes and the marks that occur on the rows, in the order of a legend.
func (t *Timeline) Present() ([]Class, []MarkKind) {
	var class [numClasses]bool
	var mark [NumMarks]bool
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Kind < LaneRow && !row.Strip {
			continue
		}
		for _, c := range row.index.classes {
			class[c] = true
		}
		for _, m := range row.Marks {
			mark[m.Kind] = true
		}
	}
	var marks []MarkKind
	for k := range NumMarks {
		if mark[k] {
			marks = append(marks, k)
		}
	}
	return slices.DeleteFunc(Classes(), func(c Class) bool { return !class[c] }), marks
}
