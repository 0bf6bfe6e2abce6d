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
	Way   int  // dualpipe: 1 for micro-batches that begin at the last rank
	Split bool // backward: without the gradients of weights, which are a chunk of their own
}

// An microBatchOrder is what a rank runs, one after another; two chunks of one step alternate.
type microBatchOrder [][]pipelineChunk

func (o *microBatchOrder) add(c ...pipelineChunk) { *o = append(*o, c) }

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
			o.add(chunk(forwardPart, i))
		}
		if k := i - ahead; k >= 0 && k < all && !s.forwardOnly {
			c := chunk(backwardPart, k)
			c.Split = late >= 0
			o.add(c)
		}
		if k := i - ahead - late; k >= 0 && late >= 0 {
			o.add(chunk(weights, k))
		}
	}
	return o
}

// dualPipe is DeepSeek-V3's order (section 3.2.1 and Table 2; deepseek-ai/DualPipe): micro-batches
// enter at both ends, so that every rank has two stages, and forward of one direction runs with
// backward of the other.
func (s *shape) dualPipe(rank int) (o microBatchOrder) {
	half, fromEnd := s.stages/2, min(rank, s.stages-1-rank)
	outer := half - fromEnd - 1     // ranks between this one and the middle
	next := map[pipelineChunk]int{} // by part and way: the next micro-batch
	var late []pipelineChunk        // gradients of weights that are left for later
	take := func(k part, way int) pipelineChunk {
		c := pipelineChunk{Part: k, Way: way}
		if rank >= half { // its own direction 0 is the one that begins nearer to it
			c.Way = 1 - way
		}
		next[c]++
		c.Micro = next[c] - 1
		return c
	}
	forward := func(way int) { o.add(take(forwardPart, way)) }
	back := func(way int, split bool) {
		b := take(backwardPart, way)
		if b.Split = split; split {
			late = append(late, pipelineChunk{Part: weights, Micro: b.Micro, Way: b.Way})
		}
		o.add(b)
	}
	leftover := func() { o.add(late[0]); late = late[1:] }
	both := func(f, b int) { o.add(take(forwardPart, f), take(backwardPart, b)) }
	for range 2 * outer {
		forward(0)
	}
	for range fromEnd + 1 {
		forward(0)
		forward(1)
	}
	for range outer {
		back(1, true)
		leftover()
		forward(1)
	}
	for i := range s.micros/2 - s.stages + fromEnd + 1 {
		if i == 0 && outer == 0 { // the other end waits for this forward
			forward(0)
			back(1, false)
		} else {
			both(0, 1)
		}
		both(1, 0)
	}
	for range outer {
		back(1, false)
		both(1, 0)
	}
	zero := false
	for i := range fromEnd + 1 {
		for way := 1; way >= 0; way-- {
			zero = zero || i == (fromEnd+1)/2 && fromEnd%2 == way
			back(way, zero)
		}
	}
	for range outer {
		leftover()
		back(0, true)
	}
	for len(late) > 0 {
		leftover()
	}
	return o
}

// orders are those of a schedule, by stage, and the reason why there are none.
func (s *shape) orders(schedule string) (list []microBatchOrder, why string) {
	p, n := s.stages, s.micros
	if s.forwardOnly && (schedule == "zb" || schedule == "dualpipe") {
		return nil, fmt.Sprintf("schedule=%s moves gradients, and the trace has no backward", schedule)
	}
	switch schedule {
	case "interleaved", "zb":
		if s.groups > 1 && n%p != 0 {
			return nil, fmt.Sprintf("schedule=%s runs micro-batches in sets of %d, one for each stage, and there are %d", schedule, p, n)
		}
	case "dualpipe":
		if p%2 != 0 || n%2 != 0 || n < 2*p {
			return nil, fmt.Sprintf("schedule=dualpipe needs an even number of stages and of micro-batches, at least two for each stage: there are %d and %d", p, n)
		}
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
		case "dualpipe":
			list = append(list, s.dualPipe(stage))
		}
	}
	return list, ""
}

// InFlight is the most micro-batches' groups of layers of which a rank holds activations at a
// time: from their forward until their gradients are made.
func (o microBatchOrder) InFlight() (most int) {
	n := 0
	for _, step := range o {
		done := 0
		for _, c := range step {
			switch {
			case c.Part == forwardPart:
				n++
			case c.Part == weights || !c.Split:
				done++
			}
		}
		most = max(most, n)
		n -= done
	}
	return most
}
