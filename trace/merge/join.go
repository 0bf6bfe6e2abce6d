package merge

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/overlapse/overlapse/trace"
)

// joinAll adds the tables of all runs, then their spans. It fills the merged run's side
// tables first, so that the runs' side tables can be freed before spans are allocated:
// spans and tables never exist twice at the same time.
func (m *merger) joinAll(runs []*trace.Run) {
	m.reserve(runs)
	for i, r := range runs {
		m.add(r, i)
		runs[i] = nil // free it
	}
	if len(m.sources) > 1 && m.spans() > manySpans {
		debug.FreeOSMemory() // the tables of the runs: the spans need memory in one piece
	}
	m.interleave()
}

// manySpans is where memory counts more than the milliseconds of a collection.
const manySpans = 1 << 20

// spans is the number of spans of all sources.
func (m *merger) spans() int {
	n := 0
	for _, s := range m.sources {
		n += len(s.spans)
	}
	return n
}

// reserve allocates the side tables once for all runs.
func (m *merger) reserve(runs []*trace.Run) {
	m.b.Intern("") // name 0
	grow(&m.b.Run, runs, func(r *trace.Run) *[]trace.Kernel { return &r.Kernels })
	grow(&m.b.Run, runs, func(r *trace.Run) *[]trace.Comm { return &r.Comms })
	grow(&m.b.Run, runs, func(r *trace.Run) *[]trace.CopyAttr { return &r.Copies })
	grow(&m.b.Run, runs, func(r *trace.Run) *[]trace.WorkgroupAttr { return &r.Workgroups })
	grow(&m.b.Run, runs, func(r *trace.Run) *[]trace.Call { return &r.Calls })
	grow(&m.b.Run, runs, func(r *trace.Run) *[]trace.Operator { return &r.Operators })
}

// grow makes room in a table for those of the runs.
func grow[T any](to *trace.Run, runs []*trace.Run, of func(*trace.Run) *[]T) {
	n := 0
	for _, r := range runs {
		n += len(*of(r))
	}
	*of(to) = slices.Grow(*of(to), n)
}

// shiftRow returns a row index after n rows were inserted before its table.
func shiftRow(row, n int32) int32 {
	if row == trace.None {
		return trace.None
	}
	return row + n
}

// A source is a run being merged: how its indices are rewritten.
type source struct {
	spans  []trace.Span // of the run
	depth  []int8       // by span: number of ancestors
	offset []trace.Time // by lane: added to times
	names  []trace.NameID
	lanes  []trace.LaneID
	rows   []int32        // by kind: added to rows of the side table
	at     []trace.SpanID // by span: its id in the merged run, for its children and the work it launched

	kernels, copies, waits int     // rows of the side tables
	depends, nodes         int     // the same
	order                  int     // among the sources
	head                   nextKey // of the next span
}

// next is the index of the next span to merge.
func (s *source) next() int { return len(s.at) }

// A nextKey is the part of a span's place in the merged order that is known without its length.
type nextKey struct {
	start trace.Time
	depth int8
	lane  trace.LaneID
}

// load sets head to the key of the next span.
func (s *source) load() {
	n := s.next()
	span := &s.spans[n]
	s.head = nextKey{span.Start + s.offset[span.Lane], s.depth[n], s.lanes[span.Lane]}
}

// compare is the order of the spans of a run; on a tie the first source comes first.
func (s *source) compare(t *source) int {
	if c := cmp.Or(cmp.Compare(s.head.start, t.head.start), cmp.Compare(s.head.depth, t.head.depth)); c != 0 {
		return c
	}
	x, y := s.spans[s.next()], t.spans[t.next()]
	return cmp.Or(cmp.Compare(y.Dur(), x.Dur()), cmp.Compare(s.head.lane, t.head.lane), cmp.Compare(s.order, t.order))
}

// add adds everything of the run except its spans.
func (m *merger) add(r *trace.Run, index int) {
	t := &m.b.Run
	firstRow := int32(len(t.Ranks))
	if m.parts {
		firstRow = 0
	}
	if !m.parts || index == 0 {
		m.addRanks(r, index)
	}
	s := &source{
		spans:  r.Spans,
		depth:  r.Depths(),
		order:  len(m.sources),
		offset: make([]trace.Time, len(r.Lanes)),
		names:  make([]trace.NameID, len(r.Names)),
		lanes:  make([]trace.LaneID, len(r.Lanes)),
		at:     make([]trace.SpanID, 0, len(r.Spans)),
	}
	for i, n := range r.Names {
		s.names[i] = m.b.Intern(n)
	}
	groups := make([]int32, len(r.Groups))
	for i, g := range r.Groups {
		groups[i] = m.b.AddGroup(g)
	}
	for i, l := range r.Lanes {
		l.Rank += firstRow
		l.Peer = shiftRow(l.Peer, firstRow)
		s.offset[i] = m.start[index] + m.ranks[l.Rank].shift
		s.lanes[i] = m.b.Lane(l)
	}
	for i := range r.Ranks {
		to := &t.Ranks[firstRow+int32(i)]
		for _, x := range r.Ranks[i].Memory {
			x.At += m.start[index] + m.ranks[firstRow+int32(i)].shift
			to.Memory = append(to.Memory, x)
		}
	}
	for _, w := range r.Waits {
		w.Rank += firstRow
		w.Start += m.start[index] + m.ranks[w.Rank].shift
		w.End += m.start[index] + m.ranks[w.Rank].shift
		t.Waits = append(t.Waits, w)
	}
	s.kernels, s.copies, s.waits = len(r.Kernels), len(r.Copies), len(r.Waits)
	s.depends, s.nodes = len(r.Depends), len(r.Nodes)
	t.Depends, t.Nodes = append(t.Depends, r.Depends...), append(t.Nodes, r.Nodes...)
	s.rows = m.addTables(r, groups, m.lags(r, firstRow))
	t.Ledger.Entries = append(t.Ledger.Entries, r.Ledger.Entries...)
	m.sources = append(m.sources, s)
}

// interleave merges the sorted spans of all runs in the order of the merged run, so
// that no sort is needed afterwards. (If ranks of one run are shifted by different
// offsets, one is.)
func (m *merger) interleave() {
	var heads []*source // by their next spans
	m.b.Run.Spans = make([]trace.Span, 0, m.spans())
	for _, s := range m.sources {
		if len(s.spans) > 0 {
			s.load()
			heads = append(heads, s)
		}
	}
	slices.SortFunc(heads, (*source).compare)
	for len(heads) > 0 {
		s, rest := heads[0], heads[1:]
		if m.take(s); s.next() == len(s.spans) {
			heads = rest
			continue
		}
		s.load()
		i, _ := slices.BinarySearchFunc(rest, s, (*source).compare)
		copy(heads, rest[:i])
		heads[i] = s
	}
	t := &m.b.Run
	waits, depends, nodes := t.Waits, t.Depends, t.Nodes
	for _, s := range m.sources {
		kernels, copies := t.Kernels[s.rows[trace.Compute]:], t.Copies[s.rows[trace.Copy]:]
		trace.MapLaunches(kernels[:s.kernels], copies[:s.copies], waits[:s.waits], s.at)
		trace.MapNodes(depends[:s.depends], nodes[:s.nodes], s.at)
		waits, depends, nodes = waits[s.waits:], depends[s.depends:], nodes[s.nodes:]
	}
	m.sources = nil
}

// take adds the source's next span.
func (m *merger) take(s *source) {
	t := &m.b.Run
	span := s.spans[s.next()]
	offset := s.offset[span.Lane]
	span.Start += offset
	span.End += offset
	span.Name = s.names[span.Name]
	span.Lane = s.lanes[span.Lane]
	span.Attr = shiftRow(span.Attr, s.rows[span.Kind])
	if span.Parent != trace.None {
		span.Parent = s.at[span.Parent] // parents precede their children
	}
	s.at = append(s.at, trace.SpanID(len(t.Spans)))
	t.Spans = append(t.Spans, span)
}

func (m *merger) addRanks(r *trace.Run, index int) {
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
			m.b.Note(trace.Repaired, k.Source, fmt.Sprintf("rank %d: clock shifted by %v to agree on the ends of collectives", k.ID, time.Duration(a.shift)), "", 0)
		case !a.known && m.epoch == 0 && !m.hostClock:
			m.b.Note(trace.Noted, k.Source, fmt.Sprintf("rank %d: no collective in common with other ranks and no clock: assumed to start with them", k.ID), "", 0)
		case !a.known:
			m.b.Note(trace.Noted, k.Source, fmt.Sprintf("rank %d: no collective in common with other ranks: its clock is not checked", k.ID), "", 0)
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
	comms, operators := int32(len(t.Comms)), int32(len(t.Operators))
	uses := m.addUses(r)
	setups := make([]int32, len(r.Setups)+1)
	for i, s := range r.Setups {
		setups[i+1] = m.b.AddSetup(s)
	}
	for _, k := range r.Kernels {
		k.Uses, k.Setup = shiftUses(k.Uses, uses), setups[k.Setup]
		k.Comm, k.Op = shiftRow(k.Comm, comms), shiftRow(k.Op, operators)
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
		c.Op, c.Uses = shiftRow(c.Op, operators), shiftUses(c.Uses, uses)
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
