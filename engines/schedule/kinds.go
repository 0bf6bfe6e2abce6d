package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// kindParams are the workgroups of collectives of one kind, where they differ from those of all others.
var kindParams = [...]plan.Param{
	channelsOf("gather_channels", "all-gathers", plan.OnlyGathers),
	channelsOf("sum_channels", "reduce-scatters and all-reduces", sums),
}

var sums = []trace.CollectiveOp{trace.ReduceScatter, trace.AllReduce}

// channelsOf is a parameter of the collectives of a kind.
func channelsOf(name, kind string, ops []trace.CollectiveOp) plan.Param {
	return plan.Param{
		Name: name, Default: "0", Experimental: true, Ops: ops,
		Doc:   "steps: workgroups of " + kind + " alone; 0: as channels says",
		Costs: "fewer leave compute units to compute and move fewer bytes a second",
		Work:  "a collective kernel with that many workgroups", Ways: plan.WaysOf(name),
	}
}

// triedChannels are the workgroups of a kind that tuning tries.
var triedChannels = []int{4, 8, 16}

// ofKinds are numbers of workgroups of the gathers and of the sums of a step apart, for a step that has both.
func ofKinds(w *workload.Workload) (settings []string) {
	for _, p := range kindParams {
		does := func(c workload.Collective) bool { return !c.Own && !c.Engines && slices.Contains(p.Ops, c.Op) }
		if !slices.ContainsFunc(w.Collectives, does) {
			return nil
		}
	}
	for _, n := range triedChannels {
		for _, p := range kindParams {
			settings = append(settings, fmt.Sprintf("%s=%d", p.Name, n))
		}
		for _, m := range triedChannels {
			settings = append(settings, fmt.Sprintf("%s=%d:%s=%d", kindParams[0].Name, n, kindParams[1].Name, m))
		}
	}
	return settings
}

// A limits is the workgroups that collectives are set to, by kind; 0: as captured.
type limits struct{ all, gathers, sums int }

func limitsOf(v plan.Values) limits {
	return limits{v.Int("channels"), v.Int(kindParams[0].Name), v.Int(kindParams[1].Name)}
}

// of is the number of workgroups that a collective is set to.
func (l limits) of(c *workload.Collective) int {
	kind := 0
	switch {
	case slices.Contains(kindParams[0].Ops, c.Op):
		kind = l.gathers
	case slices.Contains(kindParams[1].Ops, c.Op):
		kind = l.sums
	}
	return cmp.Or(kind, l.all)
}
