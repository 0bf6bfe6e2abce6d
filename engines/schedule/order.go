package schedule

import "fmt"

// The orders of a pipeline's schedules, for p stages and n micro-batches. Stage numbers begin at
// the stage that reads the input.

// A part is what a stage computes for a micro-batch.
type part uint8

// The parts.
const (
	forwardPart part = iota
	backwardPart
	weights // gradients of weights, where backward makes only those of inputs
)

// A pipelineChunk is one part of one micro-batch on one rank.
type pipelineChunk struct {
	Part  part
	Micro int
	Group int  // interleaved: which of the rank's groups of layers, from the input on
	Split bool // backward: without the gradients of weights, which are a chunk of their own
}

// A microBatchOrder is what a rank runs, one after another.
type microBatchOrder []pipelineChunk

// A shape is what orders depend on.
type shape struct {
	stages, micros, groups int
	forwardOnly            bool
}

// inTurn is the order of GPipe, 1F1B and interleaved 1F1B (Megatron-LM, section 2.2): so many chunks
// go forward before the first comes back, then one of each. Micro-batches pass a group of layers in
// sets of as many as there are stages.
func (s *shape) inTurn(ahead int) microBatchOrder { return s.halves(ahead, -1) }

// halves is inTurn where gradients of weights are chunks of their own, each so many chunks of
// backward behind that of its inputs: with as many as the rank's stage ZB-H1 (Zero Bubble Pipeline
// Parallelism, section 2.1), and with several groups of layers PyTorch's
// ScheduleInterleavedZeroBubble. late < 0: none are.
func (s *shape) halves(ahead, late int) (o microBatchOrder) {
	set, v := s.stages, s.groups
	if v < 2 {
		set, v = s.micros, 1
	}
	chunk := func(k part, i int) pipelineChunk {
		c := pipelineChunk{Part: k, Micro: i/(set*v)*set + i%set, Group: i % (set * v) / set}
		if k != forwardPart {
			c.Group = v - 1 - c.Group
		}
		return c
	}
	all := s.micros * v
	for i := range all + max(ahead, 0) + max(late, 0) {
		if i < all {
			o = append(o, chunk(forwardPart, i))
		}
		if k := i - ahead; k >= 0 && k < all && !s.forwardOnly {
			c := chunk(backwardPart, k)
			c.Split = late >= 0
			o = append(o, c)
		}
		if k := i - ahead - late; k >= 0 && late >= 0 {
			o = append(o, chunk(weights, k))
		}
	}
	return o
}

// inGroups reports whether the layers of a rank are in several groups.
func inGroups(schedule string) bool { return schedule == "interleaved" || schedule == "zb" }

// orders are those of a schedule, by stage, and the reason why there are none.
func (s *shape) orders(schedule string) (list []microBatchOrder, why string) {
	p, n := s.stages, s.micros
	switch {
	case s.forwardOnly && schedule == "zb":
		return nil, "schedule=zb moves gradients, and the trace has no backward"
	case inGroups(schedule) && s.groups > 1 && n%p != 0:
		return nil, fmt.Sprintf("schedule=%s runs micro-batches in sets of %d, one for each stage, and there are %d", schedule, p, n)
	}
	for stage := range p {
		switch later := p - 1 - stage; schedule {
		case "gpipe":
			list = append(list, s.inTurn(n-1))
		case "1f1b":
			list = append(list, s.inTurn(min(later, n)))
		case "interleaved":
			list = append(list, s.inTurn(min(2*later+(s.groups-1)*p, n*s.groups)))
		case "zb":
			list = append(list, s.halves(min(later+(s.groups-1)*p, n*s.groups), stage))
		}
	}
	return list, ""
}

// inFlight is the most micro-batches' groups of layers of which a rank holds activations at a
// time: from their forward until their gradients are made.
func (o microBatchOrder) inFlight() (most int) {
	n := 0
	for _, c := range o {
		switch {
		case c.Part == forwardPart:
			n++
			most = max(most, n)
		case c.Part == weights || !c.Split:
			n--
		}
	}
	return most
}
