package assemble

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/overlapse/overlapse/trace"
)

// joinAll adds all runs, and frees each one before it adds the next: they and the merged run
// never exist twice at the same time.
func (m *merger) joinAll(runs []*trace.Run) {
	m.reserve(runs)
	for i, r := range runs {
		m.add(r, i)
		runs[i] = nil
		if len(runs) > 1 && len(r.Spans) > manySpans {
			debug.FreeOSMemory()
		}
	}
}

// manySpans is where memory counts more than the milliseconds of a collection.
const manySpans = 1 << 17

// reserve allocates the large tables once for all runs.
func (m *merger) reserve(runs []*trace.Run) {
	m.b.Intern("") // name 0
	grow(&m.b.Run, runs, func(r *trace.Run) *[]trace.Span { return &r.Spans })
	grow(&m.b.Run, runs, func(r *trace.Run) *[]trace.Kernel { return &r.Kernels })
	grow(&m.b.Run, runs, func(r *trace.Run) *[]trace.Comm { return &r.Comms })
	grow(&m.b.Run, runs, func(r *trace.Run) *[]trace.CopyAttr { return &r.Copies })
	grow(&m.b.Run, runs, func(r *trace.Run) *[]trace.WorkgroupAttr { return &r.Workgroups })
	grow(&m.b.Run, runs, func(r *trace.Run) *[]trace.Call { return &r.Calls })
	grow(&m.b.Run, runs, func(r *trace.Run) *[]trace.Operator { return &r.Operators })
}

// grow makes room in a table for those of the runs: with make, which does not touch the memory yet.
func grow[T any](to *trace.Run, runs []*trace.Run, of func(*trace.Run) *[]T) {
	n := 0
	for _, r := range runs {
		n += len(*of(r))
	}
	*of(to) = make([]T, 0, n)
}

// shiftRow returns a row index, or the id of a span, after n were inserted before its table.
func shiftRow[I ~int32](row, n I) I {
	if row == trace.None {
		return trace.None
	}
	return row + n
}

// add adds everything of the run; Finish sorts the spans.
func (m *merger) add(r *trace.Run, index int) {
	t := &m.b.Run
	firstRow := int32(len(t.Ranks))
	if m.parts {
		firstRow = 0
	}
	if !m.parts || index == 0 {
		m.addRanks(r)
	}
	names := make([]trace.NameID, len(r.Names))
	for i, n := range r.Names {
		names[i] = m.b.Intern(n)
	}
	groups := make([]int32, len(r.Groups))
	for i, g := range r.Groups {
		groups[i] = m.b.AddGroup(g)
	}
	offset, lanes := make([]trace.Time, len(r.Lanes)), make([]trace.LaneID, len(r.Lanes)) // by lane
	for i, l := range r.Lanes {
		l.Rank += firstRow
		l.Peer = shiftRow(l.Peer, firstRow)
		offset[i] = m.start[index] + m.ranks[l.Rank].shift
		lanes[i] = m.b.Lane(l)
	}
	for i := range r.Ranks {
		to := &t.Ranks[firstRow+int32(i)]
		for _, x := range r.Ranks[i].Memory {
			x.At += m.start[index] + m.ranks[firstRow+int32(i)].shift
			to.Memory = append(to.Memory, x)
		}
	}
	first := trace.SpanID(len(t.Spans))
	for _, w := range r.Waits {
		w.Rank += firstRow
		w.Start += m.start[index] + m.ranks[w.Rank].shift
		w.End += m.start[index] + m.ranks[w.Rank].shift
		w.Call, w.Recorded = shiftRow(w.Call, first), shiftRow(w.Recorded, first)
		t.Waits = append(t.Waits, w)
	}
	for _, d := range r.Depends {
		t.Depends = append(t.Depends, trace.Dependency{To: d.To + first, From: d.From + first})
	}
	for _, n := range r.Nodes {
		n.Span += first
		t.Nodes = append(t.Nodes, n)
	}
	rows := m.addTables(r, groups, m.lags(r, firstRow))
	t.Ledger.Entries = append(t.Ledger.Entries, r.Ledger.Entries...)
	for _, s := range r.Spans {
		t.Spans = append(t.Spans, trace.Span{
			Start: s.Start + offset[s.Lane], End: s.End + offset[s.Lane], Kind: s.Kind, Name: names[s.Name],
			Lane: lanes[s.Lane], Parent: shiftRow(s.Parent, first), Attr: shiftRow(s.Attr, rows[s.Kind]),
		})
	}
}

func (m *merger) addRanks(r *trace.Run) {
	for _, k := range r.Ranks {
		a := &m.ranks[len(m.b.Run.Ranks)]
		k.Shift, k.Memory = k.Shift+a.shift, nil
		k.Uncertainty = max(k.Uncertainty, a.uncertainty)
		if !a.known && a.run != m.ranks[0].run {
			k.Uncertainty = trace.None
		}
		m.b.AddRank(k)
		if a.lagged {
			m.b.Note(trace.Repaired, k.Source, fmt.Sprintf("rank %d: its profile starts with a different collective: renumbered so that the ends agree", k.ID), "", 0)
		}
		switch {
		case a.stamped:
			m.b.Note(trace.Repaired, k.Source, fmt.Sprintf("rank %d: separate timer: shifted by %v, assuming that kernels that store to each other start together", k.ID, time.Duration(a.shift)), "", 0)
		case a.shift != 0:
			m.b.Note(trace.Repaired, k.Source, fmt.Sprintf("rank %d: clock shifted by %v to agree on the ends of collectives", k.ID,
				time.Duration(a.shift)), "", 0)
		case !a.known && m.epoch == 0 && !m.hostClock:
			m.b.Note(trace.Noted, k.Source, fmt.Sprintf("rank %d: no collective in common with other ranks and no clock: assumed to start with them", k.ID), "", 0)
		case !a.known:
			m.b.Note(trace.Noted, k.Source, fmt.Sprintf("rank %d: no collective in common with other ranks: its clock is not checked",
				k.ID), "", 0)
		}
	}
}

// lags returns, by group row, the offset to add to the numbers of collectives. A run of
// several ranks has one offset for all of them.
func (m *merger) lags(r *trace.Run, firstRow int32) []int64 {
	lags := make([]int64, len(r.Groups))
	if len(r.Ranks) != 1 {
		return lags
	}
	for i, key := range groupKeys(r) {
		lags[i] = m.ranks[firstRow].lag[key]
	}
	return lags
}

// addTables appends the side tables and returns, by Kind, the offset of the appended
// rows.
func (m *merger) addTables(r *trace.Run, groups []int32, lags []int64) (rows []int32) {
	t := &m.b.Run
	for k := range trace.NumKinds {
		rows = append(rows, int32(t.RowsOf(k)))
	}
	first, comms, operators := trace.SpanID(len(t.Spans)), int32(len(t.Comms)), int32(len(t.Operators))
	uses := m.addUses(r)
	setups := make([]int32, len(r.Setups)+1)
	for i, s := range r.Setups {
		setups[i+1] = m.b.AddSetup(s)
	}
	for _, k := range r.Kernels {
		k.Uses, k.Setup = shiftUses(k.Uses, uses), setups[k.Setup]
		k.Launch, k.Comm, k.Op = shiftRow(k.Launch, first), shiftRow(k.Comm, comms), shiftRow(k.Op, operators)
		t.Kernels = append(t.Kernels, k)
	}
	for _, c := range r.Comms {
		if c.Group != trace.None {
			c.Seq += lags[c.Group]
			c.Group = groups[c.Group]
		}
		t.Comms = append(t.Comms, c)
	}
	for _, c := range r.Copies {
		c.Launch, c.Op, c.Uses = shiftRow(c.Launch, first), shiftRow(c.Op, operators), shiftUses(c.Uses, uses)
		t.Copies = append(t.Copies, c)
	}
	for _, c := range r.Calls {
		c.Op = shiftRow(c.Op, operators)
		t.Calls = append(t.Calls, c)
	}
	t.Workgroups = append(t.Workgroups, r.Workgroups...)
	t.Operators = append(t.Operators, r.Operators...)
	return rows
}

// addUses appends the accesses of a run, and returns the offset of the numbers.
func (m *merger) addUses(r *trace.Run) int32 {
	t := &m.b.Run
	first, rows := int32(len(t.Uses)), int32(len(t.Accesses))
	for _, u := range r.Uses {
		u.First += rows
		t.Uses = append(t.Uses, u)
	}
	t.Accesses = append(t.Accesses, r.Accesses...)
	return first
}

// shiftUses is the number in Run.Uses after n rows were inserted before its table.
func shiftUses(uses, n int32) int32 {
	if uses == 0 {
		return 0
	}
	return uses + n
}
