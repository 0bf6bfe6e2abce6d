package html

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// workgroups compares the workgroups of runs on parts of the step, each from the start of
// its first kernel, on every rank that has some. Runs without operations, such as
// captured ones, show Figure 11 of the kernel that sends most to peers instead.
func (r Report) workgroups(d *dictionary) *panel {
	p := &panel{RowHeight: 15, FirstRows: 16, Main: r.charted()}
	views := r.layoutViews()
	for rank := range r.ranks() {
		for _, part := range r.partsOn(views, rank) {
			r.compared(p, views, rank, part, d)
		}
	}
	if len(p.Sections) == 0 {
		p.FirstRows = 32
		for run, n := range r.Runs {
			for rank := range n.Run.Ranks {
				if t, err := layout.Figure11(layout.View{Run: n.Run}, layout.Figure{Rank: int32(rank), Rows: -1}); err == nil { // else this rank has no workgroups
					p.Sections = append(p.Sections, r.figure11(t, run, d))
				}
			}
		}
	}
	for _, s := range p.Sections {
		if !slices.Contains(p.Shown, s.Run) && (len(p.Shown) < mostShown || slices.Contains(r.Shown, s.Run)) {
			p.Shown = append(p.Shown, s.Run)
		}
	}
	if len(p.Sections) > 0 {
		p.Pick = r.pick(p)
		p.Kernel = p.Sections[slices.IndexFunc(p.Sections, func(s section) bool { return s.Group == p.Pick })].Kernel
	}
	return p
}

// mostShown is how many runs the workgroups' timeline shows at first.
const mostShown = 3

// rankID is the job's number of a rank row.
func (r Report) rankID(rank int32) int {
	for _, n := range r.Runs {
		if int(rank) < len(n.Run.Ranks) {
			return n.Run.RankID(rank)
		}
	}
	return int(rank)
}

// partsOn are the parts of the step that runs are compared on.
func (r Report) partsOn(views []layout.View, rank int32) []layout.Part {
	if r.Parts != nil {
		return r.Parts
	}
	return layout.PartsOf(views, rank)
}

// ranks is the largest number of ranks of a run.
func (r Report) ranks() int32 {
	n := 0
	for _, run := range r.Runs {
		n = max(n, len(run.Run.Ranks))
	}
	return int32(n)
}

func (r Report) layoutViews() []layout.View {
	var views []layout.View
	for _, n := range r.Runs {
		views = append(views, layout.View{Run: n.Run, Name: n.Name, Gaps: n.Gaps})
	}
	return layout.Indexed(views)
}

// compared adds a section for each run that has workgroups of the part.
func (r Report) compared(p *panel, views []layout.View, rank int32, part layout.Part, d *dictionary) {
	var sections []section
	for run, v := range views {
		t, err := layout.Compared([]layout.View{v}, rank, part, -1)
		if err != nil || !slices.ContainsFunc(t.Rows, func(row layout.Row) bool { return row.Kind == layout.LaneRow }) {
			continue // this run does not have the part, or no workgroups of it
		}
		s := r.section(run, fmt.Sprintf("rank %d", v.Run.RankID(rank)))
		s.Kernel, s.End, s.Time = part.Name, t.End, layout.Short(t.End)
		s.Title = s.Name + " · " + s.Time
		if len(sections) > 0 {
			s.Title += fmt.Sprintf(", %s against %s", difference(t.End, sections[0].End), sections[0].Name)
		}
		for _, g := range t.Rows[0].Largest {
			s.Gaps = append(s.Gaps, gapLabel{g.From + t.Offset(0), g.To + t.Offset(0), g.Class.CSS(), g.String()})
		}
		slices.SortFunc(s.Gaps, func(a, b gapLabel) int { return cmp.Compare(a.From, b.From) })
		nth := 0
		for i := range t.Rows {
			switch t.Rows[i].Kind {
			case layout.GroupHeading:
				s.Rows = append(s.Rows, kernelRow(t, i, d))
				nth = 0
			case layout.LaneRow:
				row := workgroupRow(t, i, d)
				row.Nth = nth
				s.Rows = append(s.Rows, row)
				nth++
			}
		}
		sections = append(sections, s)
	}
	p.Sections = append(p.Sections, sections...)
}

// difference is how much longer a time is than another: "+1.2 %, +30.00 µs".
func difference(t, than trace.Time) string {
	sign := [...]string{"−", "±", "+"}[1+cmp.Compare(t, than)]
	off := max(t-than, than-t)
	return fmt.Sprintf("%s%.1f %%, %s%s", sign, 100*float64(off)/float64(than), sign, layout.Short(off))
}

// kernelRow is a kernel or copy above its workgroups.
func kernelRow(t *layout.Timeline, i int, d *dictionary) row {
	id := t.Rows[i].Spans[0]
	s, shift := t.Span(i, id), t.Offset(i)
	return row{Label: t.Rows[i].Label, Cluster: true, spans: []segment{{s.Start + shift, s.End + shift, uint8(t.Class(i, id)), d.name(t.Run(i).NameOf(s)), 0}}}
}

func (r Report) figure11(t *layout.Timeline, run int, d *dictionary) section {
	n := r.Runs[run]
	s := r.section(run, fmt.Sprintf("rank %d", n.Run.RankID(t.Rows[0].Rank)))
	s.End = t.End - t.Start
	s.Time = layout.Short(s.End)
	s.Title += " · " + t.Title
	cluster := ""
	for i := range t.Rows {
		if t.Rows[i].Kind != layout.LaneRow {
			cluster = t.Rows[i].Label
			continue
		}
		out := workgroupRow(t, i, d)
		out.Nth, out.Of, out.Cluster = len(s.Rows), cluster, cluster != "" && len(s.Rows) > 0
		cluster = ""
		s.Rows = append(s.Rows, out)
	}
	return s
}

func workgroupRow(t *layout.Timeline, i int, d *dictionary) row {
	run, shift := t.Run(i), t.Offset(i)-t.Start
	out := row{Label: t.Rows[i].Label}
	add := func(to *[]segment, id trace.SpanID, kind uint8, from, until trace.Time) {
		*to = append(*to, segment{from + shift, until + shift, kind, d.name(workgroupText(run, id)), tile(run, id)})
	}
	layout.Flatten(run, t.Rows[i].Spans, func(id trace.SpanID, from, to trace.Time) {
		if from == to && run.Spans[id].Kind != trace.Workgroup {
			return // a mark shows it
		}
		add(&out.spans, id, uint8(t.Class(i, id)), from, to)
	})
	for _, m := range t.Rows[i].Marks {
		add(&out.marks, m.Span, markKind(m.Kind), m.At, m.At)
	}
	return out
}

// workgroupText describes a workgroup, phase or mark: where its result goes, what
// it waits for.
func workgroupText(r *trace.Run, id trace.SpanID) string {
	s := r.Spans[id]
	if s.Kind == trace.PhaseWait || s.Kind == trace.Marker {
		return r.NameOf(s)
	}
	if w := r.Workgroup(s); w != nil && w.Peer != trace.None {
		return fmt.Sprintf("for rank %d", w.Peer)
	}
	return ""
}

// tile is one more than the number of a workgroup or tile, or 0.
func tile(r *trace.Run, id trace.SpanID) int32 {
	if w := r.Workgroup(r.Spans[id]); w != nil && w.ID >= 0 {
		return w.ID + 1
	}
	return 0
}
