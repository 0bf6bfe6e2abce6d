package pipeline

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A writer writes the program of a schedule. A rank runs its steps one after another on the
// captured streams. What a chunk makes for the next stage leaves on a stream of its own beside
// the step behind it. A receive holds its workgroups' slots until the message comes. It is
// posted when the step before has ended or, if that costs compute less than the message takes,
// when it begins:
//
//	stage 0  compute   |F0    |F1    |
//	         messages         |send0 |
//	stage 1  messages  |...   |recv0 |
//	         compute                 |F0    |
type writer struct {
	*reading
	*shape
	pl         *plan.Planner
	schedule   string
	orders     []order // by stage
	lists      map[listKey][]piece
	done       [][][]program.Flag // by iteration, rank and step
	streams    map[program.Flag]int64
	messagesOf map[messageKey]*message
	indexes    map[pieceKey]int
	early      bool // receives are posted a step ahead
}

// A listKey is a chunk of an iteration with the layers of a rank.
type listKey struct {
	round, rank int
	chunk
}

// A piece is an operation, or the k-th of several equal parts of it.
type piece struct {
	op    *workload.Op
	k, of int
	sums  bool // over rows: a part of it has as many tiles
}

type pieceKey struct {
	coll  int32
	k, of int
	way   int
}

// A messageKey is what a stage sends on for a micro-batch, by its rank.
type messageKey struct {
	round, from int
	chunk
}

type message struct {
	coll    *workload.Collective
	arrived program.Flag
}

// list makes the pieces of all chunks. It returns the reason why it cannot, or "".
func (wr *writer) list() string {
	splits := wr.schedule == "zb" || wr.schedule == "zb2" || wr.schedule == "dualpipe"
	for round := range wr.rounds {
		for rank := range wr.rounds[round] {
			x := &wr.rounds[round][rank]
			for k := range x.chunks {
				for micro, ids := range x.chunks[k] {
					groups, why := wr.grouped(ids)
					if why != "" {
						return why
					}
					for g, ids := range groups {
						if part(k) == backward {
							g = len(groups) - 1 - g
						}
						wr.take(round, rank, chunk{part: part(k), micro: micro, layer: g}, ids)
					}
					if part(k) != backward || !splits {
						continue
					}
					inputs, grads, why := wr.split(round, rank, micro)
					if why != "" {
						return why
					}
					wr.take(round, rank, chunk{part: backward, micro: micro, split: true}, inputs)
					wr.take(round, rank, chunk{part: weights, micro: micro}, grads)
				}
			}
		}
	}
	chunk := trace.Time(0)
	for stage := range wr.stages {
		wr.times = append(wr.times, wr.timesOf(stage))
		chunk = max(chunk, wr.times[stage][forward])
	}
	row := wr.w.Ops[wr.reading.messages[0][0]].Collective
	held := float64(wr.pl.Channels(&wr.w.Collectives[row])) / wr.pl.Machine.GPU.CUs.Value
	wr.early = held*float64(chunk) < float64(wr.alone)
	return ""
}

func (wr *writer) grouped(ids []int32) ([][]int32, string) {
	return wr.reading.groups(ids, wr.shape.groups)
}

// take makes the pieces of the micro-batches that a captured one stands for: of a part of it, or of
// several.
func (wr *writer) take(round, rank int, c chunk, ids []int32) {
	captured, now := wr.reading.micros, wr.shape.micros
	of := max(1, now/captured)
	micro := c.micro
	for k := range of {
		c.micro = micro*now/captured + k
		key := listKey{round, rank, c}
		for _, id := range ids {
			p := piece{op: &wr.w.Ops[id], k: k, of: of}
			if of > 1 && c.part != forward {
				p.sums = wr.sums(p.op, round, rank)
			}
			wr.lists[key] = append(wr.lists[key], p)
		}
	}
}

// sums reports whether a GEMM of backward sums over the rows of a micro-batch.
func (wr *writer) sums(op *workload.Op, round, rank int) bool {
	late, why := wr.sumsOverRows([]int32{op.ID}, wr.rounds[round][rank].chunks[forward][0])
	return why == "" && late[op.ID]
}

// flags makes the flags of all steps and messages.
func (wr *writer) flags() {
	wr.done, wr.streams = make([][][]program.Flag, len(wr.rounds)), map[program.Flag]int64{}
	for round := range wr.rounds {
		wr.done[round] = make([][]program.Flag, wr.w.World)
		for rank := range wr.w.World {
			wr.done[round][rank] = wr.pl.Program.NewFlags(len(wr.orders[wr.stage[rank]]), fmt.Sprintf("rank %d: chunk", rank))
		}
	}
}

// place is the stage whose layers a chunk has, over all groups, and the number of the last one.
func (wr *writer) place(rank int, c chunk) (stage, last int) {
	last = wr.stages*wr.shape.groups - 1
	stage = wr.stage[rank]
	if c.way == 1 {
		stage = wr.stages - 1 - stage
	}
	return c.layer*wr.stages + stage, last
}

// next is the chunk that needs what a chunk makes, and its rank; false: there is none.
func (wr *writer) next(rank int, c chunk) (int, chunk, bool) { return wr.beside(rank, c, 1) }

// before is the chunk of another rank whose result a chunk needs; false: it needs none.
func (wr *writer) before(rank int, c chunk) (int, chunk, bool) { return wr.beside(rank, c, -1) }

func (wr *writer) beside(rank int, c chunk, by int) (int, chunk, bool) {
	if c.part == weights {
		return 0, c, false
	}
	if c.part == backward {
		by = -by
	}
	at, last := wr.place(rank, c)
	if at += by; at < 0 || at > last {
		return 0, c, false
	}
	stage := at % wr.stages
	if c.way == 1 {
		stage = wr.stages - 1 - stage
	}
	c.layer = at / wr.stages
	return wr.ranks[wr.chain[rank]][stage], c, true
}

// message is what a rank's chunk sends on.
func (wr *writer) message(round, from int, c chunk) *message {
	c.split = false
	key := messageKey{round, from, c}
	if m := wr.messagesOf[key]; m != nil {
		return m
	}
	to, _, _ := wr.next(from, c)
	size := func(n int64) int64 { return n * int64(wr.reading.micros) / int64(wr.shape.micros) }
	coll := &workload.Collective{Op: trace.SendRecv, Group: trace.None, Seq: int64(len(wr.messagesOf)), Bytes: size(wr.bytes), In: size(wr.bytes), Out: size(wr.bytes), Alone: wr.alone}
	for _, rank := range []int{min(from, to), max(from, to)} {
		op := wr.standIn(round, rank)
		coll.Members, coll.Channels = append(coll.Members, op.ID), max(coll.Channels, wr.w.Collectives[op.Collective].Channels)
	}
	if whole := wr.pl.TimeOf(coll, wr.bytes); coll.Bytes != wr.bytes && whole > 0 {
		coll.Alone = trace.Time(float64(wr.alone) * float64(wr.pl.TimeOf(coll, coll.Bytes)) / float64(whole))
	}
	m := &message{coll: coll, arrived: wr.pl.Program.NewFlag(fmt.Sprintf("message of rank %d to %d", from, to))}
	wr.messagesOf[key] = m
	return m
}

// standIn is a captured message of a rank, of an iteration if it has one.
func (wr *writer) standIn(round, rank int) *workload.Op {
	of, _ := workload.IterationsOf(wr.w)
	for _, id := range wr.reading.messages[rank] {
		if int(of[id]) == round {
			return &wr.w.Ops[id]
		}
	}
	return &wr.w.Ops[wr.reading.messages[rank][0]]
}

// write has the planner write all ranks; hosts issue in the order of the schedule.
func (wr *writer) write() {
	wr.pl.WriteRank = wr.rank
	order := make([][]int32, wr.w.World)
	for rank := range order {
		issued := map[int32]bool{}
		add := func(op *workload.Op) {
			if op.Rank == rank && !issued[op.ID] && op.Issued != trace.Infinity {
				issued[op.ID], order[rank] = true, append(order[rank], op.ID)
			}
		}
		for round := range wr.rounds {
			x := &wr.rounds[round][rank]
			for _, id := range x.head {
				add(&wr.w.Ops[id])
			}
			for _, step := range wr.orders[wr.stage[rank]] {
				for _, p := range wr.stepOf(round, rank, step) {
					add(p.op)
				}
			}
			for _, id := range x.tail {
				add(&wr.w.Ops[id])
			}
		}
	}
	wr.pl.IssueAhead(order)
}

// A placed is a piece on the stream that it is written to.
type placed struct {
	piece
	way    int
	beside bool // a collective that runs beside the other chunk of its step
}

// stepOf are the pieces of a step. Those of two chunks alternate at their collectives, so that one
// computes while the other communicates.
func (wr *writer) stepOf(round, rank int, step []chunk) (all []placed) {
	var lists [2][]placed
	for i, c := range step {
		owner := rank
		if c.way == 1 {
			owner = wr.ranks[wr.chain[rank]][wr.stages-1-wr.stage[rank]]
			c.micro += wr.shape.micros / 2
		}
		way := c.way
		c.way = 0
		for _, p := range wr.lists[listKey{round, owner, c}] {
			lists[i] = append(lists[i], placed{p, way, len(step) > 1 && p.op.Collective >= 0})
		}
	}
	for at := 0; len(lists[0])+len(lists[1]) > 0; at = 1 - at {
		for len(lists[at]) > 0 {
			p := lists[at][0]
			all, lists[at] = append(all, p), lists[at][1:]
			if p.beside {
				break
			}
		}
	}
	return all
}

// A rankWriter is the state of writing one rank.
type rankWriter struct {
	*writer
	*plan.Rank
	prev   map[int64]*workload.Op // by queue
	issued map[int32]bool
	gate   program.Flag // what the next step of a stream waits for
}

func (wr *writer) rank(r *plan.Rank) {
	rw := &rankWriter{writer: wr, Rank: r, prev: map[int64]*workload.Op{}, issued: map[int32]bool{}}
	steps := wr.orders[wr.stage[r.ID]]
	for round := range wr.rounds {
		x := &wr.rounds[round][r.ID]
		rw.run(round, rw.whole(x.head), nil)
		for i, step := range steps {
			var messages []*message
			for _, c := range step {
				if from, sent, ok := wr.before(r.ID, c); ok {
					messages = append(messages, rw.receive(round, i, from, sent))
				}
			}
			done := wr.done[round][r.ID][i]
			rw.run(round, wr.stepOf(round, r.ID, step), messages, done)
			for _, c := range step {
				if _, _, ok := wr.next(r.ID, c); ok {
					rw.send(round, c, done)
				}
			}
		}
		rw.run(round, rw.whole(x.tail), nil)
	}
}

// whole are operations that are no part of a micro-batch.
func (rw *rankWriter) whole(ids []int32) (all []placed) {
	for _, id := range ids {
		all = append(all, placed{piece: piece{op: &rw.w.Ops[id], of: 1}})
	}
	return all
}

// run writes pieces behind what was run before and behind messages, and posts to the given flags
// when all have ended.
func (rw *rankWriter) run(round int, pieces []placed, messages []*message, done ...program.Flag) {
	if len(pieces) == 0 && len(done) == 0 {
		return
	}
	ends := append(done, rw.pl.Program.NewFlag(fmt.Sprintf("rank %d: work in order", rw.ID)))
	on, flags, streams := map[int32]*plan.Stream{}, map[int32]program.Flag{}, []*plan.Stream(nil)
	for _, p := range pieces {
		on[p.op.ID] = rw.streamOf(p)
	}
	for _, p := range pieces {
		for _, d := range p.op.After {
			if s, here := on[d.Op]; here && s != on[p.op.ID] && flags[d.Op] == program.NoFlag {
				flags[d.Op] = rw.pl.Program.NewFlag(rw.w.Ops[d.Op].Name)
			}
		}
	}
	if len(pieces) == 0 {
		streams = append(streams, rw.main())
		rw.begin(streams[0], messages)
	}
	for _, p := range pieces {
		s, event := on[p.op.ID], false
		if !slices.Contains(streams, s) {
			streams = append(streams, s)
			rw.begin(s, messages)
		}
		for _, d := range p.op.After {
			if f, ok := flags[d.Op]; ok && on[d.Op] != s {
				s.Wait(f, 1, rw.w.Ops[d.Op].Name)
				event = true
			}
		}
		gap := rw.issue(s, p.op)
		if event {
			gap = max(gap, rw.pl.EventGap(p.op))
		}
		s.Launch(gap, rw.command(round, p))
		rw.prev[p.op.Queue] = p.op
		if f, ok := flags[p.op.ID]; ok {
			s.Post(f, 1)
		}
		if p.op.Rank == rw.ID {
			s.Post(rw.pl.Done[p.op.ID], 1) // a host may wait for it
		}
	}
	for _, s := range streams {
		for _, f := range ends {
			s.Post(f, 1)
		}
	}
	for _, f := range ends {
		rw.streams[f] = int64(len(streams))
	}
	rw.gate = ends[len(ends)-1]
}

// main is the stream of the rank's first piece.
func (rw *rankWriter) main() *plan.Stream {
	for _, id := range rw.w.Ranks[rw.ID] {
		if op := &rw.w.Ops[id]; rw.computes(op) {
			return rw.Stream(op.Queue)
		}
	}
	return rw.Added("compute")
}

// begin makes a stream wait for what the rank ran before and for messages.
func (rw *rankWriter) begin(s *plan.Stream, messages []*message) {
	if rw.gate != program.NoFlag {
		s.Wait(rw.gate, rw.streams[rw.gate], "chunk before")
	}
	for _, m := range messages {
		s.Wait(m.arrived, 1, "message of the stage before")
	}
}

// streamOf is a piece's stream: the captured one, or its own for a collective beside the other chunk
// of its step.
func (rw *rankWriter) streamOf(p placed) *plan.Stream {
	if p.beside {
		return rw.Added(fmt.Sprintf("collectives of way %d", p.way))
	}
	if p.op.Rank != rw.ID {
		return rw.main()
	}
	return rw.Stream(p.op.Queue)
}

// issue makes a stream wait until the host has issued an operation and returns the gap on the device
// before it: the captured one, up to that of an event, without the pauses of the captured pipeline.
func (rw *rankWriter) issue(s *plan.Stream, op *workload.Op) trace.Time {
	gap := plan.Duration(rw.pl.Machine.Launch.Gap.Value)
	switch {
	case op.Rank == rw.ID && !rw.issued[op.ID]:
		rw.issued[op.ID] = true
		rw.WaitIssued(s, op)
		gap = min(rw.pl.GapOf(op, rw.prev[op.Queue]), rw.pl.EventGap(op))
	case !rw.pl.Graph && !op.Graph:
		rw.IssueOne(s, rw.pl.Machine.Launch.Host.Value, op.Name)
	}
	return gap
}

// command is the kernel or copy of a piece. Layers of another rank, in DualPipe, run with the rank's
// own collectives.
func (rw *rankWriter) command(round int, p placed) (c program.Command) {
	op := p.op
	if op.Rank != rw.ID {
		here := *op
		here.Rank = rw.ID
		op = &here
	}
	switch {
	case op.Collective >= 0:
		own := rw.ownCollective(p.op)
		c = plan.LaunchOf(own, rw.partOf(own, p))
	case p.of == 1:
		c = rw.pl.CommandOf(op)
	case p.sums:
		part := *op
		part.Alone = plan.Share(op.DurAlone(), p.k, p.of)
		part.Read, part.Write = op.Read/float64(p.of), op.Write
		c = rw.pl.CommandOf(&part)
	default:
		c = rw.pl.MidPart(op, p.k, p.of)
	}
	if p.op.Rank != rw.ID {
		c.Origin = rw.standIn(round, rw.ID).ID
	}
	return c
}

// ownCollective is the rank's member of a collective or, of another stage's, of the same one of its
// own stage.
func (rw *rankWriter) ownCollective(op *workload.Op) *workload.Op {
	if op.Rank == rw.ID {
		return op
	}
	n := 0
	for _, id := range rw.w.Ranks[op.Rank] {
		if id == op.ID {
			break
		}
		if rw.w.Alike(id, op.ID) {
			n++
		}
	}
	for _, id := range rw.w.Ranks[rw.ID] {
		if o := &rw.w.Ops[id]; o.Collective >= 0 && rw.sameSize(o, op) {
			if n == 0 {
				return o
			}
			n--
		}
	}
	return op
}

func (rw *rankWriter) sameSize(a, b *workload.Op) bool {
	c, d := &rw.w.Collectives[a.Collective], &rw.w.Collectives[b.Collective]
	return c.Op == d.Op && c.Bytes == d.Bytes && len(c.Members) == len(d.Members)
}

// partOf is one rank's kernel of a part of a collective.
func (rw *rankWriter) partOf(op *workload.Op, p placed) *program.Kernel {
	piece := rw.pl.Chunks(&rw.w.Collectives[op.Collective], p.of, 0, nil)
	key := pieceKey{op.Collective, p.k, p.of, p.way}
	index, ok := rw.indexes[key]
	if !ok {
		index = len(rw.indexes)
		rw.indexes[key] = index
	}
	piece.Index = index
	return rw.pl.Carried(op, piece)
}

// send writes a chunk's message to the next stage, behind its step.
func (rw *rankWriter) send(round int, c chunk, done program.Flag) {
	to, _, _ := rw.next(rw.ID, c)
	m := rw.message(round, rw.ID, c)
	s := rw.Added(fmt.Sprintf("messages to rank %d, %s", to, wayOf(c)))
	s.Wait(done, rw.streams[done], "chunk")
	rw.exchange(s, round, m)
}

// receive writes the receipt of a message that a step needs.
func (rw *rankWriter) receive(round, step, from int, sent chunk) *message {
	m := rw.message(round, from, sent)
	s := rw.Added(fmt.Sprintf("messages of rank %d, %s", from, wayOf(sent)))
	f := rw.gate
	if rw.early {
		f = program.NoFlag
		if step > 1 {
			f = rw.done[round][rw.ID][step-2]
		}
	}
	if f != program.NoFlag {
		s.Wait(f, rw.streams[f], "chunk")
	}
	rw.exchange(s, round, m)
	s.Post(m.arrived, 1)
	return m
}

// wayOf names what travels: each has a stream of its own, so that no message waits for one that is
// needed later.
func wayOf(c chunk) string {
	return fmt.Sprintf("%s of group %d, way %d", [...]string{"forward", "backward", "weights"}[c.part], c.layer, c.way)
}

func (rw *rankWriter) exchange(s *plan.Stream, round int, m *message) {
	op := rw.standIn(round, rw.ID)
	if !rw.pl.Graph {
		rw.IssueOne(s, rw.pl.Machine.Launch.HostCollective.Value, op.Name)
	}
	k := rw.pl.Regrouped(op, m.coll, 0, nil)
	k.Comm.Group, k.Comm.Seq, k.Comm.Peer = trace.None, m.coll.Seq, trace.None // matched by its number: the captured one may be another's
	s.Launch(rw.pl.EventGap(op), plan.LaunchOf(op, k))
}
