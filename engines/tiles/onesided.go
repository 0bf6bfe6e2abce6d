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
	From:    "Triton-distributed, PyTorch symmetric memory",
	Saves:   "copy engines and stores move the bytes without the library's protocol and channels",
	Summary: "shards move alongside the GEMM, signals tell which have arrived",
	Params: []plan.Param{
		{
			Name: "impl", Default: "auto", Choices: []string{"auto", "pull", "push", "ring", "store", "oneshot", "twoshot", "ll", "ll128", "multimem"}, Doc: "who moves the data, from where",
			Measured: []string{"auto", "pull", "oneshot", "twoshot"}, Ways: implWays, Work: "signals, copies or stores of that kernel",
		},
		{
			Name: "gemm", Default: "auto", Choices: []string{"auto", "whole", "chunks"}, For: "impl=" + pipelined, Doc: "whole: one kernel whose tiles wait for and post signals; chunks: as in PyTorch, one launch per shard, alternating between two streams; auto: chunks of captured kernels where PyTorch has that operator, else whole",
			Measured: []string{"auto", "chunks"}, Ways: slices.Concat(chunksWays, wholeWays), Work: pipelineWork,
		},
		{Name: "swizzle", Default: "auto", Choices: []string{"auto", "switch", "mesh"}, Doc: "order of tiles and copies; auto: the topology's", Work: "the order of tiles in that kernel"},
		{Name: "blocks", Default: "0", Doc: "workgroups of the communication kernel; 0: as many as fill the links, 16 that add the rows of experts, or one a rank for low latency", Work: "the grid of the communication kernel"},
		{
			Name: "norm", Default: "apart", Experimental: true, Choices: []string{"apart", "inside"}, For: "impl=oneshot|twoshot", Doc: "the norm behind an all-reduce: a kernel of its own, or part of the all-reduce's",
			Ways: []plan.Way{
				{With: "norm=inside", Vendor: plan.NVIDIA, Effort: plan.ByFlag, Library: plan.VLLM, Version: "0.13", Line: "--compilation-config '{\"pass_config\": {\"fuse_allreduce_rms\": true}}'", Note: "FlashInfer's kernel, for batches that fit its buffer"},
				{With: "norm=inside", Vendor: plan.NVIDIA, Effort: plan.ByFlag, Library: plan.SGLang, Line: "--flashinfer-allreduce-fusion-backend auto", Note: "--enable-flashinfer-allreduce-fusion in older versions"},
				{With: "norm=inside", Vendor: plan.AMD, Effort: plan.ByFlag, Library: plan.SGLang, Line: "--enable-aiter-allreduce-fusion"},
			},
			Work: "an all-reduce kernel that normalises what it has added",
		},
		plan.GraphParam,
	},
	Rebuild:    withNorms,
	Inside:     true,
	Replaces:   true,
	DependsOn:  []string{"engines.count", "fabric.egress", "engines.rate", "engines.latency"},
	Plan:       planOnesided,
	Ways:       slices.Concat(chunksWays, implWays, wholeWays),
	Work:       pipelineWork,
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
const pipelined = "auto|pull|push|ring|store"

const pipelineWork = "a GEMM that waits for, or posts, signals by tile, beside copies to symmetric memory"

// What there is, for operations on GPUs of one node unless the note says otherwise.
var (
	scattered  = []trace.CollectiveOp{trace.ReduceScatter}
	chunksOps  = []trace.CollectiveOp{trace.AllGather, trace.ReduceScatter}
	chunksWays = append(
		bothVendors(plan.Way{
			With: "impl=auto|pull gemm=auto|chunks", Ops: chunksOps, Effort: plan.ByFlag, Library: "PyTorch inductor",
			Line: "import torch._inductor.config\nfrom torch.distributed._symmetric_memory import enable_symm_mem_for_group\nenable_symm_mem_for_group(group.group_name)\ntorch._inductor.config._micro_pipeline_tp = True\nmodel = torch.compile(model)",
			Note: "group is that of tensor parallelism; rewrites all-gather with matrix multiplication and matrix multiplication with reduce-scatter, nothing else",
		}),
		plan.Way{
			With: "impl=auto|pull gemm=auto|chunks", Ops: chunksOps, Vendor: plan.NVIDIA, Effort: plan.ByFlag, Library: plan.VLLM, Version: "0.13",
			Line: "--compilation-config '{\"pass_config\": {\"fuse_gemm_comms\": true}}'", Note: "enable_async_tp from 0.9.1 on; read in the log that it stays on: it goes off with sequence parallelism",
		})
	implWays = slices.Concat(
		bothVendors(plan.Way{
			With: "impl=oneshot", Ops: plan.OnlySums, Effort: plan.ByCode, Library: "PyTorch", Note: "make the buffer once; PyTorch's own all-reduce takes it up to 256 KiB, and two-shot up to 10 MiB",
			Line: symmetricBuffer + "out = torch.ops.symm_mem.one_shot_all_reduce(buffer, \"sum\", group.group_name)",
		}),
		bothVendors(plan.Way{
			With: "impl=twoshot", Ops: plan.OnlySums, Effort: plan.ByCode, Library: "PyTorch", Note: "make the buffer once, and copy the result out of it",
			Line: symmetricBuffer + "torch.ops.symm_mem.two_shot_all_reduce_(buffer, \"sum\", group.group_name)",
		}),
		[]plan.Way{
			{With: "impl=oneshot|twoshot", Ops: plan.OnlySums, Effort: plan.ByFlag, Library: plan.VLLM, Note: "on by default within a node; do not set --disable-custom-all-reduce"},
			{With: "impl=oneshot|twoshot", Ops: plan.OnlySums, Effort: plan.ByFlag, Library: plan.SGLang, Note: "on by default within a node; do not set --disable-custom-all-reduce"},
			{With: "impl=twoshot", Ops: plan.OnlySums, Vendor: plan.AMD, Effort: plan.ByFlag, Library: plan.VLLM, Line: "VLLM_ROCM_QUICK_REDUCE_QUANTIZATION=FP", Note: "quick reduce, from 2 MiB on two GPUs and 16 MiB on eight (bfloat16); INT8, INT6 and INT4 send fewer bytes and round"},
			{With: "impl=multimem", Ops: plan.OnlySums, Vendor: plan.NVIDIA, Effort: plan.ByFlag, Library: plan.VLLM, Line: "VLLM_ALLREDUCE_USE_SYMM_MEM=1", Note: "multimem or two-shot kernels, by the number of ranks"},
			{With: "impl=multimem", Ops: plan.OnlySums, Vendor: plan.NVIDIA, Effort: plan.ByFlag, Library: plan.SGLang, Line: "--enable-torch-symm-mem", Note: "multimem or two-shot kernels, by the number of ranks"},
			{With: "impl=multimem", Ops: plan.OnlySums, Vendor: plan.NVIDIA, Effort: plan.ByCode, Library: "PyTorch", Line: symmetricBuffer + "torch.ops.symm_mem.multimem_all_reduce_(buffer, \"sum\", group.group_name)"},
			{With: "impl=ll|ll128", Ops: plan.OnlyGathers, Vendor: plan.NVIDIA, Effort: plan.ThirdParty, Library: "Triton-distributed", Note: "low_latency_allgather.py, for small messages: its buffers hold 32 MiB of data; needs NVSHMEM"},
			{With: "impl=ll", Ops: []trace.CollectiveOp{trace.AllToAll}, Vendor: plan.NVIDIA, Effort: plan.ThirdParty, Library: "DeepEP", Note: "low_latency_dispatch and low_latency_combine of a mixture of experts, for fewer than 256 tokens a rank; needs NVSHMEM and RDMA"},
			{With: "impl=multimem", Ops: plan.OnlyGathers, Vendor: plan.NVIDIA, Effort: plan.ByCode, Library: "PyTorch", Line: "torch.ops.symm_mem.multimem_all_gather_out(buffer, group.group_name, out)", Note: "out is of torch.distributed._symmetric_memory.empty; needs NVLink switches that replicate"},
		})
	wholeWays = []plan.Way{
		{With: "impl=auto|pull gemm=whole", Ops: plan.OnlyGathers, Vendor: plan.NVIDIA, Effort: plan.ThirdParty, Library: "FLUX", Note: "all-gather by copy engines, and a GEMM that waits for them (test/python/ag_gemm)"},
		{With: "impl=" + pipelined + " gemm=whole", Ops: plan.OnlyGathers, Vendor: plan.NVIDIA, Effort: plan.ThirdParty, Library: "Triton-distributed", Note: "allgather_gemm.py; allgather_group_gemm.py for experts; needs NVSHMEM"},
		{With: "impl=" + pipelined + " gemm=whole", Ops: scattered, Vendor: plan.NVIDIA, Effort: plan.ThirdParty, Library: "Triton-distributed", Note: "gemm_reduce_scatter.py; needs NVSHMEM"},
	}
)

// symmetricBuffer are lines that have a matrix multiplication write into memory that peers read.
const symmetricBuffer = "from torch.distributed import _symmetric_memory as symm_mem\n" +
	"buffer = symm_mem.empty(shape, dtype=dtype, device=device)\nsymm_mem.rendezvous(buffer, group)\ntorch.mm(a, b, out=buffer)\n"

// bothVendors is a way by PyTorch's symmetric memory, which works on ROCm since 2.9.
func bothVendors(w plan.Way) []plan.Way {
	nvidia, amd := w, w
	nvidia.Vendor, nvidia.Version = plan.NVIDIA, "2.6"
	amd.Vendor, amd.Version = plan.AMD, "2.9"
	return []plan.Way{nvidia, amd}
}

func planOnesided(pl *plan.Planner, v plan.Values) (plan.Emitter, error) {
	if why := pl.NoLinks(); why != "" && pl.Machine.Nodes() == 1 {
		return nil, &plan.NotApplicable{Strategy: "onesided", Why: why}
	}
	gathers := slices.ContainsFunc(pl.Workload.Collectives, func(c workload.Collective) bool { return c.Op == trace.AllGather && c.Bytes > 0 })
	sums := slices.ContainsFunc(pl.Workload.Collectives, func(c workload.Collective) bool { return c.Op == trace.AllReduce })
	switch _, ok := protocols[v["impl"]]; {
	case v["impl"] == "oneshot", v["impl"] == "twoshot", v["impl"] == "multimem" && sums && !gathers:
		return planAllReduce(pl, v)
	case ok:
		return planLowLatency(pl, v)
	}
	t, from := newOperator(pl, v), len(pl.Pairs)
	if t.gemm == "chunks" && t.impl != "auto" && t.impl != "pull" {
		return nil, &plan.NotApplicable{Strategy: "onesided", Why: "gemm=chunks is for copy engines that read: impl=pull"}
	}
	if err := pl.Serve("onesided", "no all-gather or all-to-all before a GEMM and no reduce-scatter or all-to-all behind one was found (all-reduces: impl=oneshot)", t.pipelines); err != nil {
		return nil, err
	}
	pl.Staged(from) // symmetric memory that peers read or write
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
	}, nil
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
		if t.impl == "ring" && op == trace.AllToAll {
			return false, "impl=ring hands on what all ranks need: all-gathers, not all-to-alls"
		}
	case p.Direction == workload.ComputeThenCollective && (op == trace.ReduceScatter || op == trace.AllToAll):
		if t.impl == "ring" {
			return false, "impl=ring is for what a GEMM reads, not for what it makes"
		}
	default:
		return false, ""
	}
	if why := t.acrossNodes(p); why != "" {
		return false, why
	}
	if compute.Tiling.Tiles < len(p.First) {
		return false, fmt.Sprintf("%s has no known tiles, or fewer than ranks", trace.Short(compute.Name))
	}
	if p.Experts > 1 {
		return t.servesExperts(p)
	}
	why = t.pl.NotByTile(p)
	return why == "", why
}
