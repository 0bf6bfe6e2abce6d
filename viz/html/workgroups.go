package html

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// workgroups is Figure 11 for every rank of every run that has workgroups: of
// the kernel that sends most to peers, else of that with the most workgroups.
// Its time axis starts with the kernel, so that runs can be compared. The runs
// that send something are shown first.
func (r Report) workgroups(d *dictionary) (*panel, error) {
	p := &panel{RowHeight: 15, FirstRows: 32}
	var others []int
	for run, n := range r.Runs {
		senders := senders(n.Run)
		before := len(p.Sections)
		sends := false
		for rank := range n.Run.Ranks {
			f := layout.Figure{Rank: int32(rank), Kernel: senders[rank], Cluster: n.Cluster, Rows: -1}
			t, err := layout.Figure11(layout.View{Run: n.Run}, f)
			if err != nil {
				continue // this rank has no workgroups
			}
			sends = sends || senders[rank] != ""
			p.Sections = append(p.Sections, r.figure(t, run, d))
		}
		switch {
		case sends:
			p.Shown = append(p.Shown, run)
		case len(p.Sections) > before:
			others = append(others, run)
		}
	}
	if len(p.Sections) > 0 {
		p.Pick = p.Sections[0].Group
	}
	if len(p.Shown) == 0 {
		p.Shown = others[:min(2, len(others))]
	}
	return p.finish(d)
}

// senders is, by rank row, the name of the kernel whose workgroups compute most
// for other ranks; "" where none does.
func senders(r *trace.Run) []string {
	type kernel struct {
		rank int32
		name trace.NameID
	}
	sent := map[kernel]int{}
	names := make([]string, len(r.Ranks))
	most := make([]int, len(r.Ranks))
	for _, s := range r.Spans {
		w := r.Workgroup(s)
		if s.Kind != trace.Workgroup || w == nil || w.Peer == trace.None {
			continue
		}
		k := kernel{rank: r.Lanes[s.Lane].Rank}
		if int(w.Peer) == r.RankID(k.rank) {
			continue
		}
		k.name = outermost(r, s).Name
		sent[k]++
		if sent[k] > most[k.rank] {
			most[k.rank], names[k.rank] = sent[k], r.Names[k.name]
		}
	}
	return names
}

func (r Report) figure(t *layout.Timeline, run int, d *dictionary) section {
	n := r.Runs[run]
	s := r.section(run, fmt.Sprintf("rank %d", n.Run.RankID(t.Rows[0].Rank)))
	s.End = t.End - t.Start
	s.Time = layout.Short(s.End)
	if k := kernelName(n.Run, t); k != "" {
		s.Title += " · " + k
	}
	cluster := false
	for i := range t.Rows {
		if t.Rows[i].Kind != layout.LaneRow {
			cluster = true
			continue
		}
		out := workgroupRow(t, i, d)
		out.Cluster = cluster && len(s.Rows) > 0
		cluster = false
		s.Rows = append(s.Rows, out)
	}
	return s
}

// kernelName is the kernel of the figure's first workgroup.
func kernelName(r *trace.Run, t *layout.Timeline) string {
	i := slices.IndexFunc(t.Rows, func(row layout.Row) bool { return len(row.Spans) > 0 })
	if i < 0 {
		return ""
	}
	return r.NameOf(outermost(r, r.Spans[t.Rows[i].Spans[0]]))
}

// outermost is the kernel of a workgroup or phase, or what else it is part of.
func outermost(r *trace.Run, s trace.Span) trace.Span {
	for s.Parent != trace.None {
		s = r.Spans[s.Parent]
	}
	return s
}

func workgroupRow(t *layout.Timeline, i int, d *dictionary) row {
	run := t.Run(i)
	out := row{Label: t.Rows[i].Label}
	add := func(to *[]segment, id trace.SpanID, kind uint8, from, until trace.Time) {
		*to = append(*to, segment{from - t.Start, until - t.Start, kind, d.name(workgroupText(run, id)), tile(run, id)})
	}
	flatten(run, t.Rows[i].Spans, func(id trace.SpanID, from, to trace.Time) {
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
