package plan

import "github.com/overlapse/overlapse/trace"

// CarrierParams are what moves the bytes of collectives that copy, and of those that add.
var CarrierParams = [...]Param{
	{
		Name: "carrier", Default: AsCaptured, Choices: carrierNames, Keep: true, Replaces: true, Ops: copyOps,
		// FSDP2 with NCCL's and with copy-engine gathers; GEMMs with RCCL's all-gathers and with zero-CTA ones (Z-Y00/ROCM-sdma-rccl-test).
		Measured: []string{AsCaptured, ByEngines}, ranOn: []string{"NVIDIA H200", "AMD Instinct MI300X"}, ranWith: OnlyGathers,
		Doc: "what moves the bytes of all-gathers and all-to-alls within a node: workgroups on compute units (cu), copy engines (dma), " +
			"or the few workgroups of NCCL's kernels over symmetric windows (symmetric)",
		Costs: "dma and symmetric need registered buffers; dma takes memory bandwidth instead of compute units",
		Work:  "a collective of asynchronous copies to each peer, on streams of their own",
		Ways: append([]Way{
			{
				With: "carrier=dma", Vendor: NVIDIA, Effort: ByFlag, Library: trace.XLA, Line: symmetricXLA,
				Says: "move collectives by copy engines",
				Note: "NCCL 2.28; XLA then asks for the zero-CTA policy of its asynchronous collectives; " +
					"XLA_PYTHON_CLIENT_MEM_FRACTION must leave room for their buffers",
			},
			{
				With: "carrier=dma", Vendor: NVIDIA, Ops: OnlyGathers, Effort: ByCode, Library: FSDP, Version: "2.12",
				Says: "gather by copy engines",
				Line: zeroCTAs + "\nmesh = init_device_mesh(\"cuda\", (world_size,), mesh_dim_names=(\"dp\",),\n" +
					"    backend_override={\"dp\": (\"nccl\", options)})\n# fully_shard(..., mesh=mesh), then:\n" + symmetricFSDP,
				Note: zeroCTAsNeed + "; torchtitan: NCCL_CTA_POLICY=2 and --parallelism.enable_fsdp_symm_mem; " +
					"before 2.12 set_custom_all_gather with copies from the peers' symmetric memory between two barriers",
			},
			{
				With: "carrier=dma", Vendor: NVIDIA, Ops: OnlyGathers, Effort: ByFlag, Library: Megatron, Line: "--use-nccl-ub",
				Note: "of --use-megatron-fsdp, with --fsdp-double-buffer and NCCL_CTA_POLICY=2 in the environment; " + zeroCTAsNeed,
			},
			{
				With: "carrier=dma", Vendor: NVIDIA, Effort: ByCode, Library: "NCCL", Version: "2.28",
				Says: "set NCCL_CTA_POLICY=2 with symmetric windows",
				Line: "NCCL_CTA_POLICY=2", Note: zeroCTAsAlso,
			},
			{
				With: "carrier=dma", Vendor: NVIDIA, Effort: ByCode, Library: "PyTorch",
				Line: zeroCTAs + "\ngroup = torch.distributed.new_group(pg_options=options)",
				Note: "instead of the variable: for one process group",
			},
			{
				With: "carrier=dma", Vendor: NVIDIA, Native: true, Effort: ByCode, Library: "NCCL", Version: "2.31",
				Says: "use the zero-CTA policy",
				Line: "config.CTAPolicy = NCCL_CTA_POLICY_ZERO;  // ncclCollConfig_t\n" +
					"ncclAllGatherConfig(send, receive, count, type, comm, stream, &config);",
				Note: zeroCTAsAlso,
			},
			{
				With: "carrier=dma", Vendor: AMD, Effort: ByCode, Library: "RCCL", Version: "ROCm 7.12", Line: "NCCL_CTA_POLICY=2",
				Says: "set NCCL_CTA_POLICY=2 with symmetric windows",
				Note: "the zero-CTA policy; buffers must be symmetric windows, and NCCL_CUMEM_ENABLE=1",
			},
			{
				With: "carrier=cu", Ops: OnlyGathers, Effort: ByCode, Library: FSDP, Version: "2.6", Says: "gather by kernels",
				Note: "without set_symm_mem_for_comm, set_custom_all_gather and a zero-CTA policy",
			},
			{With: "carrier=cu", Effort: ByFlag, Library: Library, Version: "2.27", Line: "NCCL_CTA_POLICY=0"},
		}, symmetricWays("carrier=symmetric", OnlyGathers)...),
	},
	{
		Name: "sums", Default: AsCaptured, Choices: sumNames, Replaces: true, Experimental: true, Ops: sumOps,
		Doc: "what moves the bytes of reduce-scatters and all-reduces within a node: copy engines, and a kernel adds behind them (dma), " +
			"or NCCL's kernels over symmetric windows, which add in the switch where it can (symmetric)",
		Costs: "registered buffers; dma: memory for a part from each rank, for an all-reduce for the bytes of each other rank",
		Work:  "copies from each peer between two barriers, and a kernel that adds",
		Ways: append([]Way{
			{
				With: "sums=dma", Vendor: NVIDIA, Ops: sumOps[1:], Effort: ByCode, Library: "PyTorch", Version: "2.5",
				Line: "out = torch.ops.symm_mem._low_contention_reduce_scatter(x, \"sum\", group.group_name)",
				Note: "x in symmetric memory (torch.distributed._symmetric_memory.empty, rendezvous); " +
					"wait with torch.ops._c10d_functional.wait_tensor(out)",
			},
			{
				With: "sums=dma", Vendor: NVIDIA, Ops: sumOps[1:], Effort: ByCode, Library: FSDP, Version: "2.9",
				Note: "set_custom_reduce_scatter of each module, with one that calls torch.ops.symm_mem._low_contention_reduce_scatter",
			},
		}, symmetricWays("sums=symmetric", sumOps)...),
	},
}

// sumOps are the collectives that add.
var sumOps = []trace.CollectiveOp{trace.AllReduce, trace.ReduceScatter}

// Lines and conditions of symmetric windows (NCCL 2.28 src/enqueue.cc, 2.30.6 release notes; pytorch/pytorch 176613 and 188697;
// openxla/xla 26443 and 33613).
const (
	symmetricXLA = "XLA_FLAGS=--xla_gpu_experimental_enable_nccl_symmetric_buffers=true"
	zeroCTAs     = "options = torch.distributed.ProcessGroupNCCL.Options()\n" +
		"options.config.cta_policy = torch.distributed.ProcessGroupNCCL.NCCL_CTA_POLICY_ZERO"
	zeroCTAsNeed = "NCCL 2.28 and " + zeroCTAsAlso
	zeroCTAsAlso = "a driver of CUDA 12.5; within a node before NCCL 2.30.6; what is received must lie in a symmetric " +
		"window (ncclCommWindowRegister, torch.distributed._symmetric_memory), else kernels move it: NCCL_DEBUG=INFO names the Copy Engine"
	symmetricFSDP = "for module in model.modules():\n    if isinstance(module, torch.distributed.fsdp.FSDPModule):\n" +
		"        module.set_symm_mem_for_comm(\"NCCL\")"
)

// symmetricWays are the ways to NCCL's kernels over symmetric windows.
func symmetricWays(setting string, ops []trace.CollectiveOp) []Way {
	return []Way{
		{With: setting, Vendor: NVIDIA, Effort: ByFlag, Library: trace.XLA, Says: "use symmetric memory", Line: symmetricXLA},
		{
			With: setting, Vendor: NVIDIA, Ops: ops, Effort: ByCode, Library: FSDP, Version: "2.12",
			Says: "use symmetric memory", Line: symmetricFSDP,
			Note: "and module.set_force_sum_reduction_for_comms(True); torchtitan: --parallelism.enable_fsdp_symm_mem",
		},
		{
			With: setting, Vendor: NVIDIA, Ops: ops, Effort: ByFlag, Library: Megatron, Line: "--use-nccl-ub",
			Note: "without --disable-symmetric-registration",
		},
		{
			With: setting, Vendor: NVIDIA, Ops: ops, Effort: ByFlag, Library: VLLM, Line: "VLLM_USE_NCCL_SYMM_MEM=1",
			Note: "with NCCL_CUMEM_ENABLE=1",
		},
		{
			With: setting, Vendor: NVIDIA, Ops: ops, Effort: ByCode, Library: "NCCL", Version: "2.27", Says: "register symmetric windows",
			Line: "ncclCommWindowRegister(comm, buffer, size, &window, NCCL_WIN_COLL_SYMMETRIC);",
			Note: "buffers of ncclMemAlloc, at one offset on all ranks; " +
				"PyTorch: torch.distributed._symmetric_memory, set_backend(\"NCCL\")",
		},
	}
}
