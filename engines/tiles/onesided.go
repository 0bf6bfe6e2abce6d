package tiles

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Strategy onesided
//
// Onesided overlaps compute with copies, stores and signals to symmetric
// memory of other ranks (Triton-distributed).

// Onesided moves shards alongside a GEMM; signals in peer memory tell which have arrived
// (Triton-distributed, rules O1, O4, O5, O8, O9, O10, O11, O12, O14 and O15).
//
//	all-gather + GEMM, switch        GEMM + reduce-scatter, switch
//	engine |from 1|from 2|from 3|       compute |for 1|for 2|for 3|own|
//	compute|own|from 1|from 2|from 3|   engine        |to 1 |to 2 |to 3 |own|
//	                                    compute                             |sum|
var Onesided = plan.Strategy{
	Name:    "onesided",
	Plainly: "one-sided transfers",
	From:    "Triton-distributed, PyTorch symmetric memory",
	Saves:   "copy engines and stores move the bytes without the library's protocol and channels",
	Summary: "shards move alongside the GEMM, signals tell which have arrived",
	Params: []plan.Param{
		{
			Name: "impl", Default: "auto", Choices: []string{"auto", "pull", "push", "store", "oneshot", "twoshot", "ll", "multimem"},
			Doc:      "who moves the data, from where",
			Measured: []string{"auto", "pull", "oneshot", "twoshot"},
		},
		{
			Name: "gemm", Default: "auto", Choices: []string{"auto", "whole", "chunks"}, For: "impl=" + pipelined, Doc: "whole: one kernel whose tiles wait for and post signals; chunks: as in PyTorch, one launch per shard, alternating between two streams; auto: chunks of captured kernels where PyTorch has that operator, else whole",
			Measured: []string{"auto", "chunks"},
		},
		{
			Name: "swizzle", Default: "auto", Choices: []string{"auto", "switch", "mesh"},
			Doc: "order of tiles and copies; auto: the topology's",
		},
		{Name: "blocks", Default: "0", Doc: "workgroups of the communication kernel; 0: as many as fill the links, 16 that add the rows of experts, or one a rank for low latency"},
		{
			Name: "norm", Default: "apart", Experimental: true, Choices: []string{"apart", "inside"}, For: "impl=oneshot|twoshot",
			Doc: "the norm behind an all-reduce: a kernel of its own, or part of the all-reduce's",
		},
		plan.GraphParam,
	},
	Rebuild:    withNorms,
	Inside:     true,
	Replaces:   true,
	DependsOn:  []string{"engines.count", "fabric.egress", "engines.rate", "engines.latency"},
	Plan:       planOnesided,
	MeasuredOn: []trace.CollectiveOp{trace.AllGather, trace.ReduceScatter, trace.AllReduce},
	Rows: map[string]string{
		"impl=torch_fused_all_gather_matmul":     "impl=pull:gemm=chunks", // a library call a shard
		"impl=torch_fused_matmul_reduce_scatter": "impl=pull:gemm=chunks",
		"impl=torch_async_tp":                    "impl=pull:gemm=chunks",
		"impl=one_shot_all_reduce":               "impl=oneshot",
		"impl=two_shot_all_reduce":               "impl=twoshot",
	},
}

// pipelined are the values of impl that make one pipeline of a GEMM and a collective.
const pipelined = "auto|pull|push|store"

// chunksOps are the collectives whose pipelines PyTorch has.
var chunksOps = []trace.CollectiveOp{trace.AllGather, trace.ReduceScatter}

func planOnesided(pl *plan.Planner, v plan.Values) (emit plan.Emitter, why string) {
	if why := noLinks(pl); why != "" && pl.Machine.Nodes() == 1 {
		return nil, why
	}
	gathers := slices.ContainsFunc(pl.Workload.Collectives, func(c workload.Collective) bool {
		return c.Op == trace.AllGather &&
			c.Bytes > 0
	})
	sums := slices.ContainsFunc(pl.Workload.Collectives, func(c workload.Collective) bool { return c.Op == trace.AllReduce })
	switch impl := v["impl"]; {
	case impl == "oneshot", impl == "twoshot", impl == "multimem" && sums && !gathers:
		return planAllReduce(pl, v)
	case impl == "ll", impl == "multimem":
		return planLowLatency(pl, v)
	}
	t, from := newOperator(pl, v), len(pl.Pairs)
	if t.gemm == "chunks" && t.impl != "auto" && t.impl != "pull" {
		return nil, "gemm=chunks is for copy engines that read: impl=pull"
	}
	if why := pl.Serve("no all-gather or all-to-all before a GEMM and no reduce-scatter or all-to-all behind one was found (all-reduces: impl=oneshot)", t.pipelines); why != "" {
		return nil, why
	}
	stageFrom(pl, from) // symmetric memory that peers read or write
	pl.Graph = v["graph"] == "on"
	for i := range pl.Pairs {
		if p := &pl.Pairs[i]; t.gemm == "auto" && !t.inChunks(p) {
			pl.NeverRun("gemm=whole was never run on hardware")
		}
	}
	return func(r *plan.Rank, p *plan.Pair) {
		if t.inChunks(p) {
			t.alternating(r, p)
		} else {
			t.pipeline(r, p)
		}
	}, ""
}

// pipelines reports whether the strategy serves a pair; why is the reason if the operation
// matches but something is missing.
func (t *operator) pipelines(p *workload.Pair) (ok bool, why string) {
	if p.Collective < 0 || len(p.First) < 2 {
		return false, ""
	}
	op := t.pl.Workload.Collectives[p.Collective].Op
	compute := &t.pl.Workload.Ops[p.First[0]]
	behind := p.Direction == workload.CollectiveThenCompute
	switch {
	case behind && (op == trace.AllGather || op == trace.AllToAll):
		compute = &t.pl.Workload.Ops[p.Second[0]]
		if t.impl == "store" {
			return false, "impl=store is for what a GEMM makes, not for what it reads"
		}
	case p.Direction == workload.ComputeThenCollective && (op == trace.ReduceScatter || op == trace.AllToAll):
	default:
		return false, ""
	}
	if why := t.acrossNodes(p); why != "" {
		return false, why
	}
	if compute.Tiling.Tiles < len(p.First) {
		return false, fmt.Sprintf("%s has no known tiles, or fewer than ranks (give its shape)", trace.Short(compute.Name))
	}
	if p.Experts > 1 {
		return t.servesExperts(p)
	}
	why = notByTile(t.pl, p)
	return why == "", why
}
