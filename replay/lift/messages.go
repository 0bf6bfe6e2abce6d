package lift

import (
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

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

// link matches messages by sender, receiver and direction (rule V33). A kernel of which the direction is not known does
// both.
func (m *matcher) link() {
	var messages []trace.Message
	for rank := range m.Ranks {
		for _, id := range m.Ranks[rank] {
			op := &m.Ops[id]
			c := m.Run.Comm(m.Run.Spans[op.Span])
			if op.Kind != trace.Collective || c == nil {
				continue
			}
			if peer := m.peerOf(rank, op, c); peer >= 0 {
				messages = append(messages, c.Message(id, int32(rank), int32(peer)))
			}
		}
	}
	m.links = trace.LinkMessages(messages)
}
