package schedule

import "github.com/overlapse/overlapse/engines/plan"

// Captured replays what was measured: every kernel with its own time, in its own order,
// behind its own dependencies. Under the profiler it must give the run back;
// without it, the host issues at its own pace (rules H7 and H8). On another machine or with
// other ranks it is simulated as every other strategy is.
var Captured = plan.Strategy{
	Name:    "captured",
	Summary: "the schedule as it was captured",
	Bound:   true,
	Exact:   true,
	Params: []plan.Param{
		plan.GraphParam.Ran("off", "on"),
	},
	Plan: func(pl *plan.Planner, v plan.Values) (plan.Emitter, error) {
		pl.Measured, pl.Graph = plan.WasMeasured(pl.Workload), v["graph"] == "on"
		return nil, nil
	},
}

// AsScheduled replays the captured schedule with interference: kernels start from
// their durations alone, hold what they need and slow each other.
var AsScheduled = plan.Strategy{
	Name: "captured with interference",
	Plan: func(*plan.Planner, plan.Values) (plan.Emitter, error) { return nil, nil },
}

// inPlace is the captured schedule as bulk and multistream simulate it, with every collective in its
// place.
var inPlace = plan.Strategy{
	Name: "captured, in place",
	Plan: func(pl *plan.Planner, v plan.Values) (plan.Emitter, error) {
		return nil, planStep(pl, "multistream", stepOptions{values: v, keep: true})
	},
}
