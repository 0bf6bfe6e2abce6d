package layout

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// New lays out every lane of the runs, one run below the other.
func New(views []View) *Timeline {
	t := &Timeline{Views: views}
	for v := range views {
		t.classes = append(t.classes, classify(views[v].Run))
		t.strips = append(t.strips, strip{})
		var states errgroup.Group
		states.Go(guard.Func(func() error { t.strips[v] = newStrip(views[v]); return nil }))
		t.addRun(v, func() {
			if broken := states.Wait(); broken != nil {
				panic(broken)
			}
		})
	}
	axis := RangeOf(views)
	t.Start, t.End = axis.From, axis.To
	return t
}

// RangeOf is the axis that is just long enough for every span of every view.
func RangeOf(views []View) Window {
	w := Window{trace.Infinity, -trace.Infinity}
	for _, v := range views {
		if spans := v.Run.Spans; len(spans) > 0 {
			w.From, w.To = min(w.From, spans[0].Start+v.Offset), max(w.To, v.Run.End+v.Offset)
		}
	}
	if w.From > w.To {
		w.From = 0
	}
	w.To = max(w.To, w.From+1)
	return w
}

// A group is lanes that belong together below a rank.
type group struct {
	kinds   []trace.LaneKind
	heading string // "" if its lanes stand directly below the rank
	detail  bool
	least   int // lanes, below which there is no heading
}

// The groups in the order that they are shown: work of the device first.
var groups = []group{
	{kinds: []trace.LaneKind{trace.Queue}},
	{kinds: []trace.LaneKind{trace.Engine}},
	{kinds: []trace.LaneKind{trace.Link}},
	{kinds: []trace.LaneKind{trace.NIC}},
	{kinds: []trace.LaneKind{trace.Persistent}, heading: "workgroups"},
	{kinds: []trace.LaneKind{trace.Slot}, heading: "CU slots"},
	{kinds: []trace.LaneKind{trace.Changed}},
	{kinds: []trace.LaneKind{trace.Annotation}, heading: "annotations", detail: true, least: 3},
	{kinds: []trace.LaneKind{trace.HostThread}, heading: "host threads", detail: true},
}

func groupOf(k trace.LaneKind) int {
	return slices.IndexFunc(groups, func(g group) bool { return slices.Contains(g.kinds, k) })
}

// addRun adds the rows of a run. It calls states before it needs the run's strip, which may
// be made meanwhile.
func (t *Timeline) addRun(v int, states func()) {
	r := t.Views[v].Run
	depth, top := 0, trace.None
	if len(t.Views) > 1 {
		name := t.Views[v].Name
		if name == "" {
			name = r.Name
		}
		top = t.open(Row{Label: name, Kind: RunHeading, View: v, Rank: trace.None, Parent: trace.None})
		depth = 1
	}
	lanes := sortedLanes(r)
	spans := spansByLane(r)
	var ranks []int
	for len(lanes) > 0 {
		rank := r.Lanes[lanes[0]].Rank
		n := runLength(lanes, func(l trace.LaneID) bool { return r.Lanes[l].Rank == rank })
		ranks = append(ranks, t.addRank(Row{View: v, Rank: rank, Depth: depth, Parent: top}, lanes[:n], spans))
		lanes = lanes[n:]
	}
	states()
	for _, rank := range ranks {
		t.closeRank(rank)
	}
	if top != trace.None {
		t.close(top, RankHeading)
	}
}

// counted is how many lanes a heading has; of warps, also of how many workgroups they are.
func counted(r *trace.Run, lanes []trace.LaneID) string {
	workgroups, warps := map[int64]bool{}, false
	for _, id := range lanes {
		workgroups[r.Lanes[id].ID], warps = true, warps || warpOf(&r.Lanes[id]) > 0
	}
	if warps {
		return fmt.Sprintf("%d, %d warps", len(workgroups), len(lanes))
	}
	return fmt.Sprint(len(lanes))
}

// addRank adds the rows of a rank; closeRank completes its heading, which is returned.
func (t *Timeline) addRank(at Row, lanes []trace.LaneID, spans [][]trace.SpanID) int {
	r := t.Views[at.View].Run
	rank := at
	rank.Kind, rank.Label = RankHeading, r.RankLabel(at.Rank)
	if of := t.Views[at.View].CopyOf; of != nil && of[at.Rank] != trace.None {
		rank.Label += fmt.Sprintf(" · copy of rank %d", of[at.Rank])
	}
	top := t.open(rank)
	for len(lanes) > 0 {
		g := groupOf(r.Lanes[lanes[0]].Kind)
		n := runLength(lanes, func(l trace.LaneID) bool { return groupOf(r.Lanes[l].Kind) == g })
		below := Row{View: at.View, Rank: at.Rank, Depth: at.Depth + 1, Parent: top}
		heading := trace.None
		if groups[g].heading != "" && n >= groups[g].least {
			h := below
			h.Kind, h.Label, h.Detail = GroupHeading, fmt.Sprintf("%s (%s)", groups[g].heading, counted(r, lanes[:n])), groups[g].detail
			heading = t.open(h)
			below.Depth, below.Parent = below.Depth+1, heading
		}
		for _, l := range lanes[:n] {
			t.addLane(below, l, spans[l])
		}
		if heading != trace.None {
			t.close(heading, LaneRow)
		}
		lanes = lanes[n:]
	}
	t.Rows[top].After = len(t.Rows)
	return top
}

// maxLevels bounds how many rows the nesting of one lane takes; what is deeper
// shares the last.
const maxLevels = 64

// addLane adds a lane's row, and below it a row for each deeper level of nesting.
func (t *Timeline) addLane(at Row, l trace.LaneID, spans []trace.SpanID) {
	r := t.Views[at.View].Run
	at.Kind, at.Lane, at.Label = LaneRow, l, r.LaneLabel(l)
	k := r.Lanes[l].Kind
	if k != trace.HostThread && k != trace.Annotation {
		at.Spans = spans
		if onWorkgroups(k) {
			at.Marks = marksOf(r, spans)
		}
		t.add(at)
		return
	}
	levels := levelsOf(r, spans)
	at.Spans = levels[0]
	top := t.open(at)
	t.setIndex(top)
	for i, level := range levels[1:] {
		below := at
		below.Kind, below.Label, below.Depth, below.Parent = levelRow, fmt.Sprintf("level %d", i+1), at.Depth+1, top
		below.Spans, below.Detail = level, true
		t.add(below)
	}
	t.Rows[top].After = len(t.Rows)
}

// levelsOf deals out spans to levels such that none overlaps another of its
// level. For spans that nest, the level is the depth.
func levelsOf(r *trace.Run, spans []trace.SpanID) [][]trace.SpanID {
	levels := [][]trace.SpanID{nil}
	free := []trace.Time{-trace.Infinity} // when the last span of each level ends
	for _, id := range spans {
		s := &r.Spans[id]
		i := slices.IndexFunc(free, func(end trace.Time) bool { return end <= s.Start })
		switch {
		case i >= 0:
		case len(free) < maxLevels:
			i = len(free)
			levels, free = append(levels, nil), append(free, 0)
		default:
			i = maxLevels - 1
		}
		levels[i] = append(levels[i], id)
		free[i] = max(s.End, s.Start+1)
	}
	return levels
}

// add appends a row that has nothing below it.
func (t *Timeline) add(row Row) {
	t.setIndex(t.open(row))
}

func (t *Timeline) setIndex(row int) {
	r := &t.Rows[row]
	from := t.sourceOf(r)
	r.index = newIndex(&from, r.Spans)
}

// open appends a row; rows appended until close are below it.
func (t *Timeline) open(row Row) int {
	if row.Kind < LaneRow {
		row.Lane = trace.None
	}
	row.Lanes = 1
	row.After = len(t.Rows) + 1
	t.Rows = append(t.Rows, row)
	return len(t.Rows) - 1
}

// close ends a heading and sums up its direct children of the kind.
func (t *Timeline) close(heading int, kind RowKind) {
	t.Rows[heading].After = len(t.Rows)
	t.closeOver(heading, func(r *Row) bool { return r.Kind == kind })
}

// closeRank makes the heading of a rank the strip of its states where it has one, else it
// sums up its queues, engines and links, or its workgroups, or what there is.
func (t *Timeline) closeRank(heading int) {
	if t.addStates(heading) {
		return
	}
	r := t.Run(heading)
	device := func(row *Row) bool {
		return row.Kind == LaneRow && r.Lanes[row.Lane].Kind != trace.Annotation
	}
	slots := func(row *Row) bool { return row.Kind == GroupHeading && !row.Detail }
	anything := func(*Row) bool { return true }
	for _, pick := range []func(*Row) bool{device, slots, anything} {
		if t.closeOver(heading, pick); len(t.Rows[heading].Spans) > 0 {
			break
		}
	}
	t.Rows[heading].Lanes = 1 // queues of one device: that one of them runs is busy enough
}

// addStates puts a rank's states on its heading. It reports false if there are none.
func (t *Timeline) addStates(heading int) bool {
	h := &t.Rows[heading]
	states := t.strips[h.View].of(h.Rank)
	if len(states) == 0 {
		return false
	}
	h.Spans, h.Strip, h.Lanes = states, true, 1
	t.setIndex(heading)
	return true
}

func (t *Timeline) closeOver(heading int, pick func(*Row) bool) {
	h := &t.Rows[heading]
	var from []int
	for i := heading + 1; i < h.After; i = t.Rows[i].After {
		if !pick(&t.Rows[i]) || len(t.Rows[i].Spans) == 0 {
			continue
		}
		if t.Rows[i].Strip && !h.Strip { // the heading of ranks with states
			h.Strip, from = true, nil
		}
		if t.Rows[i].Strip == h.Strip {
			from = append(from, i)
		}
	}
	if len(from) == 1 { // the same spans: share the index
		only := &t.Rows[from[0]]
		h.Spans, h.index, h.Lanes = only.Spans, only.index, only.Lanes
		return
	}
	h.Lanes = 0
	lists := make([][]trace.SpanID, len(from))
	for k, i := range from {
		lists[k] = t.Rows[i].Spans
		h.Lanes += t.Rows[i].Lanes
	}
	h.Spans = slices.Concat(lists...)
	h.Lanes = max(h.Lanes, 1)
	if from := t.sourceOf(h); h.Strip {
		slices.SortFunc(h.Spans, func(a, b trace.SpanID) int {
			return cmp.Or(cmp.Compare(from.start(a), from.start(b)), cmp.Compare(a, b))
		})
	} else {
		sortIDs(h.Spans, len(from.run.Spans)) // ids are in the order of starts
	}
	t.setIndex(heading)
}

// sortIDs sorts different ids below n. Of many of them it is quicker to mark each.
func sortIDs(ids []trace.SpanID, n int) {
	if len(ids) < n/64 {
		slices.Sort(ids)
		return
	}
	marks := make([]uint64, n/64+1)
	for _, id := range ids {
		marks[id/64] |= 1 << (id % 64)
	}
	at := 0
	for i, word := range marks {
		for ; word != 0; word &= word - 1 {
			ids[at] = trace.SpanID(64*i + bits.TrailingZeros64(word))
			at++
		}
	}
}

// spansByLane lists each lane's spans by start. The lists share one array.
func spansByLane(r *trace.Run) [][]trace.SpanID {
	counts := make([]int, len(r.Lanes))
	for i := range r.Spans {
		counts[r.Spans[i].Lane]++
	}
	all := make([]trace.SpanID, len(r.Spans))
	lists := make([][]trace.SpanID, len(r.Lanes))
	at := 0
	for l, n := range counts {
		lists[l] = all[at : at : at+n]
		at += n
	}
	for i := range r.Spans {
		l := r.Spans[i].Lane
		lists[l] = append(lists[l], trace.SpanID(i))
	}
	return lists
}

func sortedLanes(r *trace.Run) []trace.LaneID {
	ids := make([]trace.LaneID, len(r.Lanes))
	for i := range ids {
		ids[i] = trace.LaneID(i)
	}
	slices.SortFunc(ids, func(a, b trace.LaneID) int {
		x, y := &r.Lanes[a], &r.Lanes[b]
		return cmp.Or(
			cmp.Compare(x.Rank, y.Rank),
			cmp.Compare(groupOf(x.Kind), groupOf(y.Kind)),
			cmp.Compare(x.Device, y.Device),
			cmp.Compare(x.ID, y.ID),
			cmp.Compare(x.Peer, y.Peer),
			cmp.Compare(x.Sub, y.Sub),
			cmp.Compare(a, b))
	})
	return ids
}

// runLength is how many of the first elements satisfy the condition.
func runLength[T any](s []T, ok func(T) bool) int {
	if n := slices.IndexFunc(s, func(e T) bool { return !ok(e) }); n >= 0 {
		return n
	}
	return len(s)
}
