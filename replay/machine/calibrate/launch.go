package calibrate

import (
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
			"launch.profiled_call", "what a profiler with shapes adds to loops of events, by recorded call, median", "kind host_loop, what event, with and without profiled",
			profiled(func(_ *calibration, p *Params) (events, seconds float64) {
				if p.Operators > 0 || p.Launches > 0 {
					return 0, 0
				}
				return p.Calls, 0
			}),
		},
		{
			"launch.profiled_op", "what it adds to loops of operators that launch nothing, by recorded operator, median", "kind host_loop, what views, with and without profiled",
			profiled(func(c *calibration, p *Params) (events, seconds float64) {
				if p.Launches > 0 {
					return 0, 0
				}
				return p.Operators, p.Calls * c.m.Launch.ProfiledCall.Or(0)
			}),
		},
		{
			"launch.profiled_launch", "what it adds to loops of launches, less that of their operators and other calls, by launch, median", "kind host_loop, with and without profiled",
			profiled(func(c *calibration, p *Params) (events, seconds float64) {
				l := &c.m.Launch
				return p.Launches, p.Operators*l.ProfiledOp.Or(0) + (p.Calls-p.Launches)*l.ProfiledCall.Or(0)
			}),
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
	return mean(c.kind(kind, func(r *Row) bool { return r.Workload.What == what }), factor)
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
// only make it longer. A single iteration is no measurement of a host.
func (c *calibration) least(what ...string) reading {
	var f reading
	for _, r := range c.kind("host_issue") {
		if slices.Contains(what, r.Workload.What) && !r.Params.Profiled && r.MinUs < r.MaxUs && (f.rows == nil || r.Us*1e-6 < f.value) {
			f.value, f.rows = r.Us*1e-6, []Row{r}
		}
	}
	return f
}

func readCall(c *calibration) reading {
	return middle(c.rows, func(r *Row) (float64, bool) {
		return r.Params.CallUs * 1e-6, r.Workload.Kind == "host_issue" && r.Workload.What == "gemm" && r.Params.Profiled && r.Params.CallUs > 0
	})
}

// profiled is the median over loops of what a profiler with shapes adds to the loop without one
// of the lines before, less some seconds, over a number of events: on a host with the pace of
// launch.call.
func profiled(count func(*calibration, *Params) (events, seconds float64)) func(*calibration) reading {
	return func(c *calibration) reading {
		loops := slices.DeleteFunc(c.kind("host_loop"), func(r Row) bool { return !r.Params.Shapes || r.Params.Observer || c.plainLoop(&r) == nil })
		f := middle(loops, func(r *Row) (float64, bool) {
			events, less := count(c, &r.Params)
			return ((r.Us-c.plainLoop(r).Us)*1e-6 - less) / events, events > 0
		})
		if len(f.rows) > 0 {
			f.value = max(f.value, leastAdded)
		}
		calls := middle(loops, func(r *Row) (float64, bool) { return r.Params.CallUs * 1e-6, r.Params.CallUs > 0 })
		if c.m.Launch.Call.Value > 0 && len(calls.rows) > 0 {
			f.value *= c.m.Launch.Call.Value / calls.value
		}
		return f
	}
}

// leastAdded stands for nothing: a profiler that costs less than the noise of the loops.
const leastAdded = 1e-9

// plainLoop is the last row before another one in its file that measures the same loop
// without a profiler; nil if there is none.
func (c *calibration) plainLoop(r *Row) *Row {
	var last *Row
	for i := range c.rows {
		x := &c.rows[i]
		if x.Workload.Kind == "host_loop" && x.Workload.What == r.Workload.What && !x.Params.Profiled &&
			x.File == r.File && x.Line < r.Line && (last == nil || x.Line > last.Line) {
			last = x
		}
	}
	return last
}
