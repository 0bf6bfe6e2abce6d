package plan

import "github.com/overlapse/overlapse/trace"

// Collectives that NCCL and RCCL run on channels of their own, and those made of sends and
// receives, which have other channels (NCCL 2.28, src/graph/paths.cc; NVIDIA/nccl issue 1598).
var (
	ringOps     = []trace.CollectiveOp{trace.AllReduce, trace.AllGather, trace.ReduceScatter, trace.Broadcast, trace.Reduce}
	sendOps     = []trace.CollectiveOp{trace.AllToAll, trace.SendRecv, trace.Gather, trace.Scatter}
	copyOps     = []trace.CollectiveOp{trace.AllGather, trace.AllToAll, trace.Gather, trace.Scatter}
	OnlyGathers = []trace.CollectiveOp{trace.AllGather}
	OnlySums    = []trace.CollectiveOp{trace.AllReduce}
)

// everyCommunicator is what to heed about variables of a library.
const everyCommunicator = "holds for every communicator of the process"

// The parameters that several strategies have.
var (
	ChannelsParam = Param{
		Name: "channels", Default: "0", Doc: "workgroups of each collective; 0: as captured",
		Tune: []int{2, 4, 8, 16, 24, 32}, Measured: []string{AnyNumber}, Costs: "fewer leave compute units to compute and move fewer bytes a second",
		Work: "a collective kernel with that many workgroups",
		Ways: []Way{
			{Ops: ringOps, Vendor: NVIDIA, Change: -1, Effort: ByFlag, Library: "NCCL", Version: "2.17", Line: "NCCL_MAX_CTAS=%channels", Note: everyCommunicator + "; NCCL_MAX_NCHANNELS before 2.17"},
			{Ops: ringOps, Vendor: NVIDIA, Change: 1, Effort: ByFlag, Library: "NCCL", Version: "2.17", Line: "NCCL_MIN_CTAS=%channels", Note: everyCommunicator + ", as far as the library allows; NCCL_MIN_NCHANNELS before 2.17"},
			{Ops: ringOps, Vendor: NVIDIA, Effort: ByCode, Library: "PyTorch", Version: "2.1", Line: "options = torch.distributed.ProcessGroupNCCL.Options()\noptions.config.min_ctas = options.config.max_ctas = %channels\ngroup = torch.distributed.new_group(pg_options=options)", Note: "instead of the variable: for one process group"},
			{Ops: sendOps, Vendor: NVIDIA, Change: -1, Effort: ByFlag, Library: "NCCL", Line: "NCCL_MAX_P2P_NCHANNELS=%channels", Note: everyCommunicator + "; the library takes a power of two"},
			{Ops: sendOps, Vendor: NVIDIA, Change: 1, Effort: ByFlag, Library: "NCCL", Line: "NCCL_MIN_P2P_NCHANNELS=%channels", Note: everyCommunicator + "; the library takes a power of two"},
			{Ops: ringOps, Vendor: AMD, Change: -1, Effort: ByFlag, Library: "RCCL", Line: "NCCL_MAX_NCHANNELS=%channels", Note: everyCommunicator + "; NCCL_MAX_CTAS and max_ctas are ignored before June 2026 (ROCm/rocm-systems 7604)"},
			{Ops: ringOps, Vendor: AMD, Change: 1, Effort: ByFlag, Library: "RCCL", Line: "NCCL_MIN_NCHANNELS=%channels", Note: everyCommunicator + "; more than 64 are ignored with fewer than 8 GPUs"},
			{Ops: sendOps, Vendor: AMD, Change: -1, Effort: ByFlag, Library: "RCCL", Line: "NCCL_MAX_P2P_NCHANNELS=%channels", Note: everyCommunicator + "; within a node older versions double it (ROCm/rocm-systems 10718)"},
			{Ops: sendOps, Vendor: AMD, Change: 1, Effort: ByFlag, Library: "RCCL", Line: "NCCL_MIN_P2P_NCHANNELS=%channels", Note: everyCommunicator},
		},
	}
	PriorityParam = Param{
		Name: "priority", Default: "off", Choices: []string{"off", "on"}, Doc: "communication stream first among waiting workgroups", Measured: []string{"off", "on"},
		Ways: []Way{
			{Effort: ByFlag, Library: "PyTorch", Version: "2.2", Line: "TORCH_NCCL_HIGH_PRIORITY=1", Note: "holds for every process group"},
			{Effort: ByCode, Library: "PyTorch", Version: "1.8", Line: "options = torch.distributed.ProcessGroupNCCL.Options(is_high_priority_stream=True)\ngroup = torch.distributed.new_group(pg_options=options)", Note: "instead of the variable: for one process group"},
		},
	}
	GraphParam = Param{
		Name: "graph", Default: "off", Choices: []string{"off", "on"}, Doc: "launched by a captured graph: the host costs nothing", Keep: true,
		Costs: "shapes and addresses must not change between iterations",
		Ways: []Way{
			{Effort: ByCode, Library: "PyTorch", Version: "1.10", Line: "graph = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(graph):\n    step(static_input)\n# each iteration: static_input.copy_(batch); graph.replay()", Note: "step and static_input are yours: an iteration, and a tensor that stays in its place"},
		},
	}
	CarrierParam = Param{
		Name: "carrier", Default: AsCaptured, Choices: Carriers, Keep: true, Ops: copyOps,
		Doc:   "what moves the bytes of collectives: workgroups on compute units, or copy engines, for all-gathers and all-to-alls within a node",
		Costs: "dma needs registered buffers, and takes memory bandwidth instead of compute units",
		Work:  "a collective of asynchronous copies to each peer, on streams of their own",
		Ways: []Way{
			{With: "carrier=dma", Vendor: NVIDIA, Effort: ByCode, Library: "NCCL", Version: "2.28", Line: "NCCL_CTA_POLICY=2", Note: "the zero-CTA policy; buffers must be symmetric windows (ncclCommWindowRegister, torch.distributed._symmetric_memory)"},
			{With: "carrier=dma", Vendor: AMD, Effort: ByCode, Library: "RCCL", Version: "ROCm 7.12", Line: "NCCL_CTA_POLICY=2", Note: "the zero-CTA policy; buffers must be symmetric windows, and NCCL_CUMEM_ENABLE=1"},
			{With: "carrier=cu", Effort: ByFlag, Library: Library, Version: "2.27", Line: "NCCL_CTA_POLICY=0"},
		},
	}
)
