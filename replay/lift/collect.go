package lift

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A matchKey is the properties that the members of one collective share.
type matchKey struct {
	group int32 // row of matcher.teams
	queue int32 // which of the rank's queues with collectives, if the trace names no group; else -1
	op    trace.CollectiveOp
	a, b  int32 // the two ranks of a message, else -1
	seq   int64
	nth   int32 // index among equal keys so far
}

// A matcher matches the collective ops of all ranks.
type matcher struct {
	*lifter
	groups            []processGroup
	groupRows         map[string]int32 // by group and ranks
	groupMemo         map[rankGroup]int32
	found             map[matchKey]int32 // row of Collectives
	groupOfCollective []int32            // by row of Collectives
	alike             map[matchKey]int32 // on the current rank
	early             map[int32]bool     // rows of Collectives that another part of the same collective follows
	firstCopy         map[int32]int32    // by row of a later part: row of the first that copies
	links             map[int32]int32    // by op: the number of the message that it is matched by
	grids             int                // kernels whose grid is no number of channels
}

// mostChannels is above the workgroups that any collective kernel has: NCCL has up to 64 channels and
// RCCL 128, and kernels of other libraries, which wait for those of peers too, one workgroup a compute unit.
const mostChannels = 1024

// channels is the number of a collective kernel's workgroups; 0: unknown.
func channels(w *workload.Workload, op *workload.Op) (n int, known bool) {
	n = w.Run.Setup(w.Run.Kernel(w.Run.Spans[op.Span])).WGs()
	if n > mostChannels {
		return 0, false
	}
	return n, true
}

type rankGroup struct {
	rank  int
	group int32
}

// How members were matched.
const (
	byGroup   = "by group, operation and order"
	byQueue   = "by operation and order on the stream: the trace names no group"
	byPeers   = "by sender, receiver and order"
	alone     = "alone: its peer was not captured"
	fused     = "alone: its peer's kernel has another message too, and is matched with that"
	disjoint  = "alone: of the ranks matched by order, one left before another arrived"
	byCopying = "its other ranks are copies"
)

// collect matches collectives over ranks: the members of a group run the same
// operations in the same order.
func (l *lifter) collect() {
	m := matcher{
		lifter:    l,
		groupRows: map[string]int32{},
		groupMemo: map[rankGroup]int32{},
		found:     map[matchKey]int32{},
		alike:     map[matchKey]int32{},
		early:     map[int32]bool{},
		firstCopy: map[int32]int32{},
	}
	m.link()
	for rank := range l.Ranks {
		m.addRank(rank)
	}
	m.check()
	starts, order := make([]trace.Time, len(l.Collectives)), make([]int32, len(l.Collectives))
	for i := range l.Collectives {
		starts[i], order[i] = l.StartOf(&l.Collectives[i]), int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(starts[a], starts[b]), cmp.Compare(l.Collectives[a].Members[0], l.Collectives[b].Members[0]))
	})
	for i := range order { // in place, along the cycles of the order
		at := int32(i)
		for from := order[at]; from != int32(i); from = order[at] {
			l.Collectives[at], l.Collectives[from] = l.Collectives[from], l.Collectives[at]
			order[at], at = at, from
		}
		order[at] = at
	}
	own := map[string]bool{}
	for i := range l.Collectives {
		c := &l.Collectives[i]
		name := l.Ops[c.Members[0]].Name
		is, known := own[name]
		if !known {
			is = trace.OfAnotherLibrary(name)
			own[name] = is
		}
		c.Foreign = is && !c.Engines
		for _, id := range c.Members {
			l.Ops[id].Collective = int32(i)
		}
	}
}

func (m *matcher) addRank(rank int) {
	clear(m.alike)
	queues := m.collectiveQueues(rank)
	for _, id := range m.Ranks[rank] {
		op := &m.Ops[id]
		if op.Kind != trace.Collective {
			continue
		}
		comm := trace.Comm{Group: trace.None, Peer: trace.None}
		if c := m.Run.Comm(m.Run.Spans[op.Span]); c != nil {
			comm = *c
		}
		k, how := m.keyOf(rank, op, &comm, queues)
		nth := m.alike[k]
		m.alike[k]++
		k.nth = nth
		row, ok := m.found[k]
		if !ok {
			row = int32(len(m.Collectives))
			m.found[k] = row
			m.Collectives = append(m.Collectives, workload.Collective{
				Op: comm.Op, Group: comm.Group,
				Seq: k.seq + int64(k.nth), Evidence: how,
			})
			m.groupOfCollective = append(m.groupOfCollective, k.group)
		}
		addMember(m.Workload, &m.Collectives[row], op, &comm)
		if _, known := channels(m.Workload, op); !known {
			m.grids++
		}
		if nth > 0 && comm.Engines {
			k.nth--
			before := m.found[k]
			m.early[before] = true
			if first, ok := m.firstCopy[before]; ok {
				m.firstCopy[row] = first
			} else if !waitsForCopies(m.Ops[m.Collectives[before].Members[0]].Name) {
				m.firstCopy[row] = before
			}
		}
	}
}

// collectiveQueues numbers the rank's queues that hold collectives.
func (m *matcher) collectiveQueues(rank int) map[int64]int32 {
	number := map[int64]int32{}
	for _, id := range m.Ranks[rank] {
		if m.Ops[id].Kind == trace.Collective {
			number[m.Ops[id].Queue] = 0
		}
	}
	for i, q := range slices.Sorted(maps.Keys(number)) {
		number[q] = int32(i)
	}
	return number
}

// keyOf is the match key of a collective op and the evidence for it.
func (m *matcher) keyOf(rank int, op *workload.Op, c *trace.Comm, queues map[int64]int32) (k matchKey, how string) {
	k = matchKey{op: c.Op, a: -1, b: -1, queue: -1, seq: c.Seq}
	if peer := m.peerOf(rank, op, c); peer >= 0 {
		link, ok := m.links[op.ID]
		if k.seq, how = int64(link), byPeers; !ok {
			k.seq, how = -1-int64(op.ID), fused
		}
		k.a, k.b = int32(min(rank, peer)), int32(max(rank, peer))
		k.group = m.groupRow(c.Group, processGroup{ranks: []int{int(k.a), int(k.b)}})
		if peer >= m.World || m.Copies[rank] || m.Copies[peer] {
			k.a, k.b = int32(rank), int32(rank)
			k.group = m.groupRow(c.Group, processGroup{ranks: []int{rank}})
			return k, alone
		}
		return k, how
	}
	memo := rankGroup{rank, c.Group}
	row, ok := m.groupMemo[memo]
	if !ok {
		row = m.groupRow(c.Group, m.processGroupOf(rank, c.Group))
		m.groupMemo[memo] = row
	}
	k.group = row
	if c.Group < 0 {
		k.queue, k.seq = queues[op.Queue], 0
		return k, byQueue
	}
	return k, byGroup
}

// groupRow returns the row of the process group and adds it if needed. Two groups of the
// same ranks are distinct.
func (m *matcher) groupRow(group int32, t processGroup) int32 {
	key := fmt.Sprint(group, t.ranks)
	row, ok := m.groupRows[key]
	if !ok {
		row = int32(len(m.groups))
		m.groupRows[key] = row
		m.groups = append(m.groups, t)
	}
	return row
}

// addMember adds a member.
func addMember(w *workload.Workload, c *workload.Collective, op *workload.Op, comm *trace.Comm) {
	c.Members = append(c.Members, op.ID)
	c.Engines = comm.Engines
	if len(c.Members) == 1 {
		c.Arrive, c.Depart, c.Shortest = op.Start, op.End, op.Dur()
	}
	c.Shortest = min(c.Shortest, op.Dur())
	c.Arrive, c.Depart = max(c.Arrive, op.Start), min(c.Depart, op.End)
	c.In, c.Out = max(c.In, comm.In), max(c.Out, comm.Out)
	c.Bytes = max(c.In, c.Out)
	c.ElemSize = max(c.ElemSize, comm.ElemSize)
	if n, _ := channels(w, op); !c.Engines {
		c.Channels = max(c.Channels, n)
	}
}

// check completes the evidence and splits matches that cannot be one collective.
func (m *matcher) check() {
	var unmatched, partial int
	whole, n := m.Collectives, 0
	for i := range whole {
		if n++; neverTogether(&whole[i]) {
			n += len(whole[i].Members) - 1
		}
	}
	m.Collectives = make([]workload.Collective, 0, n)
	m.noteUnmatched(whole)
	m.noteDrift(whole)
	for i := range whole {
		c := &whole[i]
		if first, ok := m.firstCopy[int32(i)]; ok {
			c.Before = max(0, c.Arrive-whole[first].Arrive)
		}
		if m.early[int32(i)] {
			c.In, c.Out, c.Bytes, c.Earlier = 0, 0, 0, true
			c.Evidence += "; one of several parts of a collective by copy engines, whose bytes count with the last"
		}
		if c.Sender = m.sender(c); c.Sender == 0 && neverTogether(c) {
			unmatched++
			m.split(c, len(m.groups[m.groupOfCollective[i]].ranks))
			continue
		}
		t := m.groups[m.groupOfCollective[i]]
		otherSide(c, len(t.ranks))
		if t.reason != "" && c.Group >= 0 {
			c.Evidence += "; " + t.reason
		}
		if n := len(c.Members); n < len(t.ranks) {
			partial++
			c.Evidence += fmt.Sprintf("; %d of %d ranks", n, len(t.ranks))
		}
		another := func(id int32) bool { return m.Ops[id].Span != m.Ops[c.Members[0]].Span }
		if len(c.Members) > 1 && !slices.ContainsFunc(c.Members, another) { // copies of one captured operation
			c.Evidence += "; " + byCopying
		}
		m.Collectives = append(m.Collectives, *c)
	}
	m.noteCount(unmatched, "collective", "collectives", "never had all ranks in at a time: replayed rank by rank")
	m.noteCount(m.grids, "kernel of a collective has", "kernels of collectives have",
		fmt.Sprintf("a grid of more than %d workgroups, which is no number of channels: ignored", mostChannels))
	m.noteCount(partial, "collective", "collectives", "found on a part of their ranks only")
}

// neverTogether reports whether one member left before another arrived, or just then though each takes time: matched
// crosswise, two of one stream would wait for each other.
func neverTogether(c *workload.Collective) bool {
	return c.Depart < c.Arrive || c.Depart == c.Arrive && c.Shortest > 0
}

// noteUnmatched notes as damage the collectives in which every rank needs data of all others and that have no part on a rank whose
// recording covers that time or that are in an iteration, which all ranks ran, or that one rank left before another arrived by
// more than their clocks differ.
func (m *matcher) noteUnmatched(whole []workload.Collective) {
	n, all := 0, 0
	var took, unmatched trace.Time
	for i := range whole {
		c := &whole[i]
		if !m.needsAll(c) {
			continue
		}
		var time, apart trace.Time
		has, aligned := map[int]bool{}, true
		for _, id := range c.Members {
			rank := m.Ops[id].Rank
			has[rank], time = true, time+m.Ops[id].Dur()
			if u := m.Run.Ranks[m.Rows[rank]].Uncertainty; u == trace.None {
				aligned = false
			} else {
				apart += u
			}
		}
		all, took = all+1, took+time
		measured := slices.ContainsFunc(c.Members, func(id int32) bool { return m.Ops[id].Step >= 0 })
		partial := slices.ContainsFunc(m.groups[m.groupOfCollective[i]].ranks, func(rank int) bool {
			ids := m.Ranks[rank]
			return !has[rank] && len(ids) > 0 && (measured || m.Ops[ids[0]].Start < c.Arrive && m.Ops[ids[len(ids)-1]].End > c.Depart)
		})
		if partial || aligned && c.Arrive-c.Depart > apart {
			n, unmatched = n+1, unmatched+time
		}
	}
	if n > 0 {
		m.Damage.Unmatched = float64(unmatched) / float64(max(1, took))
		m.Damage.Sentences = append(m.Damage.Sentences, fmt.Sprintf("%d of %s, %.0f %% of their time, never had all ranks in at a time: kernels are missing, or times are wrong", n, counted(all, "collective that needs all ranks", "collectives that need all ranks"), 100*m.Damage.Unmatched))
	}
}

// Two clocks differ in rate by at most mostDrift: a host turns its own by 500 ppm (RFC 5905). GPUs of one host move apart by less than
// leastApart in a trace: four H200 by 63 µs in 44 ms. A trend of fewer collectives than fewestEnds may be chance.
const (
	mostDrift  = 0.001
	leastApart = 100e3 // ns
	fewestEnds = 8
)

// noteDrift notes the ranks whose clock runs faster or slower than that of the first rank of their collectives: what all ranks end
// together ends ever later or earlier on one. Seven of eight slopes over half of the collectives are at least the drift.
func (m *matcher) noteDrift(whole []workload.Collective) {
	ranks := make([]struct{ at, apart []float64 }, len(m.Ranks)) // ns, of collectives in order
	for i := range whole {
		if c := &whole[i]; m.needsAll(c) && len(c.Members) > 1 {
			first := &m.Ops[c.Members[0]]
			for _, id := range c.Members[1:] {
				e := &ranks[m.Ops[id].Rank]
				e.at, e.apart = append(e.at, float64(first.End)), append(e.apart, float64(m.Ops[id].End-first.End))
			}
		}
	}
	for rank, e := range ranks {
		n := len(e.at)
		if n < fewestEnds {
			continue
		}
		slopes := make([]float64, n-n/2)
		for i := range slopes {
			slopes[i] = (e.apart[i+n/2] - e.apart[i]) / max(1, e.at[i+n/2]-e.at[i])
		}
		slices.Sort(slopes)
		drift, rate := slopes[len(slopes)/8], "faster"
		if slower := -slopes[len(slopes)-1-len(slopes)/8]; slower > drift {
			drift, rate = slower, "slower"
		}
		if moved := drift * (e.at[n-1] - e.at[0]); drift > mostDrift && moved > leastApart {
			m.note("the clock of rank %d runs %.1f %% %s than that of others: "+
				"the ends of %d collectives move apart by %.1f µs, and waiting is wrong by as much", rank, 100*drift, rate, n, moved/1e3)
		}
	}
}

// needsAll reports whether every rank needs data of all others: not of messages, and of roots that leave early. An
// all-to-all of uneven parts may have ranks that wait for none.
func (m *matcher) needsAll(c *workload.Collective) bool {
	switch c.Op {
	case trace.AllReduce, trace.AllGather, trace.ReduceScatter, trace.Barrier:
		return true
	case trace.AllToAll:
		return !slices.ContainsFunc(c.Members, func(id int32) bool {
			comm := m.Run.Comm(m.Run.Spans[m.Ops[id].Span])
			return comm == nil || !comm.Even
		})
	}
	return false
}

// sender is Collective.Sender: of a message that one rank only sends and the other only receives,
// where the sender was seen to leave before the receiver came, or as many bytes fit into the buffers
// of its channels (rule C29).
func (m *matcher) sender(c *workload.Collective) int8 {
	if c.Op != trace.SendRecv || len(c.Members) != 2 || c.Engines {
		return 0
	}
	sends, receives, hosts := -1, -1, map[string]bool{}
	for i, id := range c.Members {
		op := &m.Ops[id]
		if comm := m.Run.Comm(m.Run.Spans[op.Span]); comm != nil && comm.In > 0 && comm.Out == 0 {
			sends = i
		} else if comm != nil && comm.Out > 0 && comm.In == 0 {
			receives = i
		}
		hosts[m.Run.Ranks[m.Rows[op.Rank]].Host] = true
	}
	if sends < 0 || receives < 0 {
		return 0
	}
	early := m.Ops[c.Members[sends]].End < m.Ops[c.Members[receives]].Start
	if early || c.Depart >= c.Arrive && c.Channels > 0 && c.Bytes <= int64(c.Channels)*workload.SendBuffer(len(hosts) < 2) {
		return int8(sends + 1)
	}
	return 0
}

// otherSide computes the size that the trace does not give, of a kernel whose group it does
// not name: the output of a gather, or a rank's part of a sum.
func otherSide(c *workload.Collective, ranks int) {
	c.Bytes = max(c.In, c.Out)
	part := c.Op == trace.AllGather && c.Out == 0 || c.Op == trace.ReduceScatter && c.In == 0
	whole := c.Op == trace.ReduceScatter && c.Out == 0
	if ranks < 1 || !part && !whole || part && c.Bytes > math.MaxInt64/int64(ranks) {
		return
	}
	if part {
		c.Bytes *= int64(ranks)
	}
	c.In, c.Out = c.Op.Sides(c.Bytes, ranks)
}

// split makes each member its own collective, of a group of so many ranks, with its own bytes where the trace has them.
func (m *matcher) split(c *workload.Collective, ranks int) {
	for i, id := range c.Members {
		op := &m.Ops[id]
		comm := trace.Comm{In: c.In, Out: c.Out, ElemSize: c.ElemSize}
		if own := m.Run.Comm(m.Run.Spans[op.Span]); own != nil && max(own.In, own.Out) > 0 {
			comm = *own
		}
		one := workload.Collective{Op: c.Op, Group: c.Group, Seq: c.Seq, Evidence: disjoint, Members: c.Members[i : i : i+1]}
		addMember(m.Workload, &one, op, &comm)
		otherSide(&one, ranks)
		m.Collectives = append(m.Collectives, one)
	}
}

// waitsForCopies reports whether a part of a collective by copy engines moves no bytes: it waits for the other ranks, or for the
// copies.
func waitsForCopies(name string) bool {
	return strings.HasPrefix(name, "__amd_rocclr_batchMemOp") || strings.Contains(name, "symmetric_memory::barrier_kernel")
}
