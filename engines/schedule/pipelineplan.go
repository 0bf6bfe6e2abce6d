package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Pipelines
//
// A pipelinePlan is one of the schedules of a pipeline: GPipe, 1F1B, interleaved and zero bubble, of the
// forward and backward chunks of a capture (rules W18 to W21).
//
//	reading.go  which rank has which stage, and what each micro-batch consists of
//	samples.go  kernels that run only with one, or only with several samples in a micro-batch
//	halves.go   what making gradients of weights apart takes; handover.go, what waking autograd's thread does
//	order.go    the order in which every rank runs them

// pipelineSchedules are the values of the setting; the first leaves the step as it is.
var pipelineSchedules = []string{"captured", "gpipe", "1f1b", "interleaved", "zb"}

// A pipelinePlan is a schedule of a captured pipeline.
type pipelinePlan struct {
	*reading
	Orders  []microBatchOrder // by rank
	Early   bool              // receives are posted a step ahead: that takes compute less than a message lasts
	Bytes   int64             // of a message
	Alone   trace.Time
	Hosts   []trace.Time // by rank, to issue a message: the median captured one's; 0: unknown
	Issues  []trace.Time // by op: the host's time to issue it as captured, each time that it is issued; 0: unknown
	Same    bool         // the captured schedule: nothing changes
	inTurns bool         // see Posts
	halves  bool         // PyTorch makes gradients of weights by calls of their own (halves.go)
	shape   shape
	pl      *plan.Planner
	ids     map[place][]int32 // of captured micro-batches
	pieces  map[place][]pipelinePiece
	without map[int32]bool // by op: captured ones that the planned micro-batches do not run
	wakes   []wakes        // by rank
	more    samplesKernels // that the planned micro-batches run, and captured ones do not
}

// A place is a chunk of an iteration with the layers of a rank.
type place struct {
	round, rank int
	pipelineChunk
}

// A pipelinePiece is an operation of a chunk. Of > 1: it is the k-th of so many equal parts of the captured
// one; By > 1: one in place of so many captured ones. Part is the operation with that size, a
// collective's apart.
type pipelinePiece struct {
	Op, Part  *workload.Op
	K, Of, By int
	Added     bool       // a kernel that was not captured, in front of Op
	Host      trace.Time // that the host takes longer to issue it than captured, ns
}

// newPipeline plans a pipeline with so many micro-batches (0: as captured) and, interleaved or without
// bubbles, groups of layers on each rank (0: as captured, and two where that is one, as programs of PyTorch's
// schedules have them). The work of the step stays: fewer micro-batches are larger ones. It returns the reason why it
// cannot, or "".
func newPipeline(pl *plan.Planner, schedule string, micros, groups int) (p *pipelinePlan, why string) {
	rd, why := read(pl.Workload)
	if why != "" {
		return nil, why
	}
	micros = cmp.Or(micros, rd.micros)
	if micros%rd.micros != 0 && rd.micros%micros != 0 {
		return nil, fmt.Sprintf("microbatches=%d is no multiple and no part of the %d that were captured", micros, rd.micros)
	}
	switch {
	case !inGroups(schedule):
		groups = 1
	case groups == 0:
		groups = max(2, rd.groups)
	}
	p = &pipelinePlan{
		reading: rd, pl: pl, ids: map[place][]int32{}, pieces: map[place][]pipelinePiece{}, Issues: make([]trace.Time, len(rd.w.Ops)),
		shape:  shape{stages: len(rd.ranks[0]), micros: micros, groups: groups, forwardOnly: rd.forwardOnly},
		halves: schedule == "zb" && (!rd.splits || rd.groups != groups),
	}
	for rank, ids := range rd.w.Ranks {
		for i, cost := range pl.IssueCosts(rank) {
			p.Issues[ids[i]] = cost
		}
	}
	for rank := range rd.w.World {
		p.wakes = append(p.wakes, rd.wakesOf(rank))
	}
	if samples := rd.samples(); samples > 1 && int64(micros) == samples*int64(rd.micros) {
		p.leaveOut(samples)
	} else if samples == 1 && micros < rd.micros {
		p.more = rd.onlyForMore()
	}
	if rd.splits && (schedule != "zb" || p.halves) {
		p.callWhole()
	}
	if why := p.cut(schedule == "zb"); why != "" {
		return nil, why
	}
	orders, why := p.shape.orders(schedule)
	if why != "" {
		return nil, why
	}
	for _, stage := range rd.stage {
		p.Orders = append(p.Orders, orders[stage])
	}
	if p.Same = p.isCaptured(); p.Same {
		return p, ""
	}
	p.message()
	p.handOver()
	p.Hosts = p.messageHosts()
	p.inTurns = inGroups(schedule)
	p.hold()
	pl.ChangesOnly = func(c *workload.Collective) bool { return c.Op == trace.SendRecv }
	return p, ""
}

// isCaptured reports whether the plan is the captured schedule.
func (p *pipelinePlan) isCaptured() bool {
	if p.shape.micros != p.micros || p.shape.groups != p.groups {
		return false
	}
	for round := range p.rounds {
		for rank := range p.rounds[round] {
			if !slices.Equal(p.Orders[rank], p.rounds[round][rank].microBatchOrder) {
				return false
			}
		}
	}
	return true
}

// Settings are those of the schedules that a capture's pipeline may have, then the same with more
// micro-batches; without a pipeline that can be planned anew, then those of ofKinds.
func Settings(w *workload.Workload) (list, more []string) {
	rd, why := read(w)
	if why != "" {
		return nil, ofKinds(w)
	}
	for _, schedule := range pipelineSchedules[1:] {
		list = append(list, "schedule="+schedule)
		for _, by := range []int{2, 4} {
			more = append(more, fmt.Sprintf("schedule=%s:microbatches=%d", schedule, by*rd.micros))
		}
	}
	return list, more
}

// cut makes the pieces of all chunks. It returns the reason why it cannot, or "".
func (p *pipelinePlan) cut(splits bool) string {
	parts := []part{forwardPart, backwardPart}
	if p.forwardOnly {
		parts = parts[:1]
	}
	for round := range p.rounds {
		for rank := range p.rounds[round] {
			for micro := range p.micros {
				for _, k := range parts {
					if why := p.cutChunk(round, rank, micro, k, splits); why != "" {
						return why
					}
				}
			}
		}
	}
	for at := range p.ids {
		if at.Micro == 0 {
			p.take(at)
		}
	}
	if p.halves {
		p.callHalves()
	}
	return ""
}

// cutChunk divides a part of a captured micro-batch into the planned groups of layers and, of
// backward, into gradients of inputs and of weights.
func (p *pipelinePlan) cutChunk(round, rank, micro int, k part, splits bool) string {
	x := &p.rounds[round][rank]
	order := p.groupsOf(k)
	var groups, ahead [][]int32 // in the order in which data pass
	if p.groups == p.shape.groups {
		for _, g := range order {
			groups, ahead = append(groups, x.of(k, micro, g)), append(ahead, x.of(forwardPart, micro, g))
		}
	} else {
		var why string
		if groups, why = p.divideLayers(x.of(k, micro, order...), p.shape.groups); why != "" {
			return why
		}
		ahead = slices.Repeat([][]int32{x.of(forwardPart, micro, p.groupsOf(forwardPart)...)}, len(groups))
	}
	for i, ids := range groups {
		c := pipelineChunk{Part: k, Micro: micro, Group: i}
		if k == backwardPart {
			c.Group = len(groups) - 1 - i
		}
		p.ids[place{round, rank, c}] = ids
		if k != backwardPart || !splits {
			continue
		}
		inputs, grads := x.chunks[c], x.chunks[pipelineChunk{Part: weights, Micro: micro, Group: c.Group}]
		if !p.splits || p.groups != p.shape.groups {
			var why string
			if inputs, grads, why = p.split(ids, ahead[i]); why != "" {
				return why
			}
			if p.halves && p.stage[rank]+c.Group == 0 { // nothing reads the gradients of the first stage's inputs
				inputs, grads = nil, ids
			}
		}
		c.Split = true
		p.ids[place{round, rank, c}] = inputs
		p.ids[place{round, rank, pipelineChunk{Part: weights, Micro: micro, Group: c.Group}}] = grads
	}
	return ""
}

// take makes the pieces of a chunk of every planned micro-batch: of the captured one that it is a
// part of, or of several that it replaces. Gradients of weights are added once for every
// micro-batch but the first, which has nothing to add to, at the same size whatever its rows.
func (p *pipelinePlan) take(at place) {
	of, by := max(1, p.shape.micros/p.micros), max(1, p.micros/p.shape.micros)
	captured := func(micro int) []int32 {
		at := at
		at.Micro = micro
		if len(p.without) == 0 {
			return p.ids[at]
		}
		return slices.DeleteFunc(slices.Clone(p.ids[at]), func(id int32) bool { return p.without[id] })
	}
	var late map[int32]bool
	for micro := range p.shape.micros {
		at.Micro = micro
		k, first := micro%of, micro*by/of
		ids := captured(first)
		if k > 0 && first == 0 && p.micros > 1 { // not the first
			ids = p.addGradients(ids, captured(1))
		}
		if of*by > 1 && at.Part != forwardPart {
			forward := p.rounds[at.round][at.rank].of(forwardPart, 0, p.groupsOf(forwardPart)...)
			late, _ = p.sumsOverRows(ids, forward)
		}
		var others [][]int32
		for i := 1; i < by; i++ {
			others = append(others, captured(first+i))
		}
		if joined := p.join(ids, others, late); joined != nil {
			p.pieces[at] = p.forSamples(joined, int64(by))
			continue
		}
		for _, ids := range append([][]int32{ids}, others...) { // one after another
			for _, id := range ids {
				p.pieces[at] = append(p.pieces[at], p.piece([]*workload.Op{&p.w.Ops[id]}, k, of, late[id]))
			}
		}
	}
}

// addGradients is the first micro-batch's chunk with the additions to gradients of the second's, which
// has something to add to; the chunk itself if it runs other kernels.
func (p *pipelinePlan) addGradients(first, second []int32) (list []int32) {
	rest := slices.DeleteFunc(slices.Clone(first), func(id int32) bool { return p.w.Ops[id].Gradient })
	for _, id := range second {
		switch {
		case p.w.Ops[id].Gradient:
			list = append(list, id)
		case len(rest) == 0 || !p.w.Alike(rest[0], id):
			return first
		default:
			list, rest = append(list, rest[0]), rest[1:]
		}
	}
	if len(rest) > 0 {
		return first
	}
	return list
}

// join makes the pieces of a chunk in place of several that run the same kernels; nil: they do not.
// Fills and copies may be fewer: a library's workspace is not always cleared.
func (p *pipelinePlan) join(ids []int32, others [][]int32, late map[int32]bool) (list []pipelinePiece) {
	if len(others) == 0 {
		return nil
	}
	rest := slices.Clone(others)
	skip := func(i int, skips func(*workload.Op) bool) {
		for len(rest[i]) > 0 && skips(&p.w.Ops[rest[i][0]]) {
			rest[i] = rest[i][1:]
		}
	}
	for _, id := range ids {
		ops := []*workload.Op{&p.w.Ops[id]}
		for i := range rest {
			if ops[0].Gradient {
				break
			}
			if skip(i, func(op *workload.Op) bool { return op.Gradient }); ops[0].Kind != trace.Copy {
				skip(i, func(op *workload.Op) bool { return op.Gradient || op.Kind == trace.Copy })
			}
			switch alike := len(rest[i]) > 0 && p.w.Alike(id, rest[i][0]); {
			case alike:
				ops, rest[i] = append(ops, &p.w.Ops[rest[i][0]]), rest[i][1:]
			case ops[0].Kind != trace.Copy:
				return nil
			}
		}
		list = append(list, p.piece(ops, 0, 1, late[id]))
	}
	for i := range rest {
		if skip(i, func(op *workload.Op) bool { return op.Gradient || op.Kind == trace.Copy }); len(rest[i]) > 0 {
			return nil
		}
	}
	return list
}

// piece is the k-th of so many parts of an operation, or one in place of several. late: it sums over
// the rows of a micro-batch.
func (p *pipelinePlan) piece(ops []*workload.Op, k, of int, late bool) pipelinePiece {
	x := pipelinePiece{Op: ops[0], Part: ops[0], K: k, Of: of, By: len(ops)}
	if of*len(ops) == 1 || x.Op.Gradient || x.Op.Collective >= 0 {
		return x
	}
	part := p.pl.Laws().Kernel(ops, cost.Part{K: k, Of: of, Depth: late}).Op
	x.Part = &part
	return x
}

// hold counts the activations of the micro-batches between forward and backward, on the rank with most.
func (p *pipelinePlan) hold() {
	captured, now, m := 0.0, 0.0, &p.pl.Memory
	sized := true
	if p.forwardOnly {
		return
	}
	for rank := range p.w.World {
		x := &p.rounds[0][rank]
		bytes, all := p.pl.Saved(x.of(forwardPart, 0, p.groupsOf(forwardPart)...), x.of(backwardPart, 0, p.groupsOf(backwardPart)...))
		if !all { // the input of a stage is kept at least
			bytes, sized = max(bytes, p.Bytes*int64(p.shape.micros)/int64(p.micros)), false
			m.Lack("activations of unknown size")
		}
		captured = max(captured, float64(bytes)*float64(x.inFlight())/float64(p.groups))
		now = max(now, float64(bytes)*float64(p.Orders[rank].inFlight())*float64(p.micros)/float64(p.shape.micros*p.shape.groups))
	}
	if !sized { // fewer of them are less memory, but not how much
		now = max(now, captured)
	}
	m.Bytes += int64(now - captured)
}
