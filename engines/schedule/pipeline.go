package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A pipelineWriter orders a step's items and exchanges as a schedule of a pipeline does (rule W18).
// What a chunk makes for the next stage leaves on a stream of its own beside the chunk behind it;
// the receiver is ready when the chunk in front of the one that needs it has ended, or begins.
// Where a program has one stream for all messages, PyTorch's schedules of several stages on a rank keep it
// (pipeline.Plan.Posts).
//
//	stage 0  compute   |F0    |F1    |
//	         messages         |send0 |
//	stage 1  messages  |...   |recv0 |
//	         compute                 |F0    |
type pipelineWriter struct {
	*step
	*pipelinePlan
	messages map[messageKey]*exchange
	parts    map[partKey]*exchange
	ends     []int32     // of the current rank and iteration, by the number of steps that have ended: its last item
	received []*exchange // that the next item of the rank waits for
	// issuedOnce has the captured operations that an item or a part of one stands for.
	issuedOnce map[int32]bool
}

// A messageKey is a chunk whose result a rank sends on.
type messageKey struct {
	round, from int
	pipelineChunk
}

// A partKey is a part of a captured collective.
type partKey struct {
	row       int32
	k, of, by int
}

// pipeline replaces the captured items and exchanges by those of a plan.
func (s *step) pipeline(p *pipelinePlan) {
	pw := &pipelineWriter{step: s, pipelinePlan: p, messages: map[messageKey]*exchange{}, parts: map[partKey]*exchange{}, issuedOnce: map[int32]bool{}}
	posts := map[sentMessage]postedMessage(nil)
	if pw.oneQueue() {
		posts = p.Posts()
	}
	for id := range s.at {
		s.at[id] = -1
	}
	for rank := range s.items {
		s.items[rank], pw.received = nil, nil
		s.computes = nil
		for round := range p.rounds {
			pw.whole(rank, p.rounds[round][rank].head)
			pw.ends = []int32{int32(len(s.items[rank]) - 1)}
			for i, c := range p.Orders[rank] {
				begin := len(s.items[rank])
				pw.run(rank, p.pieces[place{round, rank, c}])
				pw.ends = append(pw.ends, int32(len(s.items[rank])-1))
				if from, sent, ok := p.Beside(rank, c, -1); ok {
					x := pw.message(round, from, sent)
					at := pw.ends[i]
					if post, ok := posts[sentMessage{From: from, pipelineChunk: sent}]; ok {
						at, x.turn, x.name = pw.ends[post.Steps], int32(round*len(posts)+post.Turn+1), "messages"
					} else if p.Early {
						at = pw.ends[max(0, i-1)]
					}
					pw.member(x, rank, p.Message(round, rank), at)
					if begin == len(s.items[rank]) { // nothing to compute
						pw.received = append(pw.received, x)
					} else {
						it := s.items[rank][begin]
						it.waits = append(it.waits, x)
					}
				}
				if _, _, ok := p.Beside(rank, c, 1); ok {
					c.Split = false
					pw.member(pw.message(round, rank, c), rank, p.Message(round, rank), pw.ends[i+1])
				}
			}
			pw.whole(rank, p.rounds[round][rank].tail)
		}
	}
	s.number()
}

// whole adds operations that are no part of a micro-batch, as captured.
func (pw *pipelineWriter) whole(rank int, ids []int32) {
	for _, id := range ids {
		switch op := &pw.w.Ops[id]; {
		case op.Collective < 0:
			pw.add(rank, &item{op: op}, id)
		case len(pw.carriers[op.Collective]) == 0:
			pw.exchange(int(op.Collective))
		}
	}
}

// add adds an item of an operation, or of a part of it, behind the last item of a rank.
func (pw *pipelineWriter) add(rank int, it *item, id int32) {
	pw.at[id] = int32(len(pw.items[rank]))
	it.waits, pw.received = append(it.waits, pw.received...), nil
	pw.items[rank] = append(pw.items[rank], it)
}

// run adds pieces behind the last item of a rank.
func (pw *pipelineWriter) run(rank int, pieces []pipelinePiece) {
	items, exchanges := map[int32]*item{}, map[int32]*exchange{} // of the chunk, by op
	for _, x := range pieces {
		if x.Op.Collective >= 0 {
			exchanges[x.Op.ID] = pw.part(rank, x, items)
			continue
		}
		it := &item{op: x.Part, again: x.Added || pw.issuedOnce[x.Op.ID], piece: &x}
		pw.issuedOnce[x.Op.ID] = pw.issuedOnce[x.Op.ID] || !x.Added
		for _, d := range x.Op.After {
			if y := exchanges[d.Op]; y != nil {
				it.waits = append(it.waits, y)
			} else if on := items[d.Op]; on != nil {
				it.deps = append(it.deps, on)
			}
		}
		items[x.Op.ID] = it
		pw.add(rank, it, x.Op.ID)
	}
}

// oneQueue reports whether the captured messages of every rank are on one queue.
func (pw *pipelineWriter) oneQueue() bool {
	queues := map[int]int64{}
	for i := range pw.w.Ops {
		op := &pw.w.Ops[i]
		if op.Collective < 0 || pw.w.Collectives[op.Collective].Op != trace.SendRecv {
			continue
		}
		if queue, ok := queues[op.Rank]; ok && queue != op.Queue {
			return false
		}
		queues[op.Rank] = op.Queue
	}
	return true
}

// part adds a rank to the exchange of a collective, or a part of it.
func (pw *pipelineWriter) part(rank int, x pipelinePiece, items map[int32]*item) *exchange {
	row, key := x.Op.Collective, partKey{x.Op.Collective, x.K, x.Of, x.By}
	y := pw.parts[key]
	if y == nil {
		c := pw.step.pl.Laws().Cut(slices.Repeat([]*workload.Collective{&pw.w.Collectives[row]}, x.By), x.Of, 0)
		y = &exchange{coll: &c, carries: []int32{row}, name: pw.streamName(&c), placed: true}
		pw.parts[key], pw.exchanges, pw.carriers[row] = y, append(pw.exchanges, y), append(pw.carriers[row], y)
	}
	pw.member(y, rank, x.Op, int32(len(pw.items[rank])-1))
	for _, d := range x.Op.After {
		if on := items[d.Op]; on != nil {
			m := &y.members[len(y.members)-1]
			m.deps = append(m.deps, on)
		}
	}
	return y
}

// message is the exchange of what a chunk of a rank sends on.
func (pw *pipelineWriter) message(round, from int, c pipelineChunk) *exchange {
	key := messageKey{round, from, c}
	x := pw.messages[key]
	if x == nil {
		to, _, _ := pw.Beside(from, c, 1)
		coll := &workload.Collective{Op: trace.SendRecv, Group: trace.None, Seq: trace.None - 1 - int64(len(pw.messages)), Bytes: pw.Bytes, In: pw.Bytes, Out: pw.Bytes, Times: workload.Times{Alone: pw.Alone}}
		for _, rank := range []int{min(from, to), max(from, to)} {
			op := pw.Message(round, rank)
			coll.Members, coll.Channels = append(coll.Members, op.ID), max(coll.Channels, pw.w.Collectives[op.Collective].Channels)
		}
		if oneNode := pw.step.pl.Machine.Node(from) == pw.step.pl.Machine.Node(to); coll.Bytes <= int64(coll.Channels)*workload.SendBuffer(oneNode) {
			if coll.Sender = 1; from > to {
				coll.Sender = 2
			}
		}
		// Each link has a stream of its own: no message waits for one that is needed later.
		name := fmt.Sprintf("messages of rank %d to %d, %s of group %d", from, to, [...]string{"forward", "backward"}[c.Part], c.Group)
		x = &exchange{coll: coll, carries: []int32{pw.w.Ops[coll.Members[0]].Collective}, name: name, placed: true, message: true}
		pw.messages[key], pw.exchanges = x, append(pw.exchanges, x)
	}
	return x
}

// member adds a rank to an exchange, behind an item of it.
func (pw *pipelineWriter) member(x *exchange, rank int, op *workload.Op, at int32) {
	m := member{rank: rank, op: op, place: at}
	if at >= 0 {
		m.deps = []*item{pw.items[rank][at]}
	}
	x.members = append(x.members, m)
}

// issuePiece has the host issue a part of an operation that it has issued before.
func (rw *rankWriter) issuePiece(s *plan.Stream, it *item) {
	if rw.pl.Graph || it.op.Graph {
		return
	}
	if it.again && !it.piece.Added { // what adding takes is in the Host of its half
		rw.IssueOne(s, rw.secondsOr(rw.pipe.Issues[it.piece.Op.ID], rw.pl.Machine.Launch.Host.Value), it.op.Name)
	}
	if it.piece.Host > 0 {
		rw.IssueOne(s, plan.Seconds(it.piece.Host)/rw.HostPace, "halves of backward")
	}
}

// secondsOr is the captured time of an issue, on the profile's host; if it is not known, the profile's.
func (rw *rankWriter) secondsOr(captured trace.Time, profile float64) float64 {
	if captured > 0 {
		return plan.Seconds(captured) / rw.HostPace
	}
	return profile
}

// commandOfItem is the kernel or copy of an item.
func (rw *rankWriter) commandOfItem(it *item) program.Command {
	c := rw.pl.CommandOf(it.op)
	if it.piece == nil {
		return c
	}
	if it.piece.Part != it.piece.Op && c.Copy != nil {
		c.Copy.Time = it.op.DurAlone()
	}
	return c
}

// exchangeMessage writes one rank's part of a message. It is matched by its number: the captured
// one that it stands for may be another's.
func (rw *rankWriter) exchangeMessage(s *plan.Stream, x *exchange, m *member) {
	if !rw.pl.Graph {
		rw.IssueOne(s, rw.secondsOr(rw.pipe.Hosts[rw.ID], rw.pl.Machine.Launch.HostCollective.Value), m.op.Name)
	}
	k := rw.pl.Regrouped(m.op, x.coll, rw.channels.of(x.coll), m.runners)
	k.Comm.Seq, k.Comm.Peer = x.coll.Seq, trace.None
	s.Launch(rw.pl.EventGap(m.op), plan.LaunchOf(m.op, k))
	s.Post(m.done, 1)
	m.end = plan.Point{On: s, At: len(s.Commands)}
}

// A mark is a range of the host within which a chunk's operations are launched.
type mark struct {
	from, to trace.Time
	stage    int
	pipelineChunk
}

// markOf reads the name of a range: PyTorch's schedules of several stages on a rank
// (torch/distributed/pipelining/schedules.py) mark "PP:2F0", which is forward of micro-batch 0 on
// stage 2. B is backward, I and W its gradients of inputs and of weights.
func markOf(name string) (m mark, ok bool) {
	text, ok := strings.CutPrefix(name, "PP:")
	at := strings.IndexAny(text, "FBIW")
	if !ok || at < 0 {
		return m, false
	}
	switch text[at] {
	case 'B':
		m.Part = backwardPart
	case 'I':
		m.Part, m.Split = backwardPart, true
	case 'W':
		m.Part = weights
	}
	stage, err := strconv.ParseUint(text[:at], 10, 16)
	micro, bad := strconv.ParseUint(text[at+1:], 10, 16)
	m.stage, m.Micro = int(stage), int(micro)
	return m, err == nil && bad == nil
}

// marks are the marks of every rank, in order.
func (rd *reading) marks() [][]mark {
	run, names := rd.w.Run, map[int32]mark{}
	for i, name := range run.Names {
		if m, ok := markOf(name); ok {
			names[int32(i)] = m
		}
	}
	byRow, all := make([][]mark, len(run.Ranks)), make([][]mark, rd.w.World)
	for _, s := range run.Spans {
		if m, ok := names[int32(s.Name)]; ok && run.Lanes[s.Lane].Kind == trace.HostThread {
			m.from, m.to, m.Group = s.Start, s.End, m.stage/len(rd.ranks[0])
			byRow[run.RankOf(s)] = append(byRow[run.RankOf(s)], m)
		}
	}
	for rank := range all {
		all[rank] = byRow[rd.w.Rows[rank]]
		slices.SortFunc(all[rank], func(a, b mark) int { return cmp.Compare(a.from, b.from) })
	}
	return all
}

// marked divides a rank's operations of an iteration, in order of issue, by the marks around their
// launches. What lies between two marks belongs to the first.
func (rd *reading) marked(x *work, ids []int32, marks []mark) {
	at := -1 // the last mark that an operation was launched in
	for _, id := range ids {
		op := &rd.w.Ops[id]
		if rd.isMessage(op) {
			continue
		}
		next, _ := slices.BinarySearchFunc(marks, op.Issued, func(m mark, t trace.Time) int { return cmp.Compare(m.from, t+1) })
		inside := next > 0 && op.Issued < marks[next-1].to
		if inside {
			for _, id := range x.tail { // between two marks
				x.take(x.microBatchOrder[len(x.microBatchOrder)-1], id)
			}
			x.tail = nil
			for ; at >= 0 && at < next-1; at++ { // the first stage has no gradients of inputs to make
				x.take(marks[at].pipelineChunk)
			}
			at = next - 1
		}
		switch {
		case inside:
			x.take(marks[at].pipelineChunk, id)
			if marks[at].Part == weights && !op.Backward && !op.Gradient && op.Kind == trace.Compute {
				x.sums[id] = true
			}
		case at < 0:
			x.head = append(x.head, id)
		default:
			x.tail = append(x.tail, id)
		}
	}
}
