// Package pipeline has the schedules of a pipeline: GPipe, 1F1B, interleaved, zero bubble and
// DualPipe, of the forward and backward chunks of a capture (rules W18 to W20).
//
//	reading.go  which rank has which stage, and what each micro-batch consists of
//	order.go    the order in which every rank runs them
package pipeline

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Schedules are the values of the setting; the first leaves the step as it is.
var Schedules = []string{"captured", "gpipe", "1f1b", "interleaved", "zb", "zb2", "dualpipe"}

// A Plan is a schedule of a captured pipeline.
type Plan struct {
	*reading
	Orders [][]Order // by iteration and rank
	Early  bool      // receives are posted a step ahead: that takes compute less than a message lasts
	Bytes  int64     // of a message
	Alone  trace.Time
	shape  shape
	pl     *plan.Planner
	pieces map[place][]Piece
}

// A place is a chunk of an iteration with the layers of a rank.
type place struct {
	round, rank int
	Chunk
}

// A Piece is an operation, or the k-th of several equal parts of it. Sums: over the rows of a
// micro-batch, so that a part of it has as many tiles.
type Piece struct {
	Op    *workload.Op
	K, Of int
	Sums  bool
}

// New plans a pipeline with so many micro-batches (0: as captured) and, interleaved, groups of
// layers on each rank. The work of the step stays: fewer micro-batches are larger ones. It returns
// the reason why it cannot, or "".
func New(pl *plan.Planner, schedule string, micros, groups int) (p *Plan, why string) {
	rd, why := read(pl.Workload)
	if why != "" {
		return nil, why
	}
	if micros == 0 {
		micros = rd.micros
	}
	if micros%rd.micros != 0 && rd.micros%micros != 0 {
		return nil, fmt.Sprintf("microbatches=%d is no multiple and no part of the %d that were captured", micros, rd.micros)
	}
	if schedule != "interleaved" {
		groups = 1
	}
	p = &Plan{reading: rd, pl: pl, shape: shape{stages: len(rd.ranks[0]), micros: micros, groups: groups, forwardOnly: rd.forwardOnly}, pieces: map[place][]Piece{}}
	if why := p.cut(schedule == "zb" || schedule == "zb2" || schedule == "dualpipe"); why != "" {
		return nil, why
	}
	orders, why := p.shape.orders(schedule)
	if why != "" {
		return nil, why
	}
	for range rd.rounds {
		var round []Order
		for rank := range rd.w.World {
			round = append(round, orders[rd.stage[rank]])
		}
		p.Orders = append(p.Orders, round)
	}
	p.message()
	p.hold(schedule == "dualpipe")
	pl.ChangesOnly = func(c *workload.Collective) bool { return c.Op == trace.SendRecv }
	switch schedule {
	case "dualpipe":
		pl.Note("dualpipe: every rank has the parameters of two stages, twice those of the captured pipeline")
	case "zb2":
		pl.Note("zb2: an iteration begins on a rank when it has ended there: no collective of all stages may end a step (the norm of gradients)")
	}
	if micros < rd.micros {
		pl.Note("microbatches=%d: a larger micro-batch takes the time of the %d smaller ones that were captured, at most", micros, rd.micros/micros)
	}
	return p, ""
}

// Settings are those of the schedules that a capture's pipeline may have, then the same with more
// micro-batches; nil: it has no pipeline that can be planned anew.
func Settings(w *workload.Workload) (list, more []string) {
	rd, why := read(w)
	if why != "" {
		return nil, nil
	}
	for _, schedule := range Schedules[1:] {
		list = append(list, "schedule="+schedule)
		for _, by := range []int{2, 4} {
			more = append(more, fmt.Sprintf("schedule=%s:microbatches=%d", schedule, by*rd.micros))
		}
	}
	return list, more
}

// cut makes the pieces of all chunks, and their times. It returns the reason why it cannot, or "".
func (p *Plan) cut(splits bool) string {
	for round := range p.rounds {
		for rank := range p.rounds[round] {
			for k, chunks := range p.rounds[round][rank].chunks {
				for micro, ids := range chunks {
					groups, why := p.groups(ids, p.shape.groups)
					if why != "" {
						return why
					}
					for g, ids := range groups {
						if Part(k) == Backward {
							g = len(groups) - 1 - g
						}
						p.take(round, rank, Chunk{Part: Part(k), Micro: micro, Group: g}, ids)
					}
					if Part(k) != Backward || !splits {
						continue
					}
					inputs, grads, why := p.split(round, rank, micro)
					if why != "" {
						return why
					}
					p.take(round, rank, Chunk{Part: Backward, Micro: micro, Split: true}, inputs)
					p.take(round, rank, Chunk{Part: Weights, Micro: micro}, grads)
				}
			}
		}
	}
	for _, rank := range p.ranks[0] {
		var times [3]trace.Time
		for k := range times {
			for _, x := range p.pieces[place{0, rank, Chunk{Part: Part(k), Split: Part(k) == Backward}}] {
				times[k] += x.Op.DurAlone() / trace.Time(x.Of)
			}
		}
		p.shape.times = append(p.shape.times, times)
	}
	return ""
}

// take makes the pieces of the micro-batches that a captured one stands for: of a part of it, or of
// several.
func (p *Plan) take(round, rank int, c Chunk, ids []int32) {
	of := max(1, p.shape.micros/p.micros)
	var late map[int32]bool
	if of > 1 && c.Part != Forward {
		late, _ = p.sumsOverRows(ids, p.rounds[round][rank].chunks[Forward][0])
	}
	micro := c.Micro
	for k := range of {
		c.Micro = micro*p.shape.micros/p.micros + k
		at := place{round, rank, c}
		for _, id := range ids {
			p.pieces[at] = append(p.pieces[at], Piece{&p.w.Ops[id], k, of, late[id]})
		}
	}
}

// Head and Tail are a rank's operations of an iteration in front of the first micro-batch and
// behind the last.
func (p *Plan) Head(round, rank int) []int32 { return p.rounds[round][rank].head }

// Tail is Head of those behind the last.
func (p *Plan) Tail(round, rank int) []int32 { return p.rounds[round][rank].tail }

// Pieces are those of a step of an order, in the order in which they are issued. Two chunks
// alternate at their collectives, so that one computes while the other communicates. Pieces of
// another rank are layers of DualPipe's second stage.
func (p *Plan) Pieces(round, rank int, step []Chunk) (all []Piece) {
	var lists [2][]Piece
	for i, c := range step {
		owner := rank
		if c.Way == 1 {
			owner = p.ranks[p.chain[rank]][p.shape.stages-1-p.stage[rank]]
			c.Micro += p.shape.micros / 2
		}
		c.Way = 0
		lists[i] = p.pieces[place{round, owner, c}]
	}
	for at := 0; len(lists[0])+len(lists[1]) > 0; at = 1 - at {
		for len(lists[at]) > 0 {
			x := lists[at][0]
			all, lists[at] = append(all, x), lists[at][1:]
			if x.Op.Collective >= 0 && len(lists[1-at]) > 0 {
				break
			}
		}
	}
	return all
}

// Beside is the chunk of the stage behind (by 1) or before (by -1) a rank's chunk, in the order in
// which data pass, and its rank; false: there is none.
func (p *Plan) Beside(rank int, c Chunk, by int) (int, Chunk, bool) {
	stages := p.shape.stages
	turned := func(stage int) int {
		if c.Way == 1 {
			return stages - 1 - stage
		}
		return stage
	}
	if c.Part == Backward {
		by = -by
	}
	at := c.Group*stages + turned(p.stage[rank]) + by
	if c.Part == Weights || at < 0 || at >= stages*p.shape.groups {
		return 0, c, false
	}
	c.Group, c.Split = at/stages, false
	return p.ranks[p.chain[rank]][turned(at%stages)], c, true
}

// Message is a captured message of a rank, of an iteration if it has one: what is planned stands
// for it.
func (p *Plan) Message(round, rank int) *workload.Op {
	of, _ := workload.IterationsOf(p.w)
	i := max(0, slices.IndexFunc(p.messages[rank], func(id int32) bool { return int(of[id]) == round }))
	return &p.w.Ops[p.messages[rank][i]]
}

// message finds what a message carries and how long it takes: the shortest stay of any captured
// one's kernels, since the others waited.
func (p *Plan) message() {
	row := 0
	for i := range p.w.Collectives {
		c := &p.w.Collectives[i]
		if c.Op != trace.SendRecv || c.Bytes < p.Bytes {
			continue
		}
		if c.Bytes > p.Bytes || p.Alone == 0 {
			row, p.Bytes, p.Alone = i, c.Bytes, trace.Infinity
		}
		for _, id := range c.Members {
			p.Alone = min(p.Alone, p.w.Ops[id].Dur())
		}
	}
	c := &p.w.Collectives[row]
	held := float64(p.pl.Channels(c)) / p.pl.Machine.GPU.CUs.Value
	p.Early = held*float64(p.shape.times[0][Forward]) < float64(p.Alone)
	if size := p.Bytes * int64(p.micros) / int64(p.shape.micros); size != p.Bytes {
		if whole := p.pl.TimeOf(c, p.Bytes); whole > 0 {
			p.Alone = trace.Time(float64(p.Alone) * float64(p.pl.TimeOf(c, size)) / float64(whole))
		}
		p.Bytes = size
	}
}

// hold counts the activations of the micro-batches between forward and backward, on the rank with
// most, and in DualPipe the parameters of a second stage.
func (p *Plan) hold(twice bool) {
	captured, now, parameters, m := 0.0, 0.0, 0.0, &p.pl.Memory
	sized := true
	for rank := range p.w.World {
		x := &p.rounds[0][rank]
		if !p.forwardOnly {
			bytes, all := p.pl.Saved(x.chunks[Forward][0], x.chunks[Backward][0])
			if !all { // the input of a stage is kept at least
				bytes, sized = max(bytes, p.Bytes*int64(p.shape.micros)/int64(p.micros)), false
				m.Lack("activations of unknown size")
			}
			captured = max(captured, float64(bytes)*float64(x.InFlight()))
			now = max(now, float64(bytes)*float64(p.Orders[0][rank].InFlight())*float64(p.micros)/float64(p.shape.micros*p.shape.groups))
		}
		held := 0.0
		for _, id := range x.chunks[Forward][0] {
			if s := p.w.Ops[id].Shape; s.Kind == workload.GEMM {
				held += float64(s.N*s.K*max(1, s.Groups)) * float64(s.ElemSize)
			}
		}
		parameters = max(parameters, held)
	}
	if !sized { // fewer of them are less memory, but not how much
		now = max(now, captured)
	}
	if twice {
		now += parameters
		m.Lack("gradients and states of the optimizer of a second stage, and its parameters that no GEMM reads")
	}
	m.Bytes += int64(now - captured)
}
