package schedule

import (
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Captured replays what was measured: every kernel with its own time, in its own order,
// behind its own dependencies. Under the profiler it must give the run back;
// without it, the host issues at its own pace (rules H7 and H8). On another machine or with
// other ranks it is simulated as every other strategy is.
var Captured = plan.Strategy{
	Name:    "captured",
	Summary: "the schedule as it was captured",
	Kind:    plan.Exact,
	Params: []plan.Param{
		graphParam(),
	},
	Rebuild: func(w *workload.Workload, m machine.Machine, v plan.Values) *workload.Workload {
		if v["graph"] == "off" {
			return edit.Eager(w, m)
		}
		return w
	},
	Plan: func(pl *plan.Planner, v plan.Values) (emit plan.Emitter, why string) {
		pl.Measured, pl.Graph = plan.WasMeasured(pl.Workload), v["graph"] == "on"
		switch {
		case pl.Graph && !slices.ContainsFunc(pl.Workload.Ops, func(op workload.Op) bool { return op.Kind == trace.Compute && !op.Graph }):
			return nil, "graph=on: all of it is launched by captured graphs"
		case v["graph"] != "off":
		case pl.Workload.Origins == nil:
			return nil, "graph=off: nothing was launched by a captured graph"
		default:
			l := &pl.Machine.Launch
			pl.Note("the least: a launch costs the host %.1f us, of a collective %.1f (launch.host and launch.host_collective of %s), and what the program does between launches is not in the trace",
				1e6*l.Host.Or(0), 1e6*l.HostCollective.Or(0), pl.Machine.Profile)
		}
		return nil, ""
	},
}

// graphParam also has the step without its captured graphs.
func graphParam() plan.Param {
	p := plan.GraphParam.Ran(plan.AsCaptured, "on")
	p.Choices, p.Doc = append(p.Choices, "off"), p.Doc+"; off: the host launches each operation of captured graphs"
	return p
}

// InPlace is the captured schedule with interference, every operation in its place: kernels start from their durations
// alone, hold what they need and slow each other.
var InPlace = plan.Strategy{
	Name: "captured with interference",
	Plan: func(*plan.Planner, plan.Values) (emit plan.Emitter, why string) { return nil, "" },
}
