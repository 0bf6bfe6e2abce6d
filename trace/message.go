package trace

import (
	"cmp"
	"maps"
	"slices"
)

// A Message is a kernel that sends to a rank, receives from it, or both.
type Message struct {
	ID       int32 // of the caller
	Rank     int32
	Peer     int32
	Sends    bool
	Receives bool
}

// Message is what the kernel of an operation sends and receives; both, where neither is recorded.
func (c *Comm) Message(id, rank, peer int32) Message {
	return Message{id, rank, peer, c.In > 0 || c.Out == 0, c.Out > 0 || c.In == 0}
}

// LinkMessages matches messages, in the order of their start: the n-th that a rank sends to another is the n-th that this
// one receives from it (rule V33). A kernel that does both ends with what it receives, so it is matched with that message's
// sender, and whom it sends to is matched with it only if that is the same kernel:
//
//	rank 0  |send F1, receive B0          |
//	rank 1        |receive F1|      |send B0|
//
// It returns a number by ID, the same for both kernels of a message; IDs without a partner are not in it.
func LinkMessages(messages []Message) map[int32]int32 {
	type way struct{ from, to int32 }
	type link struct{ sends, receives int32 }
	sent, received, both := map[way][]int32{}, map[way][]int32{}, map[int32]bool{}
	for _, m := range messages {
		if m.Sends {
			w := way{m.Rank, m.Peer}
			sent[w] = append(sent[w], m.ID)
		}
		if m.Receives {
			w := way{m.Peer, m.Rank}
			received[w] = append(received[w], m.ID)
		}
		both[m.ID] = m.Sends && m.Receives
	}
	var links []link
	mutual := map[link]bool{}
	ways := slices.SortedFunc(maps.Keys(sent), func(a, b way) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	for _, w := range ways {
		for i := range min(len(sent[w]), len(received[w])) {
			l := link{sent[w][i], received[w][i]}
			links, mutual[l] = append(links, l), true
		}
	}
	linked := map[int32]int32{}
	take := func(which func(link) bool) {
		for i, l := range links {
			_, a := linked[l.sends]
			_, b := linked[l.receives]
			if !a && !b && which(l) {
				linked[l.sends], linked[l.receives] = int32(i), int32(i)
			}
		}
	}
	take(func(l link) bool { return mutual[link{l.receives, l.sends}] })
	take(func(l link) bool { return both[l.receives] })
	take(func(link) bool { return true })
	return linked
}
