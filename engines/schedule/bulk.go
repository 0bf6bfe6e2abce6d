// Package schedule holds the strategies that leave operations whole and choose
// the stream, the order and the resources they run with: captured, bulk, ideal
// and multistream.
package schedule

import (
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// Bulk runs producer, collective and consumer one after another, the baseline of
// every paper (rule B4).
var Bulk = plan.Strategy{
	Name:    "bulk",
	From:    "all",
	Summary: "compute, then communicate, then compute: nothing overlaps",
	Detail: "Nothing runs alongside a collective: each starts when its data is ready and the compute before it has ended, " +
		"and compute continues when it has ended, whatever the capture overlapped. Collectives hold one workgroup a channel on every rank from the arrival of the first rank to the " +
		"departure of the last, as the library's kernels do. Another algorithm or protocol scales the captured time by what " +
		"the library's own tuner expects of it over what it would choose (good to 10 or 20 %), sends to the peers that it " +
		"sends to, and twice the bytes with ll, 128 for 120 with ll128; pairs whose collective has no such algorithm stay as captured.",
	Params: []plan.Param{
		{Name: "channels", Default: "0", Doc: "workgroups of each collective; 0: as captured"},
		{Name: "algorithm", Default: "library", Choices: append([]string{"library"}, machine.Algorithms...), Doc: "of the collectives that have it; library: as captured"},
		{Name: "protocol", Default: "library", Choices: append([]string{"library"}, machine.Protocols...), Doc: "the same of the library's protocols"},
		{Name: "programs", Default: "0", Doc: "persistent workgroups of kernels that have them; 0: as captured"},
		bucketParam,
		keepParam,
		plan.CarrierParam,
		{Name: "graph", Default: "off", Choices: []string{"off", "on"}, Doc: "launched by a captured graph: the host costs nothing"},
	},
	Plain: true,
	Rebuild: func(w *workload.Workload, m machine.Machine, v plan.Values, sc plan.Scenario) *workload.Workload {
		return plan.Undecomposed(w, m, sc, v.Int("channels"))
	},
	Plan: func(pl *plan.Planner, v plan.Values) (plan.Emitter, error) {
		pl.AlgoProto = machine.AlgoProto{Algorithm: unlessLibrary(v["algorithm"]), Protocol: unlessLibrary(v["protocol"])}
		why := "no collective was found"
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
		if why := pl.SetCarrier(v["carrier"]); why != "" {
			return nil, &plan.NotApplicable{Strategy: "bulk", Why: why}
		}
		pl.Graph = v["graph"] == "on"
		if name := ofStep(v); name != "" {
			if pl.Only != nil {
				return nil, &plan.NotApplicable{Strategy: "bulk", Why: name + " changes the whole step, not some of its pairs"}
			}
			pl.Pairs, pl.First, pl.Replaced = nil, map[int32]int{}, map[int32]bool{}
			return nil, planStep(pl, "bulk", stepOptions{values: v, serial: true})
		}
		if len(pl.Pairs) == 0 && pl.Workload.Unprofiled && pl.Only == nil { // operations of pairs are issued at the profile's pace
			pl.IssueAhead(pl.CapturedHostOrder())
		}
		if pl.Only == nil { // else it is kept to some pairs, and the rest stays as captured
			oneAtATime(pl, v.Int("channels"), v.Int("programs"))
		}
		return func(r *plan.Rank, p *plan.Pair) { r.WriteInSequence(p, v.Int("channels"), v.Int("programs")) }, nil
	},
}

func unlessLibrary(word string) string {
	if word == "library" {
		return ""
	}
	return word
}

// oneAtATime has every rank write its operations in a serial schedule: those of
// pairs as the library would run them, the others as captured.
func oneAtATime(pl *plan.Planner, channels, programs int) {
	pl.Order = plan.SerialOrder(pl.Workload)
	pl.EndedBefore, pl.BusyAt = plan.TimeOrder(pl.Workload)
	pl.Serial = true
	of := pairOf(pl)
	pl.WriteOp = func(r *plan.Rank, op *workload.Op) {
		i, ok := of[op.ID]
		switch {
		case ok:
			inPair(r, &pl.Pairs[i], op, channels, programs)
		case pl.Replaced[op.ID]:
			return // a fill that its kernel writes
		default:
			r.WriteSerial(op)
		}
		r.Separation.Wrote(r, op)
	}
}

// pairOf is the pair in which an operation is written, by op.
func pairOf(pl *plan.Planner) map[int32]int {
	of := map[int32]int{}
	for i := range pl.Pairs {
		p := &pl.Pairs[i]
		for _, ids := range slices.Concat([][]int32{p.First, p.Second}, p.Between) {
			for _, id := range ids {
				of[id] = i
			}
		}
	}
	return of
}

// inPair writes one operation of a pair of which the others are written in their own turn.
func inPair(r *plan.Rank, p *plan.Pair, op *workload.Op, channels, programs int) {
	first, second := r.Ops(p)
	if op == first {
		r.BeginPair(p)
	}
	r.WriteOp(p, op, channels, programs)
	if op == second {
		r.EndPair(p)
	}
}
