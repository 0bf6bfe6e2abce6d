package schedule

import (
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Bulk runs producer, collective and consumer one after another, the baseline of
// every paper.
var Bulk = plan.Strategy{
	Name:    "bulk",
	From:    "all",
	Summary: "compute, then communicate, then compute: nothing overlaps",
	Params: []plan.Param{
		plan.ChannelsParam,
		{
			Name: "algorithm", Default: "library", Experimental: true, Replaces: true, Choices: append([]string{"library"}, machine.Algorithms...), Doc: "of the collectives that have it; library: as captured",
			Work: "a collective kernel: the library has no such algorithm for this operation",
			Ways: []plan.Way{
				{With: "algorithm=ring", Ops: plan.OnlySums, Effort: plan.ByFlag, Library: plan.Library, Version: "2.24", Line: "NCCL_ALGO=allreduce:ring", Note: "NCCL_ALGO=Ring, for every operation, before 2.24"},
				{With: "algorithm=ring", Ops: []trace.CollectiveOp{trace.AllGather, trace.ReduceScatter}, Effort: plan.ByFlag, Library: plan.Library, Line: "NCCL_ALGO=Ring", Note: "holds for every operation"},
				{With: "algorithm=tree", Ops: plan.OnlySums, Effort: plan.ByFlag, Library: plan.Library, Version: "2.24", Line: "NCCL_ALGO=allreduce:tree", Note: "Tree for every operation fails where an operation has none"},
				{With: "algorithm=nvls", Ops: []trace.CollectiveOp{trace.AllReduce}, Effort: plan.ByFlag, Library: plan.Library, Version: "2.24", Line: "NCCL_ALGO=allreduce:nvls,nvlstree", Note: "the default where the switch adds"},
				{With: "algorithm=pairwise", Ops: []trace.CollectiveOp{trace.AllToAll}, Effort: plan.ByFlag, Library: plan.Library, Note: "its all-to-all sends pairwise: nothing to set"},
			},
		},
		{
			Name: "protocol", Default: "library", Experimental: true, Replaces: true, Choices: append([]string{"library"}, machine.Protocols...), Doc: "the same of the library's protocols",
			Ways: []plan.Way{
				{With: "protocol=ll", Effort: plan.ByFlag, Library: plan.Library, Line: "NCCL_PROTO=LL", Note: "holds for every operation"},
				{With: "protocol=ll128", Effort: plan.ByFlag, Library: plan.Library, Line: "NCCL_PROTO=LL128", Note: "holds for every operation; only over links that keep 128 bytes together"},
				{With: "protocol=simple", Effort: plan.ByFlag, Library: plan.Library, Line: "NCCL_PROTO=Simple", Note: "holds for every operation"},
			},
		},
		{
			Name: "programs", Default: "0", Doc: "persistent workgroups of kernels that have them; 0: as captured", Measured: []string{plan.AnyNumber},
			Ways: []plan.Way{{Effort: plan.ByCode, Library: "Triton", Note: "launch the persistent kernel with a grid of %programs"}},
		},
		bucketParam,
		keepParam.Ran("captured", "off"),
		plan.CarrierParams[0], plan.CarrierParams[1],
		plan.GraphParam.Ran(plan.AsCaptured, "on"),
	},
	Plain: true,
	Ways: []plan.Way{{
		Effort: plan.ByCode, Library: "PyTorch", Says: "turn the overlap off", Note: "wait for each collective where it is issued (async_op=False), with communication on the stream of compute",
	}, {
		Effort: plan.ByFlag, Library: trace.XLA, Says: "turn the overlap off",
		Line: "XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=false",
		Note: "--xla_gpu_disable_async_collectives=allreduce,allgather,reducescatter,alltoall,collectivepermute,collectivebroadcast " +
			"also keeps them on the stream of compute",
	}},
	Rows: map[string]string{"comm_priority": ""}, // nothing runs beside a collective
	Rebuild: func(w *workload.Workload, m machine.Machine, v plan.Values, sc plan.Scenario) *workload.Workload {
		return plan.Undecomposed(w, m, sc, v.Int("channels"))
	},
	Plan: func(pl *plan.Planner, v plan.Values) (plan.Emitter, error) {
		pl.AlgoProto = machine.AlgoProto{Algorithm: unlessLibrary(v["algorithm"]), Protocol: unlessLibrary(v["protocol"])}
		why, others := "no pair of computation and a collective was found", len(pl.Pairs)
		pl.Take(func(p *workload.Pair) bool {
			if !plan.WithCollective(p) {
				return false
			}
			no := pl.Machine.Library.Refuses(pl.Workload.Collectives[p.Collective].Op, pl.Machine.Fabric.Topology, pl.AlgoProto)
			if no != "" {
				why = no
			}
			return no == ""
		})
		if pl.AlgoProto != (machine.AlgoProto{}) && len(pl.Pairs) == 0 {
			return nil, &plan.NotApplicable{Strategy: "bulk", Why: why}
		}
		if why := pl.SetCarrier(v); why != "" {
			return nil, &plan.NotApplicable{Strategy: "bulk", Why: why}
		}
		pl.Graph = v["graph"] == "on"
		if pl.Only == nil {
			if !pl.OnlyPairs() {
				pl.Pairs = pl.Pairs[:others] // it schedules all collectives
			}
			return nil, planStep(pl, "bulk", stepOptions{values: v, serial: true})
		}
		if name := ofStep(v); name != "" {
			return nil, &plan.NotApplicable{Strategy: "bulk", Why: name + " changes the whole step, not some of its pairs"}
		}
		return func(r *plan.Rank, p *plan.Pair) { r.WriteInSequence(p, v.Int("channels"), v.Int("programs")) }, nil // the rest stays as captured
	},
}

func unlessLibrary(word string) string {
	if word == "library" {
		return ""
	}
	return word
}
