package schedule

import (
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
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
		},
		{
			Name: "protocol", Default: "library", Experimental: true, Replaces: true, Choices: append([]string{"library"}, machine.Protocols...), Doc: "the same of the library's protocols",
		},
		{
			Name: "programs", Default: "0", Doc: "persistent workgroups of kernels that have them; 0: as captured", Measured: []string{plan.AnyNumber},
		},
		bucketParam,
		keepParam.Ran("captured", "off"),
		plan.CarrierParams[0], plan.CarrierParams[1],
		plan.GraphParam.Ran(plan.AsCaptured, "on"),
	},
	Kind: plan.Plain,
	Rows: map[string]string{"comm_priority": ""}, // nothing runs beside a collective
	Rebuild: func(w *workload.Workload, m machine.Machine, v plan.Values) *workload.Workload {
		return edit.Undecomposed(w, m, v.Int("channels"))
	},
	Plan: func(pl *plan.Planner, v plan.Values) (emit plan.Emitter, why string) {
		pl.AlgoProto = machine.AlgoProto{Algorithm: unlessLibrary(v["algorithm"]), Protocol: unlessLibrary(v["protocol"])}
		none, others := "no pair of computation and a collective was found", len(pl.Pairs)
		pl.Take(func(p *workload.Pair) bool {
			if !plan.WithCollective(p) {
				return false
			}
			no := pl.Machine.Library.Refuses(pl.Workload.Collectives[p.Collective].Op, pl.Machine.Fabric.Topology, pl.AlgoProto)
			if no != "" {
				none = no
			}
			return no == ""
		})
		if pl.AlgoProto != (machine.AlgoProto{}) && len(pl.Pairs) == 0 {
			return nil, none
		}
		if why := pl.SetCarrier(v); why != "" {
			return nil, why
		}
		pl.Graph, pl.Programs = v["graph"] == "on", v.Int("programs")
		if pl.Only == nil {
			if !pl.OnlyPairs() {
				pl.Pairs = pl.Pairs[:others] // it schedules all collectives
			}
			return nil, planStep(pl, stepOptions{values: v, serial: true})
		}
		if name := ofStep(v); name != "" {
			return nil, name + " changes the whole step, not some of its pairs"
		}
		pl.Channels = v.Int("channels")
		return nil, ""
	},
}

func unlessLibrary(word string) string {
	if word == "library" {
		return ""
	}
	return word
}
