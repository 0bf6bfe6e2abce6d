package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Multistream runs collectives alongside compute: in a loop that of one iteration alongside
// the next (rules W6 to W9), in a step each as early as its data allow (rules W10, W11, W13 and W14).
var Multistream = plan.Strategy{
	Name:    "multistream",
	Plainly: "earlier collectives",
	From:    "resource-aware overlap; DDP, FSDP2",
	Summary: "collectives on streams of their own, as early as their data and the settings allow",
	Params: []plan.Param{
		plan.ChannelsParam, kindParams[0], kindParams[1],
		plan.PriorityParam,
		bucketParam,
		{
			Name: "prefetch", Default: "0", Experimental: true, Doc: "steps: parameters gathered ahead of those in use; 0: as captured, or as fully_shard does",
			Ops: plan.OnlyGathers, Costs: "the memory of one more block each",
		},
		keepParam, scatterGroupParam,
		{
			Name: "interleave", Default: "0", Doc: "steps: independent chains of an iteration, as micro-batches, that alternate on the compute stream; a step of inference that is one chain is split into so many batches; 0: as captured",
			Tune: []int{2}, Measured: []string{"0", "2"}, Costs: "smaller operations, and the activations of all chains", WaysSuffice: true,
		},
		{
			Name: "schedule", Default: pipelineSchedules[0], Choices: pipelineSchedules, Keep: true, Ops: []trace.CollectiveOp{trace.SendRecv},
			Doc:   "pipelines: order of the micro-batches on each stage, with messages beside compute; zb is zero bubble with the memory of 1f1b",
			Costs: "gpipe: activations of all micro-batches; interleaved: more messages", WaysSuffice: true,
			Measured: []string{"captured", "gpipe", "1f1b", "interleaved", "zb"},
		},
		{
			Name: "microbatches", Default: "0", Keep: true, Most: 1 << 12, For: "schedule=" + strings.Join(pipelineSchedules[1:], "|"), Ops: []trace.CollectiveOp{trace.SendRecv},
			Doc: "pipelines: micro-batches that the batch of a step is divided into; 0: as captured", Costs: "smaller operations",
			Measured: []string{plan.AnyNumber},
		},
		{
			Name: "groups", Default: "0", Experimental: true, Most: 64, For: "schedule=interleaved|zb", Ops: []trace.CollectiveOp{trace.SendRecv},
			Doc: "pipelines: groups of layers on each rank (virtual stages); 0: as captured, and two of interleaved and zb where the capture has one",
		},
		plan.GraphParam.Untried(),
		measured(plan.CarrierParams[0], "symmetric"), measured(plan.CarrierParams[1], plan.AsCaptured, "symmetric"),
		copiesParam,
		{
			Name: "buffers", Default: "0", Doc: "loops: outputs in flight: compute waits for the collective this many iterations back (1: nothing overlaps, 2: double buffering); 0: as many as needed",
			Tune: []int{2}, Costs: "memory of that many outputs",
		},
		{
			Name: "lds", Default: "0", Doc: "KiB of shared memory that each workgroup of compute requests; 0: as captured", Measured: []string{plan.AnyNumber},
		},
		{
			Name: "blocks", Default: "0", Doc: "workgroups of compute, looping over its tiles; 0: as captured", Measured: []string{plan.AnyNumber},
		},
		{
			Name: "carve", Default: "0", Doc: "compute units that compute leaves to the collective", Costs: "compute on fewer units",
		},
	},
	// Compute is first in line anyway: the workgroups of a GEMM wait before those of the collective that follows it.
	Rows:      map[string]string{"comm_priority": "priority=on", "compute_priority": "priority=off"},
	Loop:      true,
	DependsOn: []string{"launch.event"},
	Rebuild: func(w *workload.Workload, m machine.Machine, v plan.Values) *workload.Workload {
		if moved := withCopies(w, &m, v["copies"]); moved != w {
			return moved
		}
		n := v.Int("interleave")
		if n < 2 || n > mostBatches || w.Trains() || tooFewTokens(w, n) != "" || !w.Serves() && chainsOf(w) > 1 {
			return w
		}
		return edit.Batch(w, m, 1, 1, n)
	},
	Plan: planMultistream,
}

// measured is a parameter that was also run with these values on hardware, under this strategy.
func measured(p plan.Param, values ...string) plan.Param {
	p.Measured, p.Experimental = append(slices.Clone(p.Measured), values...), false
	return p
}

// tooFewTokens is the reason why an iteration cannot be split into n batches; "" if it can.
func tooFewTokens(w *workload.Workload, n int) string {
	for _, s := range w.Steps {
		if s.Batch.Tokens > 0 && s.Batch.Tokens < int64(n) {
			return fmt.Sprintf("interleave=%d: an iteration of %d %s has no %[1]d batches", n, s.Batch.Tokens, plural(int(s.Batch.Tokens), "token", "tokens"))
		}
	}
	return ""
}

// mostBatches is more than any engine splits a batch into.
const mostBatches = 8

// ofStep returns the first setting given that only schedules of whole steps have, or "".
func ofStep(v plan.Values) string {
	for _, name := range []string{"bucket_mb", "prefetch", "interleave"} {
		if v.Int(name) > 0 {
			return name
		}
	}
	if keep := v["keep_gathered"]; keep != "" && keep != "captured" {
		return "keep_gathered"
	}
	return ""
}

func planMultistream(pl *plan.Planner, v plan.Values) (emit plan.Emitter, why string) {
	pl.Take(func(p *workload.Pair) bool {
		return p.Direction == workload.ComputeThenCollective && p.Collective >= 0
	})
	if why := pl.SetCarrier(v); why != "" {
		return nil, why
	}
	if how := v["copies"]; how != plan.AsCaptured && how != "" {
		return nil, planCopies(pl, v)
	}
	if schedule := v["schedule"]; schedule != pipelineSchedules[0] && schedule != "" {
		pl.Pairs = nil
		if name := ofStep(v); name != "" {
			return nil, name + " and a schedule of a pipeline are not planned together"
		}
		p, why := newPipeline(pl, schedule, v.Int("microbatches"), v.Int("groups"))
		if why != "" {
			return nil, why
		}
		if p.Same {
			p = nil
		}
		return nil, planStep(pl, stepOptions{values: v, keep: true, pipe: p})
	}
	pl.Graph = v["graph"] == "on"
	if why := independent(pl); why != "" {
		if pl.Only != nil {
			return nil, why
		}
		if v.Int("buffers") > 0 {
			return nil, "buffers is for loops of one compute kernel and its collective: " + why
		}
		pl.Pairs = nil
		return nil, planStep(pl, stepOptions{values: v})
	}
	if name := ofStep(v); name != "" {
		return nil, name + " is for steps, and this trace is a loop of one compute kernel and its collective"
	}
	o := occupancyOf(v)
	for _, p := range pl.Pairs {
		for _, id := range p.First {
			if why := o.refuses(pl, &pl.Workload.Ops[id]); why != "" {
				return nil, why
			}
		}
	}
	if n := v.Int("buffers"); n != 1 { // outputs that wait for their collective
		pl.Stage(&workload.Collective{Bytes: int64(max(1, n-1)) * slices.MaxFunc(pl.Pairs, func(a, b plan.Pair) int { return cmp.Compare(a.Coll.Bytes, b.Coll.Bytes) }).Coll.Bytes})
		if n == 0 {
			pl.Memory.Lack("more than two outputs in flight")
		}
	}
	for i := range pl.Pairs {
		o.note(pl, &pl.Pairs[i], v)
	}
	return nil, planStep(pl, stepOptions{values: v, loop: true})
}

// independent says why iterations cannot overlap, or nothing. They can where
// each is one pair, so that nothing within it consumes the collective's output.
func independent(pl *plan.Planner) string {
	of, n := workload.IterationsOf(pl.Workload)
	switch {
	case len(pl.Pairs) == 0:
		return "no compute kernel followed by a collective was found"
	case len(pl.Pairs) < 2:
		return "a single pair has no next iteration to run alongside"
	case pl.Workload.Trains():
		return "an iteration is a training step, and the next one needs its gradients"
	case n == 0:
		return "iterations are not marked in the trace, so nothing says that they are independent"
	}
	for i := 1; i < len(pl.Pairs); i++ {
		if of[pl.Pairs[i].First[0]] == of[pl.Pairs[i-1].First[0]] {
			return "an iteration holds several pairs, and later compute in it consumes earlier collectives"
		}
	}
	return ""
}
