package schedule

import "github.com/overlapse/overlapse/engines/plan"

// Captured replays what was measured: every kernel with its own time, in its own order,
// behind its own dependencies. Under the profiler it must give the run back (rule B1);
// without it, the host issues at its own pace (rules H7 and H8). On another machine, with
// other ranks or at another clock it is simulated as every other strategy is.
var Captured = plan.Strategy{
	Name:    "captured",
	Summary: "the schedule as it was captured",
	Detail: "Every kernel and copy takes its measured time and starts when what it waited for has ended, " +
		"plus the gap that was measured. A collective moves bytes once every rank has arrived. Nothing holds " +
		"a slot or a link: whatever kernels did to each other is part of their measured times. On another machine, with other " +
		"ranks or at another clock, kernels start from their times alone and hold what they need, as under every other strategy. What the profiler adds " +
		"to operators and calls of the host is subtracted, and in a loop the host runs ahead of the devices, so the time is " +
		"that of an iteration without the profiler; --profiled replays the capture itself, and the difference to the trace " +
		"is the replay's residual.",
	Bound: true,
	Exact: true,
	Params: []plan.Param{
		plan.GraphParam,
	},
	Plan: func(pl *plan.Planner, v plan.Values) (plan.Emitter, error) {
		pl.Measured, pl.Graph = plan.WasMeasured(pl.Workload, pl.Scenario), v["graph"] == "on"
		if pl.Workload.Unprofiled || pl.Graph {
			pl.RunAhead()
		}
		return nil, nil
	},
}

// AsScheduled replays the captured schedule with interference: kernels start from
// their durations alone, hold what they need and slow each other.
var AsScheduled = plan.Strategy{
	Name: "captured with interference",
	Plan: func(*plan.Planner, plan.Values) (plan.Emitter, error) { return nil, nil },
}
