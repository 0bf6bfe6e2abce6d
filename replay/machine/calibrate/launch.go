package calibrate

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
)

func launchRules() []rule {
	return []rule{
		{
			"launch.timing", "median of a queued collective's time less its kernel's",
			"kind collective_kernel (dur_us of the kernel) and kind collective with queued, of the same operation and bytes", readTiming,
		},
		{
			"launch.gap", "gap between GEMMs of one stream", "kind gap, what same",
			func(c *calibration) reading { return c.only("gap", "same", 1) },
		},
		{
			"launch.memset_gap", "gap between GEMMs across the library's memset, less launch.gap", "kind gap, what across_memset",
			func(c *calibration) reading { return c.beyond(c.only("gap", "across_memset", 1), c.m.Launch.Gap) },
		},
		{
			"launch.hop", "gap between GEMMs that alternate between two streams", "kind gap, what hops",
			func(c *calibration) reading { return c.only("gap", "hops", 1) },
		},
		{
			"launch.graph", "one of 40 tiny kernels of a replayed graph", "kind graph40_same",
			func(c *calibration) reading { return c.only("graph40_same", "", 1.0/40) },
		},
		{
			"launch.host", "host time to enqueue a small GEMM, the least where a device may have held it back", "kind host_issue, what gemm",
			func(c *calibration) reading { return c.least("mm", "gemm") },
		},
		{
			"launch.compiled", "the same of a Triton kernel", "kind host_issue, what compiled",
			func(c *calibration) reading { return c.least("compiled") },
		},
		{
			"launch.call", "duration of the driver's launch calls while GEMMs are enqueued, as the profiler has it", "kind host_issue, what gemm, profiled", readCall,
		},
		{
			"launch.profiled_call", "what a profiler with shapes adds to a loop of events, by recorded call", "kind host_loop, what event, with and without profiled", readProfiledCall,
		},
		{
			"launch.profiled_op", "what it adds to loops of operators, less that of their calls, by recorded operator, median", "kind host_loop, with and without profiled", readProfiledOp,
		},
		{
			"launch.host_event", "host time to record an event and wait for it on another stream", "kind host_issue, what event",
			func(c *calibration) reading { return c.least("event") },
		},
		{
			"launch.host_collective", "host time of a GEMM and an asynchronous collective, less launch.host", "kind host_issue, what gemm+coll",
			func(c *calibration) reading { return c.beyond(c.least("gemm+coll"), c.m.Launch.Host) },
		},
		{
			"launch.barrier", "the barrier kernel on ranks that arrive together", "kind symm_barrier with kernel",
			func(c *calibration) reading {
				rows := c.pick(func(r *Row) bool { return r.Workload.Kind == "symm_barrier" && r.Params.Kernel })
				return mean(rows, 1)
			},
		},
	}
}

// only is the mean of the rows of one kind, times a factor.
func (c *calibration) only(kind, what string, factor float64) reading {
	return mean(c.pick(func(r *Row) bool {
		return r.Workload.Kind == kind && r.Workload.What == what && r.Strategy == "isolated"
	}), factor)
}

func mean(rows []Row, factor float64) reading {
	sum := 0.0
	for _, r := range rows {
		sum += r.Us * 1e-6 * factor
	}
	return reading{value: sum / float64(len(rows)), rows: rows}
}

func readTiming(c *calibration) reading {
	var f reading
	var over []float64
	for _, k := range c.kind("collective_kernel") {
		for _, r := range c.kind("collective") {
			if r.Params.Queued && !r.Params.Kernel && r.Params.Channels == 0 && r.World == k.World && r.Workload.Collective == k.Workload.Collective && r.Workload.Bytes == k.Workload.Bytes {
				over = append(over, (r.Us-median(append([]float64(nil), k.Params.DurUs...)))*1e-6)
				f.rows = append(f.rows, k)
			}
		}
	}
	f.value = median(over)
	return f
}

// beyond is what a reading has more than a quantity that was found before.
func (c *calibration) beyond(f reading, q machine.Quantity) reading {
	f.value -= q.Value
	return f
}

// least is the shortest host time of enqueuing one of these: a full queue can
// only make it longer.
func (c *calibration) least(what ...string) reading {
	var f reading
	for _, r := range c.kind("host_issue") {
		if slices.Contains(what, r.Workload.What) && !r.Params.Profiled && (f.rows == nil || r.Us*1e-6 < f.value) {
			f.value, f.rows = r.Us*1e-6, []Row{r}
		}
	}
	return f
}

func readCall(c *calibration) reading {
	f := reading{rows: c.pick(func(r *Row) bool {
		return r.Workload.Kind == "host_issue" && r.Workload.What == "gemm" && r.Params.Profiled && r.Params.CallUs > 0
	})}
	var calls []float64
	for _, r := range f.rows {
		calls = append(calls, r.Params.CallUs*1e-6)
	}
	f.value = median(calls)
	return f
}

// readProfiledCall and readProfiledOp are for a host with the pace of launch.call. The
// fastest iterations are compared: other work on the host only makes them longer.
func readProfiledCall(c *calibration) reading {
	return c.profiled(func(r *Row) float64 {
		if r.Params.Operators >= 1 {
			return 0
		}
		return r.Params.Calls
	}, 0)
}

func readProfiledOp(c *calibration) reading {
	return c.profiled(func(r *Row) float64 {
		if r.Params.Operators < 1 {
			return 0
		}
		return r.Params.Operators
	}, c.m.Launch.ProfiledCall.Or(0))
}

// profiled is the median over loops of what a profiler with shapes adds, less that of
// their calls, over a count of events; loops with a count of 0 are left out.
func (c *calibration) profiled(count func(*Row) float64, call float64) reading {
	var f reading
	var each, calls []float64
	for _, r := range c.kind("host_loop") {
		if !r.Params.Shapes || r.Params.Observer {
			continue
		}
		if r.Params.CallUs > 0 {
			calls = append(calls, r.Params.CallUs)
		}
		for _, plain := range c.kind("host_loop") {
			n := count(&r)
			if n > 0 && !plain.Params.Profiled && plain.Workload.What == r.Workload.What && plain.World == r.World && plain.Machine == r.Machine {
				each = append(each, ((r.MinUs-plain.MinUs)*1e-6-r.Params.Calls*call)/n)
				f.rows = append(f.rows, r)
			}
		}
	}
	f.value = median(each)
	for i, x := range each {
		each[i] = off(f.value, x)
	}
	f.residual = median(each)
	if pace := median(calls) * 1e-6 / c.m.Launch.Call.Or(0); pace > 0 && !math.IsInf(pace, 0) {
		f.value /= pace
	}
	return f
}
