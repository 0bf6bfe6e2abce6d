package trace

import (
	"cmp"
	"maps"
	"slices"
)

// A MatchedCollective is one operation of a collective library on all captured ranks.
// A member's kernel starts when its rank arrives: its duration is the wait for
// the other members, then the transfer.
type MatchedCollective struct {
	Op    CollectiveOp `json:"-"`
	Group int32        `json:"-"`    // row of Run.Groups, or None
	Size  int          `json:"size"` // ranks of the group; 0 if unknown
	Seq   int64        `json:"seq"`
	Bytes int64        `json:"bytes"` // larger of input and output of one rank; 0 if unknown
	// Arrive is the latest member's start, Depart the earliest member's end.
	Arrive Time `json:"arrive_ns"`
	Depart Time `json:"depart_ns"`
	// Transfer is Depart − Arrive, the time in which bytes can move. It is an upper
	// bound if fewer members than Size were captured. It is 0 if a member ends before
	// another starts, as a buffered sender may.
	Transfer Time     `json:"transfer_ns"`
	Late     int      `json:"late_rank"` // rank id of the member that arrived last
	Members  []Member `json:"members"`   // captured members, by rank row
}

// A Member is one rank's part in a collective.
type Member struct {
	Row   int32  `json:"-"` // of Run.Ranks
	Rank  int    `json:"rank"`
	Span  SpanID `json:"-"` // the first span, if several kernels make up one operation
	Start Time   `json:"start_ns"`
	End   Time   `json:"end_ns"`
	Wait  Time   `json:"wait_ns"` // from its start until the last member arrived or it ended
}

// Last returns the member that arrived last; on a tie, the first by row.
func (c *MatchedCollective) Last() *Member {
	last := &c.Members[0]
	for i := range c.Members {
		if c.Members[i].Start > last.Start {
			last = &c.Members[i]
		}
	}
	return last
}

// An operation identifies a collective across its members.
type operation struct {
	run     string // of the ranks, if several runs are compared side by side
	group   int32
	op      CollectiveOp
	message bool // seq is that of LinkMessages, or of a span without a partner
	seq     int64
}

// MatchCollectives matches the collective kernels of all ranks by group, operation and
// number, and messages between two ranks by LinkMessages.
func (r *Run) MatchCollectives() {
	r.Collectives = nil
	if len(r.Comms) == 0 {
		return
	}
	for i := range r.Comms {
		r.Comms[i].Collective = None
	}
	type part struct {
		span SpanID
		of   int32 // row of r.Collectives
	}
	var parts []part
	var sizes []int32 // by row: kernels, an upper bound of its members
	most := len(r.Comms) / max(1, len(r.Ranks))
	rows := make(map[operation]int32, most)
	r.Collectives = make([]MatchedCollective, 0, most)
	messages := r.messages()
	for i := range r.Spans {
		s := &r.Spans[i]
		if s.Kind != Collective {
			continue
		}
		comm := r.Comm(*s)
		if comm == nil {
			continue // neither operation nor group is known
		}
		rank := &r.Ranks[r.Lanes[s.Lane].Rank]
		key := operation{run: rank.Run, group: comm.Group, op: comm.Op, seq: comm.Seq}
		if key.message = isMessage(comm, rank); key.message {
			key.seq = -1 - int64(i)
			if n, ok := messages[int32(i)]; ok {
				key.seq = int64(n)
			}
		}
		at := Memo(rows, key, func() int32 {
			sizes = append(sizes, 0)
			return Push(&r.Collectives, r.newCollective(comm, key))
		})
		comm.Collective = at
		sizes[at]++
		parts = append(parts, part{SpanID(i), at})
	}
	members := make([]Member, len(parts)) // of all collectives: one allocation
	for i, n := range sizes {
		r.Collectives[i].Members, members = members[:0:n], members[n:]
	}
	for _, p := range parts {
		s, c := r.Spans[p.span], &r.Collectives[p.of]
		row := r.Lanes[s.Lane].Rank
		c.join(Member{Row: row, Rank: r.Ranks[row].ID, Span: p.span, Start: s.Start, End: s.End})
		c.Bytes = max(c.Bytes, r.Comm(s).Bytes())
	}
	for i := range r.Collectives {
		r.Collectives[i].finish()
	}
}

// isMessage reports whether an operation is a message to or from one rank that is known.
func isMessage(c *Comm, rank *Rank) bool {
	return c.Op == SendRecv && c.Peer != None && rank.ID >= 0 && int(c.Peer) != rank.ID
}

// messages links the kernels of messages, by span, of each run and group.
func (r *Run) messages() map[int32]int32 {
	type part struct {
		run   string
		group int32
	}
	of := map[part][]Message{}
	for i, s := range r.Spans {
		comm := r.Comm(s)
		if s.Kind != Collective || comm == nil {
			continue
		}
		if rank := &r.Ranks[r.Lanes[s.Lane].Rank]; isMessage(comm, rank) {
			at := part{rank.Run, comm.Group}
			of[at] = append(of[at], comm.Message(int32(i), int32(rank.ID), comm.Peer))
		}
	}
	linked := map[int32]int32{}
	for _, list := range of {
		maps.Copy(linked, LinkMessages(list))
	}
	return linked
}

func (r *Run) newCollective(c *Comm, key operation) MatchedCollective {
	n := MatchedCollective{Op: c.Op, Group: c.Group, Seq: c.Seq}
	if c.Group != None {
		n.Size = r.Groups[c.Group].Size
	}
	if key.message {
		n.Size = 2
	}
	return n
}

// join adds a kernel; a second kernel of the same rank extends the member.
func (c *MatchedCollective) join(m Member) {
	for i := range c.Members {
		if old := &c.Members[i]; old.Row == m.Row {
			old.End = max(old.End, m.End)
			return
		}
	}
	c.Members = append(c.Members, m)
}

// finish computes the values that depend on all members.
func (c *MatchedCollective) finish() {
	slices.SortFunc(c.Members, func(a, b Member) int { return cmp.Compare(a.Row, b.Row) })
	last := c.Last()
	c.Arrive, c.Late = last.Start, last.Rank
	c.Depart = c.Members[0].End
	for _, m := range c.Members {
		c.Depart = min(c.Depart, m.End)
	}
	c.Transfer = max(0, c.Depart-c.Arrive)
	for i := range c.Members {
		m := &c.Members[i]
		m.Wait = min(c.Arrive, m.End) - m.Start
	}
}

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
