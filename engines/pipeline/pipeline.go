// Package pipeline plans the schedule of a pipeline anew: GPipe, 1F1B, interleaved, zero bubble
// and DualPipe, from the forward and backward chunks of a capture, with their messages beside
// compute (rules W18 to W20).
//
//	reading.go  which rank has which stage, and what each micro-batch consists of
//	order.go    the order in which every rank runs them
//	write.go    the program
package pipeline

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Schedules are the values of the setting; the first leaves the step as it is.
var Schedules = []string{"captured", "gpipe", "1f1b", "interleaved", "zb", "zb2", "dualpipe"}

// Write has the planner write a step's pipeline in another schedule, with so many micro-batches
// (0: as captured) and, interleaved, groups of layers on each rank. The work of the step
// stays: fewer micro-batches are larger ones. It returns the reason why it cannot, or "".
func Write(pl *plan.Planner, schedule string, micros, groups int) string {
	rd, why := read(pl.Workload)
	if why != "" {
		return why
	}
	if micros == 0 {
		micros = rd.micros
	}
	if micros%rd.micros != 0 && rd.micros%micros != 0 {
		return fmt.Sprintf("microbatches=%d is no multiple and no part of the %d that were captured", micros, rd.micros)
	}
	s := shape{stages: len(rd.ranks[0]), micros: micros, groups: 1, forwardOnly: rd.forwardOnly}
	if schedule == "interleaved" {
		s.groups = groups
	}
	wr := &writer{reading: rd, pl: pl, shape: &s, schedule: schedule, lists: map[listKey][]piece{}, messagesOf: map[messageKey]*message{}, indexes: map[pieceKey]int{}}
	if why := wr.list(); why != "" {
		return why
	}
	orders, why := s.orders(schedule)
	if why != "" {
		return why
	}
	wr.orders = orders
	wr.flags()
	wr.hold()
	pl.ChangesOnly = func(c *workload.Collective) bool { return c.Op == trace.SendRecv }
	if schedule == "dualpipe" {
		pl.Note("dualpipe: every rank has the parameters of two stages, twice those of the captured pipeline")
	}
	if schedule == "zb2" {
		pl.Note("zb2: an iteration begins on a rank when it has ended there: no collective of all stages may end a step (the norm of gradients)")
	}
	if micros < rd.micros {
		pl.Note("microbatches=%d: a larger micro-batch takes the time of the %d smaller ones that were captured, at most", micros, rd.micros/micros)
	}
	wr.write()
	return ""
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

// hold counts the activations of the micro-batches between forward and backward, on the rank with
// most, and in DualPipe the parameters of a second stage.
func (wr *writer) hold() {
	captured, now, parameters, sized := 0.0, 0.0, 0.0, true
	for rank := range wr.w.World {
		x := &wr.rounds[0][rank]
		if !wr.reading.forwardOnly {
			bytes, all := wr.pl.Saved(x.chunks[forward][0], x.chunks[backward][0])
			if !all { // the input of a stage is kept at least
				bytes, sized = max(bytes, wr.bytes), false
				wr.pl.Memory.Lack("activations of unknown size")
			}
			captured = max(captured, float64(bytes)*float64(x.inFlight()))
			now = max(now, float64(bytes)*float64(wr.orders[wr.stage[rank]].inFlight())*float64(wr.reading.micros)/float64(wr.shape.micros*wr.shape.groups))
		}
		held := 0.0
		for _, id := range x.chunks[forward][0] {
			if s := wr.w.Ops[id].Shape; s.Kind == workload.GEMM {
				held += float64(s.N*s.K*max(1, s.Groups)) * float64(s.ElemSize)
			}
		}
		parameters = max(parameters, held)
	}
	if !sized { // fewer of them are less memory, but not how much
		now = max(now, captured)
	}
	if wr.schedule == "dualpipe" {
		now += parameters
		wr.pl.Memory.Lack("gradients and states of the optimizer of a second stage, and its parameters that no GEMM reads")
	}
	wr.pl.Memory.Bytes += int64(now - captured)
}

// timesOf are those of a stage's parts of one micro-batch, by rank of the first pipeline.
func (wr *writer) timesOf(stage int) (times [3]trace.Time) {
	for k := range times {
		for _, p := range wr.lists[listKey{0, wr.ranks[0][stage], chunk{part: part(k), split: part(k) == backward}}] {
			times[k] += p.op.DurAlone() / trace.Time(p.of)
		}
	}
	return times
}
