package schedule

import (
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
)

// Multistream runs collectives alongside compute: in a loop that of one iteration alongside
// the next (rules W6 to W9), in a step each as early as its data allow (rules W10 to W14).
var Multistream = plan.Strategy{
	Name:    "multistream",
	From:    "resource-aware overlap; DDP, FSDP2",
	Summary: "collectives on streams of their own, as early as their data and the settings allow",
	Detail: "In a step, a collective that ran alongside compute when captured keeps its dependencies and its place; others run " +
		"beside whatever does not depend on them: gradients in buckets as backward makes them, parameters gathered ahead, micro-batches " +
		"that alternate. What depends on what comes from an execution trace, from the framework's ranges, or is guessed. " +
		"In a loop of one kernel and one collective, iterations are taken to be independent, as two micro-batches are: the compute of an iteration no longer waits " +
		"for the collective of the one before. The collective becomes ready when the last workgroup of its producer retires, " +
		"the same moment at which the next iteration's first workgroups are eligible; without free compute units it waits " +
		"for that kernel's tail. Priority decides only among workgroups that wait together. What compute leaves free can be " +
		"shaped: lds requests more shared memory per workgroup, so that fewer are resident and a channel may fit alongside them; blocks " +
		"launches fewer workgroups, which loop over the tiles; carve keeps whole compute units for the collective, and gives it no more " +
		"channels than fit there. Shaping has its price: a GEMM on fewer units or with fewer residents takes longer, as " +
		"far as one workgroup alone does not fill a unit's pipes.",
	Params: []plan.Param{
		{Name: "channels", Default: "0", Doc: "workgroups of each collective; 0: as captured"},
		{Name: "priority", Default: "off", Choices: []string{"off", "on"}, Doc: "communication stream first among waiting workgroups"},
		bucketParam,
		{Name: "prefetch", Default: "0", Doc: "parameters gathered ahead of those in use; 0: as captured, or as fully_shard does"},
		keepParam,
		{Name: "interleave", Default: "0", Doc: "independent chains of an iteration, as micro-batches, that alternate on the compute stream; 0: as captured"},
		{Name: "graph", Default: "off", Choices: []string{"off", "on"}, Doc: "launched by a captured graph: the host costs nothing"},
		plan.CarrierParam,
		{Name: "buffers", Default: "0", Doc: "outputs in flight: compute waits for the collective this many iterations back (1: nothing overlaps, 2: double buffering); 0: as many as needed"},
		{Name: "lds", Default: "0", Doc: "KiB of shared memory that each workgroup of compute requests; 0: as captured"},
		{Name: "blocks", Default: "0", Doc: "workgroups of compute, looping over its tiles; 0: as captured"},
		{Name: "carve", Default: "0", Doc: "compute units that compute leaves to the collective"},
	},
	Loop:      true,
	DependsOn: []string{"launch.event"},
	Plan:      planMultistream,
}

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

func planMultistream(pl *plan.Planner, v plan.Values) (plan.Emitter, error) {
	pl.Take(func(p *workload.Pair) bool {
		return p.Direction == workload.ComputeThenCollective && p.Collective >= 0
	})
	if why := pl.SetCarrier(v["carrier"]); why != "" {
		return nil, &plan.NotApplicable{Strategy: "multistream", Why: why}
	}
	refuse := func(why string) error { return &plan.NotApplicable{Strategy: "multistream", Why: why} }
	pl.Graph = v["graph"] == "on"
	if why := independent(pl); why != "" {
		if pl.Only != nil {
			return nil, refuse(why)
		}
		if v.Int("buffers") > 0 {
			return nil, refuse("buffers is for loops of one compute kernel and its collective: " + why)
		}
		pl.Pairs, pl.First, pl.Replaced = nil, map[int32]int{}, map[int32]bool{}
		return nil, planStep(pl, "multistream", stepOptions{values: v})
	}
	if name := ofStep(v); name != "" {
		return nil, refuse(name + " is for steps, and this trace is a loop of one compute kernel and its collective")
	}
	o := occupancyOf(v)
	for _, p := range pl.Pairs {
		for _, id := range p.First {
			if why := o.refuses(pl, &pl.Workload.Ops[id]); why != "" {
				return nil, refuse(why)
			}
		}
	}
	return func(r *plan.Rank, p *plan.Pair) { overlapsNext(r, p, o, v) }, nil
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

func overlapsNext(r *plan.Rank, p *plan.Pair, o occupancy, v plan.Values) {
	compute, comm := r.Ops(p)
	onCompute, onComm := r.Stream(compute.Queue), r.CommStream(compute, comm)
	if v["priority"] == "on" {
		onComm.Priority = 1
	}
	cut := r.Planner.Chunks(p.Coll, 1, o.channels(r.Planner, comm, v.Int("channels")), compute)
	r.BeginPair(p)
	var earlier []*workload.Op
	for i := range p.Index {
		_, c := r.Ops(&r.Planner.Pairs[i])
		earlier = append(earlier, c)
	}
	gap := r.WaitUntilReady(onCompute, compute, r.Dependencies(p, compute), earlier...)
	if back := p.Index - v.Int("buffers"); v.Int("buffers") > 0 && back >= 0 {
		onCompute.Wait(r.Planner.Done[earlier[back].ID], 1, earlier[back].Name)
	}
	onCompute.Launch(r.WriteFills(onCompute, p.FillsBefore[r.ID], gap), plan.LaunchOf(compute, r.Planner.AsLaunched(compute, shaped(r.Planner, compute, o))))
	r.Written(onCompute, compute)
	for _, id := range p.Between[r.ID] {
		r.WriteOp(p, &r.Planner.Workload.Ops[id], 0, 0)
	}
	r.WaitUntilReady(onComm, comm, r.Dependencies(p, comm))
	onComm.Launch(r.Planner.EventGap(comm), plan.LaunchOf(comm, r.Planner.Carried(comm, cut)))
	r.Written(onComm, comm)
	r.EndPair(p)
}
