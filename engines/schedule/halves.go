package schedule

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// PyTorch makes the halves of a backward by calls of their own (stage_backward_input and
// stage_backward_weight in torch/distributed/pipelining/_backward.py, 2.11). The first half follows the
// graph in Python to find where each parameter's gradient leaves it, and keeps the gradients there. The
// second adds these up, a kernel each even for one (sum() begins at 0), and calls autograd once for each
// group of parameters. Stage 0 has no gradients of inputs to make: its backward is whole, in the second half.
//
//	whole   |dX1|dW1|dX2|dW2|
//	halves  |dX1|dX2|  ...  |sum|dW1|sum|dW2|

// inputsHost is the host's time for the first half over that for the whole. For the second the host issues the kernels that
// the whole has too, and calls autograd for each group of parameters: that takes as long as groupCalls launch calls, for what
// adds up and for another thread that takes over and hands back, and searchCalls more for each group of the stage, since autograd
// looks through the rest of the graph in each. Runs of stages of one to eight layers, nn.TransformerEncoderLayer (7 groups a
// layer) and Llama's (9), on the host of one H200 without a profiler (torch 2.11, 2026-11-29): inputsHost 0.8 to 1.2, the
// second halves, of 1.7 to 19 ms in the mean, as here within 12 %, of one layer within 20 %.
const (
	inputsHost  = 0.95
	groupCalls  = 29.0
	searchCalls = 0.2
)

// groupsHost is the host's time to call autograd for so many groups of parameters of a stage, ns.
func (p *pipelinePlan) groupsHost(rank, groups int) trace.Time {
	call := 1e9 * p.pl.Machine.Launch.Call.Or(0)
	if rank < len(p.w.Calls) && p.w.Calls[rank] > 0 {
		call = float64(p.w.Calls[rank])
	}
	return trace.Time(call*float64(groups)*(groupCalls+searchCalls*float64(groups))) + p.slowly(rank, groups, call)
}

// callHalves adds what the calls take to the planned halves (rule W21).
func (p *pipelinePlan) callHalves() {
	sum := func(ids []int32) (total trace.Time) {
		for _, id := range ids {
			total += p.Issues[id]
		}
		return total
	}
	host, device := make([]trace.Time, p.w.World), make([]trace.Time, p.w.World) // of the first iteration
	for at, list := range p.pieces {
		if at.Part == forwardPart || at.Part == backwardPart && !at.Split || len(list) == 0 || p.stage[at.rank]+at.Group == 0 {
			continue
		}
		longer := trace.Time(0) // than it issues the kernels that the whole has too
		if at.Part == weights {
			list = p.addUp(list)
			p.pieces[at] = list
			groups := 0
			for _, x := range list {
				if x.Added {
					groups++
				}
				if x.Added && at.round == 0 {
					device[at.rank] += x.Part.Alone
				}
			}
			longer = p.groupsHost(at.rank, groups)
		}
		at.Micro = at.Micro * p.micros / p.shape.micros // of the captured one that it is a part of
		if at.Part == backwardPart {
			whole := at
			whole.Split = false
			longer = max(0, trace.Time(inputsHost*float64(sum(p.ids[whole])))-sum(p.ids[at]))
		}
		if list[0].Host = longer; at.round == 0 {
			host[at.rank] += list[0].Host
		}
	}
	if longest := slices.Max(host); longest > 0 {
		why := fmt.Sprintf("PyTorch's calls for the halves of backward take a host %.1f ms of an iteration, "+
			"as on another host with other models, and a device %.1f ms", float64(longest)/1e6, float64(slices.Max(device))/1e6)
		p.pl.NeverRun(why)
		p.pl.Note("%s", why)
	}
}

// callWhole shortens the host's time for captured halves that are planned as whole backwards: what PyTorch's calls for
// them take is gone, as callHalves has it.
func (p *pipelinePlan) callWhole() {
	shares := p.issueShares()
	for round := range p.rounds {
		for rank := range p.rounds[round] {
			x := &p.rounds[round][rank]
			for c, second := range x.chunks {
				if c.Part != weights || p.stage[rank]+c.Group == 0 {
					continue
				}
				inputs := x.chunks[pipelineChunk{Part: backwardPart, Micro: c.Micro, Group: c.Group}]
				first, issued := trace.Time(0), trace.Time(0)
				for _, id := range inputs {
					first += p.Issues[id]
				}
				whole := slices.DeleteFunc(slices.Concat(inputs, second), func(id int32) bool { return x.sums[id] })
				for _, id := range whole {
					issued += p.Issues[id]
				}
				for _, id := range whole {
					shares[id] *= min(1, float64(first)/inputsHost/float64(max(1, issued)))
					p.Issues[id] = trace.Time(shares[id] * float64(p.Issues[id]))
				}
			}
		}
	}
}

// issueShares are the planner's, which a plan may change.
func (p *pipelinePlan) issueShares() []float64 {
	if p.pl.IssueShares == nil {
		p.pl.IssueShares = slices.Repeat([]float64{1}, len(p.Issues))
	}
	return p.pl.IssueShares
}

// addUp puts the sums of the gradients that it reads in front of each group of parameters: of rows x M for weights of
// M x N, which a product of K rows makes, and of rows x N for the N parameters of a norm or a lone bias.
func (p *pipelinePlan) addUp(list []pipelinePiece) (all []pipelinePiece) {
	rows := int64(0)
	for _, x := range list {
		if makesWeights(x) {
			rows = max(rows, x.Part.Shape.K)
		}
	}
	for len(list) > 0 {
		n := slices.IndexFunc(list, func(x pipelinePiece) bool { return x.Op.Gradient })
		for n >= 0 && n < len(list) && list[n].Op.Gradient {
			n++
		}
		if n < 0 {
			n = len(list)
		}
		group, last := list[:n], list[n-1]
		if s := last.Part.Shape; last.Op.Gradient && s.Kind == workload.Elementwise && !slices.ContainsFunc(group, makesWeights) {
			all = append(all, p.sum(last, rows, s.M*s.N, s.ElemSize))
		}
		for _, x := range group {
			if s := x.Part.Shape; makesWeights(x) {
				all = append(all, p.sum(x, rows, s.M, s.ElemSize))
			}
			all = append(all, x)
		}
		list = list[n:]
	}
	return all
}

// makesWeights reports whether a piece of a second half is a product that makes a gradient of weights.
func makesWeights(x pipelinePiece) bool { return x.Op.Matrix() && x.Part.Shape.Kind == workload.GEMM }

// sum is the kernel that adds up a gradient of so many rows, in front of a piece.
func (p *pipelinePlan) sum(x pipelinePiece, rows, columns int64, size int) pipelinePiece {
	return p.added(x, fmt.Sprintf("sum of one gradient of %d x %d", rows, columns), rows, columns, size)
}

// added is a kernel that was not captured and reads and writes elements of so many bytes, beside a piece.
func (p *pipelinePlan) added(x pipelinePiece, name string, rows, columns int64, size int) pipelinePiece {
	part, bytes := *x.Part, float64(rows*columns)*float64(size)
	part.Kernel = &workload.Kernel{
		Name: name, Moves: true,
		Shape:  workload.Shape{Kind: workload.Elementwise, M: rows, N: columns, ElemSize: size},
		Tiling: workload.Tiling{WGs: p.pl.Sweep("", bytes, bytes).WGs}, Footprint: plan.SweepFootprint,
	}
	part.Gradient, part.Read, part.Write = false, bytes, bytes
	part.Alone = p.pl.Sweep(part.Name, bytes, bytes).Each[0].Time
	return pipelinePiece{Op: x.Op, Part: &part, Of: 1, By: 1, Added: true}
}
