package overlap

import (
	"cmp"
	"math"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A Collective is one operation of the collective library as all captured
// members lived it. A member's kernel runs from its own arrival: its duration
// is waiting for the others, then the transfer.
type Collective struct {
	Op     trace.CollectiveOp `json:"-"`
	OpName string             `json:"op"`
	Group  string             `json:"group"` // name of the group; "" where the file has none
	Size   int                `json:"size"`  // ranks of the group; 0 where unknown
	Seq    int64              `json:"seq"`
	Bytes  int64              `json:"bytes"` // larger of input and output of one rank; 0 where unknown
	// Arrive is the latest member's start, Depart the earliest member's end.
	Arrive trace.Time `json:"arrive_ns"`
	Depart trace.Time `json:"depart_ns"`
	// Transfer is Depart − Arrive, in which bytes could move: an upper bound
	// as long as fewer members were captured than Size. It is 0 where a member
	// ends before another has started, as an idle sender may.
	Transfer trace.Time `json:"transfer_ns"`
	Late     int        `json:"late_rank"` // rank id of the member that arrived last
	Members  []Member   `json:"members"`   // captured, by rank row
}

// A Member is the part of one rank in a collective.
type Member struct {
	Row   int32        `json:"-"` // of Run.Ranks
	Rank  int          `json:"rank"`
	Span  trace.SpanID `json:"-"` // the first, where several kernels make up one operation
	Start trace.Time   `json:"start_ns"`
	End   trace.Time   `json:"end_ns"`
	Wait  trace.Time   `json:"wait_ns"` // from its start until the last member arrived or it left
}

// BusBytesPerSec is the bandwidth of the links that the transfer needed: the
// bytes that each rank must send, over the transfer's time ("bus bandwidth" of
// nccl-tests). It is 0 where bytes, group or transfer are unknown.
func (c *Collective) BusBytesPerSec() float64 {
	if c.Transfer <= 0 {
		return 0
	}
	return float64(c.Op.WireBytes(c.Bytes, c.Size)) * 1e9 / float64(c.Transfer)
}

// An operation names a collective as all its members know it. Sends and
// receives are counted per pair of ranks.
type operation struct {
	group    int32
	op       trace.CollectiveOp
	low, top int32 // rank ids of a pair; trace.None for a collective
	seq      int64
}

// match joins the collective kernels of all ranks to collectives: by group,
// operation and their order in the group. A send is matched with its receive
// by the order of operations between the two ranks. It also returns, by row of
// Run.Kernels, the index of the kernel's collective or trace.None.
func match(run *trace.Run) (all []Collective, of []int32) {
	of = make([]int32, len(run.Kernels))
	for i := range of {
		of[i] = trace.None
	}
	rows := map[operation]int{}
	pairs := map[pairCount]int64{}
	for i, s := range run.Spans {
		if s.Kind != trace.Collective {
			continue
		}
		comm := run.Comm(s)
		if comm == nil {
			continue // nothing says what it communicates, nor with whom
		}
		row := run.Lanes[s.Lane].Rank
		key := operationOf(run, comm, row, pairs)
		at, ok := rows[key]
		if !ok {
			at = len(all)
			rows[key] = at
			all = append(all, newCollective(run, comm, key))
		}
		of[s.Attr] = int32(at)
		all[at].join(Member{Row: row, Rank: run.Ranks[row].ID, Span: trace.SpanID(i), Start: s.Start, End: s.End})
		all[at].Bytes = max(all[at].Bytes, comm.Bytes())
	}
	for i := range all {
		all[i].finish()
	}
	return all, of
}

// A pairCount counts the operations of a rank with one other.
type pairCount struct {
	row, group, low, top int32
}

func operationOf(run *trace.Run, c *trace.Comm, row int32, pairs map[pairCount]int64) operation {
	key := operation{group: c.Group, op: c.Op, low: trace.None, top: trace.None, seq: c.Seq}
	if own := int32(run.Ranks[row].ID); c.Op == trace.SendRecv && c.Peer != trace.None && own != trace.None {
		key.low, key.top = min(own, c.Peer), max(own, c.Peer)
		count := pairCount{row, c.Group, key.low, key.top}
		key.seq = pairs[count]
		pairs[count]++
	}
	return key
}

func newCollective(run *trace.Run, c *trace.Comm, key operation) Collective {
	n := Collective{Op: c.Op, OpName: c.Op.String(), Seq: key.seq}
	if c.Group != trace.None {
		n.Group, n.Size = run.Groups[c.Group].Name, run.Groups[c.Group].Size
	}
	if key.low != trace.None {
		n.Size = 2
	}
	return n
}

// join adds a kernel; a second one of a rank extends its part.
func (c *Collective) join(m Member) {
	for i := range c.Members {
		if old := &c.Members[i]; old.Row == m.Row {
			old.End = max(old.End, m.End)
			return
		}
	}
	c.Members = append(c.Members, m)
}

// finish computes what depends on all members.
func (c *Collective) finish() {
	slices.SortFunc(c.Members, func(a, b Member) int { return cmp.Compare(a.Row, b.Row) })
	late := 0
	c.Depart = c.Members[0].End
	for i, m := range c.Members {
		if m.Start > c.Members[late].Start {
			late = i
		}
		c.Depart = min(c.Depart, m.End)
	}
	c.Arrive, c.Late = c.Members[late].Start, c.Members[late].Rank
	c.Transfer = max(0, c.Depart-c.Arrive)
	for i := range c.Members {
		m := &c.Members[i]
		m.Wait = min(c.Arrive, m.End) - m.Start
	}
}

// A Straggler says how a rank kept others waiting, and was kept, in
// collectives of which at least two members were captured.
type Straggler struct {
	Late    int        `json:"late"`       // collectives in which it arrived last
	Delayed trace.Time `json:"delayed_ns"` // by how much it then came after the last but one
	Waited  trace.Time `json:"waited_ns"`  // for others, inside collectives
}

// stragglers sums up by rank row. Among members that arrive last together, none is late.
func stragglers(all []Collective, ranks int) []Straggler {
	sum := make([]Straggler, ranks)
	for i := range all {
		c := &all[i]
		if len(c.Members) < 2 {
			continue
		}
		var last, lateRow int32
		before := trace.Time(math.MinInt64) // the latest of those that did not arrive last
		for _, m := range c.Members {
			sum[m.Row].Waited += m.Wait
			if m.Start == c.Arrive {
				last++
				lateRow = m.Row
			} else {
				before = max(before, m.Start)
			}
		}
		if last == 1 {
			sum[lateRow].Late++
			sum[lateRow].Delayed += c.Arrive - before
		}
	}
	return sum
}
