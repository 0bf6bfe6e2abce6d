package lift

import (
	"cmp"
	"maps"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A way is from one rank to another.
type way struct{ from, to int32 }

// A link is a message: the kernel that sends it and the kernel that receives it.
type link struct{ sends, receives int32 }

// peerOf is the rank that a kernel exchanges messages with; -1: none, or not known.
func (m *matcher) peerOf(rank int, op *workload.Op, c *trace.Comm) int {
	peer := int(c.Peer)
	if peer < 0 && m.World == 2 && op.Issued < trace.Infinity { // what was launched before the recording is of another number on each rank
		peer = 1 - rank
	}
	if c.Op != trace.SendRecv || peer == rank {
		return -1
	}
	return peer
}

// link matches messages: the n-th that a rank sends to another is the n-th that this one receives
// from it (rule V33). A kernel of which the direction is not known does both. One that does both ends with what it
// receives, so it is matched with that message's sender, and whom it sends to is matched with it only if
// that is the same kernel:
//
//	rank 0  |send F1, receive B0          |
//	rank 1        |receive F1|      |send B0|
func (m *matcher) link() {
	sent, received := map[way][]int32{}, map[way][]int32{}
	both := map[int32]bool{}
	for rank := range m.Ranks {
		for _, id := range m.Ranks[rank] {
			op := &m.Ops[id]
			c := m.Run.Comm(m.Run.Spans[op.Span])
			if op.Kind != trace.Collective || c == nil {
				continue
			}
			peer := m.peerOf(rank, op, c)
			if peer < 0 {
				continue
			}
			there, back := way{int32(rank), int32(peer)}, way{int32(peer), int32(rank)}
			if c.In > 0 || c.Out == 0 {
				sent[there] = append(sent[there], id)
			}
			if c.Out > 0 || c.In == 0 {
				received[back] = append(received[back], id)
			}
			both[id] = (c.In > 0) == (c.Out > 0)
		}
	}
	var links []link
	m.links = map[int32]int32{}
	ways := slices.SortedFunc(maps.Keys(sent), func(a, b way) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	for _, w := range ways {
		for i := range min(len(sent[w]), len(received[w])) {
			links = append(links, link{sent[w][i], received[w][i]})
		}
	}
	mutual := map[link]bool{}
	for _, l := range links {
		mutual[l] = true
	}
	take := func(which func(link) bool) {
		for i, l := range links {
			_, a := m.links[l.sends]
			_, b := m.links[l.receives]
			if !a && !b && which(l) {
				m.links[l.sends], m.links[l.receives] = int32(i), int32(i)
			}
		}
	}
	take(func(l link) bool { return mutual[link{l.receives, l.sends}] })
	take(func(l link) bool { return both[l.receives] })
	take(func(link) bool { return true })
}
