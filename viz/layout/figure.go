package layout

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A Figure selects the workgroups that Figure11 shows. The zero value is the paper's
// choice: the first 32 persistent workgroups in two clusters of 16, of the
// kernel with the most workgroups that send to peers, or the most at all, on the first rank.
type Figure struct {
	Rank    int32 // row of Run.Ranks
	Launch  int   // which launch of it, from 0
	Cluster int   // workgroups that compute one slice together; 0 is 16
	Rows    int   // workgroups shown; 0 is 32, negative all
}

// Figure11 lays out the workgroups of one kernel as in Figure 11 of the fused
// operators' paper (SC'24): one row a persistent workgroup, in clusters that
// compute a slice together, within a cluster by when the last computation
// ended, earliest first. Measured warps are rows of their workgroups. Kernels without persistent workgroups give a row a CU
// slot. It is an error if the run has no such workgroups.
func Figure11(v View, f Figure) (*Timeline, error) {
	r := v.Run
	if f.Rank < 0 || int(f.Rank) >= len(r.Ranks) {
		return nil, fmt.Errorf("rank row %d: the run has %d", f.Rank, len(r.Ranks))
	}
	k, at, of, err := f.pick(r)
	if err != nil {
		return nil, err
	}
	if f.Cluster <= 0 {
		f.Cluster = 16
	}
	if f.Rows == 0 {
		f.Rows = 32
	}
	t := &Timeline{Views: []View{v}, classes: [][]Class{classify(r)}}
	for _, id := range k.addVacant(r, vacantSpans(r)) {
		t.classes[0][id] = Wait
	}
	t.Title = fmt.Sprintf("%s on rank %d", k.name, r.RankID(f.Rank))
	if r.Simulated {
		t.Title = fmt.Sprintf("modelled workgroups of %s on rank %d", trace.Short(k.name), r.RankID(f.Rank))
		if r.Estimated == "" { // else the run's name says so
			t.Title += " (not measured)"
		}
	}
	if of > 1 {
		t.Title += fmt.Sprintf(", launch %d of %d", at+1, of)
	}
	if last, rank := slowest(r, k.name, at, of); last > k.end {
		t.Late = last - k.end
		t.Title += fmt.Sprintf(", ends %s before rank %d", Short(t.Late), r.RankID(rank))
	}
	rows := k.rows(r, sortedLanes(r))
	if f.Rows > 0 {
		rows = rows[:min(f.Rows, len(rows))]
	}
	warps := slices.ContainsFunc(rows, func(row Row) bool { return warpOf(&r.Lanes[row.Lane]) > 0 })
	for len(rows) > 0 {
		if !warps {
			n := min(f.Cluster, len(rows))
			t.addCluster(rows[:n])
			rows = rows[n:]
			continue
		}
		workgroup := r.Lanes[rows[0].Lane].ID
		n := runLength(rows, func(row Row) bool { return r.Lanes[row.Lane].ID == workgroup })
		t.addGroup(fmt.Sprintf("WG %d, %d warps", workgroup, n), rows[:n])
		rows = rows[n:]
	}
	t.addBeside(f, k)
	t.Start, t.End = k.start+v.Offset, max(k.end, k.start+1)+v.Offset
	return t, nil
}

// warpOf is the number of a warp of a workgroup that a profiler looked into; 0 for the first one and for whole workgroups.
func warpOf(l *trace.Lane) int {
	if l.Kind != trace.Persistent {
		return 0
	}
	return int(l.Sub)
}

func (t *Timeline) addCluster(rows []Row) {
	slices.SortStableFunc(rows, func(a, b Row) int { return cmp.Compare(a.ComputeEnd, b.ComputeEnd) })
	label, lanes := fmt.Sprintf("cluster of %d", len(rows)), t.Views[0].Run.Lanes
	first, last := lanes[rows[0].Lane].ID, lanes[rows[0].Lane].ID
	for _, row := range rows {
		first, last = min(first, lanes[row.Lane].ID), max(last, lanes[row.Lane].ID)
	}
	switch {
	case lanes[rows[0].Lane].Kind == trace.Slot:
		label = fmt.Sprintf("%d CU slots", len(rows))
	case last-first+1 == int64(len(rows)) && len(rows) > 1:
		label = fmt.Sprintf("WG %d to %d", first, last)
	}
	if !hasMarks(rows, SliceDone) {
		markSlices(t.Views[0].Run, t.classes[0], rows)
	}
	t.addGroup(label, rows)
}

// mostBeside is how many rows of each other kernel, and of transfers, a figure shows at most.
const mostBeside = 8

// addBeside adds what ran on the rank beside the figure's kernel: the workgroups of kernels that
// share its time, such as the consumer of its tiles or a collective, collectives without workgroups,
// and what copy engines and links move. Only their spans within its time are on the rows.
func (t *Timeline) addBeside(f Figure, k *launch) {
	r := t.Views[0].Run
	during := func(s *trace.Span) bool { return s.Start < k.end && s.End > k.start }
	lanes, shown := sortedLanes(r), map[trace.SpanID]bool{k.parent: true}
	for _, l := range launches(r)[f.Rank] {
		shown[l.parent] = true
		if l.parent == k.parent && l.name == k.name || !k.meets(l) {
			continue
		}
		l.spans = slices.DeleteFunc(l.spans, func(id trace.SpanID) bool { return !during(&r.Spans[id]) })
		if rows := l.rows(r, lanes); len(rows) > 0 {
			t.addGroup(fmt.Sprintf("%s, %d of %d rows", trace.Short(l.name), min(mostBeside, len(rows)), len(rows)),
				rows[:min(mostBeside, len(rows))])
		}
	}
	var rows []Row
	by := map[trace.LaneID][]trace.SpanID{}
	for i := range r.Spans {
		if s := &r.Spans[i]; (s.Kind == trace.Transfer || s.Kind == trace.Collective && !shown[trace.SpanID(i)]) && s.Start < s.End &&
			during(s) && r.Lanes[s.Lane].Rank == f.Rank {
			by[s.Lane] = append(by[s.Lane], trace.SpanID(i))
		}
	}
	for _, lane := range lanes {
		if spans := by[lane]; len(spans) > 0 && len(rows) < mostBeside {
			rows = append(rows, Row{Label: r.LaneLabel(lane), Kind: LaneRow, Rank: f.Rank, Lane: lane, Spans: spans})
		}
	}
	if len(rows) > 0 {
		t.addGroup("transfers", rows)
	}
}

// addGroup adds rows below a heading.
func (t *Timeline) addGroup(label string, rows []Row) {
	top := t.open(Row{Label: label, Kind: GroupHeading, Rank: rows[0].Rank, Parent: trace.None})
	for _, row := range rows {
		row.Depth, row.Parent = 1, top
		t.add(row)
	}
	t.close(top, LaneRow)
}

// A launch is the workgroups of one kernel on one rank.
type launch struct {
	name       string
	parent     trace.SpanID // the kernel, or None where the file has only workgroups
	start, end trace.Time
	spans      []trace.SpanID // workgroups, their phases and markers, by start
	vacant     []trace.SpanID // of spans, if added
	workgroups int
	senders    int // workgroups whose result goes to a peer
}

// pick finds the launch that the figure shows, its number, and how many of its name there are.
func (f Figure) pick(r *trace.Run) (k *launch, at, of int, err error) {
	all := launches(r)[f.Rank]
	if len(all) == 0 {
		return nil, 0, 0, fmt.Errorf("rank %d has no workgroups: overlapse replay TRACE -o out --rank %d, then view out; or view a *_wg_trace.csv",
			r.RankID(f.Rank), r.RankID(f.Rank))
	}
	most := slices.MaxFunc(all, func(a, b *launch) int {
		return cmp.Or(cmp.Compare(a.senders, b.senders), cmp.Compare(a.workgroups, b.workgroups))
	})
	fit := slices.DeleteFunc(slices.Clone(all), func(l *launch) bool { return l.name != most.name })
	if f.Launch < 0 || f.Launch >= len(fit) {
		return nil, 0, 0, fmt.Errorf("launch %d of kernel %q: there are %d", f.Launch, fit[0].name, len(fit))
	}
	if f.Launch == 0 { // the first with something beside it, if there is one
		if i := slices.IndexFunc(fit, func(l *launch) bool { return slices.ContainsFunc(all, l.meets) }); i > 0 {
			f.Launch = i
		}
	}
	return fit[f.Launch], f.Launch, len(fit), nil
}

// slowest is when a launch of a kernel ended on the rank row on which it ended last; 0 if the ranks' launches of that
// number share no time, as where clocks are not aligned. Ranks that launched it another number of times do not count.
func slowest(r *trace.Run, name string, at, of int) (end trace.Time, rank int32) {
	var starts trace.Time
	first, all := trace.Infinity, launches(r)
	for row := range int32(len(r.Ranks)) {
		fit := slices.DeleteFunc(all[row], func(l *launch) bool { return l.name != name })
		if len(fit) != of {
			continue
		}
		l := fit[at]
		starts, first = max(starts, l.start), min(first, l.end)
		if l.end > end {
			end, rank = l.end, row
		}
	}
	if starts >= first {
		return 0, 0
	}
	return end, rank
}

// meets reports whether another launch ran at the same time.
func (l *launch) meets(other *launch) bool {
	return l != other && l.start < other.end && l.end > other.start
}

// launches gathers the workgroups by rank row and kernel, in order of their starts.
func launches(r *trace.Run) map[int32][]*launch {
	type key struct {
		rank   int32
		parent trace.SpanID
		name   trace.NameID // where there is no parent
	}
	byKey, all := map[key]*launch{}, map[int32][]*launch{}
	for i := range r.Spans {
		s := &r.Spans[i]
		if !onWorkgroupLane(r, s) || s.Vacant() {
			continue
		}
		wg := s
		for wg.Kind != trace.Workgroup && wg.Parent != trace.None {
			wg = &r.Spans[wg.Parent]
		}
		k := key{r.Lanes[s.Lane].Rank, wg.Parent, 0}
		if k.parent == trace.None {
			k.name = wg.Name
		}
		l := byKey[k]
		if l == nil {
			l = &launch{parent: k.parent, name: r.Names[wg.Name], start: s.Start, end: s.End}
			if k.parent != trace.None {
				p := &r.Spans[k.parent]
				l.name, l.start, l.end = r.Names[p.Name], p.Start, p.End
			}
			byKey[k] = l
			all[k.rank] = append(all[k.rank], l)
		}
		l.spans = append(l.spans, trace.SpanID(i))
		l.start, l.end = min(l.start, s.Start), max(l.end, s.End)
		if s.Kind == trace.Workgroup {
			l.workgroups++
			if destination(r, *s).remote() {
				l.senders++
			}
		}
	}
	return all
}

// addVacant adds the time in which lanes of the launch were vacant while it
// ran: workgroups that came late, and the tail. The spans are those vacant by lane.
func (l *launch) addVacant(r *trace.Run, spans map[trace.LaneID][]trace.SpanID) []trace.SpanID {
	if l.vacant != nil {
		return l.vacant
	}
	l.vacant = []trace.SpanID{}
	lanes := map[trace.LaneID]bool{}
	for _, id := range l.spans {
		lane := r.Spans[id].Lane
		if lanes[lane] {
			continue
		}
		lanes[lane] = true
		for _, at := range spans[lane] {
			if s := &r.Spans[at]; s.Start >= l.start && s.End <= l.end {
				l.vacant = append(l.vacant, at)
			}
		}
	}
	l.spans = append(l.spans, l.vacant...)
	slices.Sort(l.spans) // spans are sorted by start
	return l.vacant
}

func onWorkgroups(k trace.LaneKind) bool { return k == trace.Persistent || k == trace.Slot }

func onWorkgroupLane(r *trace.Run, s *trace.Span) bool { return onWorkgroups(r.Lanes[s.Lane].Kind) }

// rows makes a row of each lane that the launch used, in the order of all lanes.
func (l *launch) rows(r *trace.Run, all []trace.LaneID) []Row {
	lanes := map[trace.LaneID][]trace.SpanID{}
	for _, id := range l.spans {
		lane := r.Spans[id].Lane
		lanes[lane] = append(lanes[lane], id)
	}
	var rows []Row
	for _, lane := range all {
		spans := lanes[lane]
		if len(spans) == 0 {
			continue
		}
		row := Row{Label: r.LaneLabel(lane), Kind: LaneRow, Rank: r.Lanes[lane].Rank, Lane: lane}
		row.Spans, row.Marks, row.ComputeEnd = spans, marksOf(r, spans), computeEnd(r, spans)
		rows = append(rows, row)
	}
	return rows
}

// tiles are the workgroup spans of a row that compute: those with a phase of
// it, or without any phases.
func tiles(r *trace.Run, spans []trace.SpanID) []trace.SpanID {
	phased, computes := map[trace.SpanID]bool{}, map[trace.SpanID]bool{}
	for _, id := range spans {
		if p := within(r, id); p != trace.None && r.Spans[id].Start < r.Spans[id].End {
			phased[p] = true
			computes[p] = computes[p] || r.Spans[id].Kind == trace.PhaseCompute
		}
	}
	var out []trace.SpanID
	for _, id := range spans {
		if r.Spans[id].Kind == trace.Workgroup && phased[id] == computes[id] {
			out = append(out, id)
		}
	}
	return out
}

// computeEnd is when the last computation on a row ended.
func computeEnd(r *trace.Run, spans []trace.SpanID) trace.Time {
	var end trace.Time
	for _, id := range spans {
		if r.Spans[id].Kind == trace.PhaseCompute {
			end = max(end, r.Spans[id].End)
		}
	}
	if end > 0 {
		return end
	}
	for _, id := range tiles(r, spans) {
		end = max(end, r.Spans[id].End)
	}
	return end
}
