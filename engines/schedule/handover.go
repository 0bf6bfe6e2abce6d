package schedule

import (
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// Autograd runs backward on a thread of its own: the one that calls it wakes that one, sleeps, and is woken (rule W21). A thread
// that slept for long takes long to run, of which the captured chunks tell:
//
//	program   |F|call|                     |send|
//	autograd         .wake.|dX dW dX dW|.wake.

// A second half hands over twice for each group of parameters, between threads that ran a moment ago. Of the 672 groups of a captured
// zero-bubble schedule on two H200 (torch 2.11), each hand-over took as long as wakeCalls launch calls, but slowWakes of them as
// long as to a thread that slept for long: 0.3 ms there.
const (
	wakeCalls = 10.0
	slowWakes = 0.15
)

// wakes are, of a rank, how long it takes until autograd's thread runs for a chunk of backward, and the program's behind one:
// medians, ns; 0: the capture does not show them.
type wakes struct{ to, back trace.Time }

// wakesOf are those of captured chunks, without halves that make gradients of weights.
func (rd *reading) wakesOf(rank int) wakes {
	if rank >= len(rd.w.Hosts) {
		return wakes{}
	}
	second := rd.ofSecondHalves(rank)
	var to, back []trace.Time
	for at, took := range rd.w.Hosts[rank].Wakes {
		switch op := &rd.w.Ops[rd.w.Ranks[rank][at]]; {
		case second[op.ID]:
		case op.Backward:
			to = append(to, took)
		default:
			back = append(back, took)
		}
	}
	return wakes{overlap.UpperMedian(to), overlap.UpperMedian(back)}
}

// ofSecondHalves are the operations of a rank's captured halves that make gradients of weights.
func (rd *reading) ofSecondHalves(rank int) map[int32]bool {
	second := map[int32]bool{}
	for round := range rd.rounds {
		for c, ids := range rd.rounds[round][rank].chunks {
			for _, id := range ids {
				second[id] = second[id] || c.Part == weights
			}
		}
	}
	return second
}

// slowly is how much longer the hand-overs of so many groups of parameters take than between threads that ran a moment ago.
func (p *pipelinePlan) slowly(rank, groups int, call float64) trace.Time {
	if rank >= len(p.wakes) {
		return 0
	}
	of := p.wakes[rank]
	longer := max(0, float64(of.to)-wakeCalls*call) + max(0, float64(of.back)-wakeCalls*call)
	return trace.Time(slowWakes * longer * float64(groups))
}

// handOver gives every chunk of backward its hand-overs: those to the program's thread were captured with what this issues behind
// it, a message or a chunk of forward.
func (p *pipelinePlan) handOver() {
	shares, woken := p.issueShares(), map[int32]bool{}
	for rank := range min(p.w.World, len(p.w.Hosts)) {
		second := p.ofSecondHalves(rank)
		for at, took := range p.w.Hosts[rank].Wakes {
			op := &p.w.Ops[p.w.Ranks[rank][at]]
			woken[op.ID] = true
			if was := p.Issues[op.ID]; !op.Backward && was > 0 && !second[op.ID] {
				p.Issues[op.ID] = max(min(was, p.w.Calls[rank]), was-took)
				shares[op.ID] *= float64(p.Issues[op.ID]) / float64(was)
			}
		}
	}
	for at, list := range p.pieces {
		whole := at.Part == weights && p.halves && p.stage[at.rank]+at.Group == 0
		if at.Part != backwardPart && !whole || len(list) == 0 {
			continue
		}
		if !woken[list[0].Op.ID] {
			list[0].Host += p.wakes[at.rank].to
		}
		list[len(list)-1].Host += p.wakes[at.rank].back
	}
}
