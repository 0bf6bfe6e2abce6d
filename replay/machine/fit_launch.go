package machine

func launchRules() []rule {
	return []rule{
		{
			"launch.timing", "median of a queued collective's time less its kernel's",
			"kind collective_kernel (dur_us of the kernel) and kind collective with queued, of the same operation and bytes", readTiming,
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
			"launch.host", "host time to enqueue a small GEMM behind other work", "kind host_issue, what mm",
			func(c *calibration) reading { return c.only("host_issue", "mm", 1) },
		},
		{
			"launch.host_event", "host time to record an event and wait for it on another stream", "kind host_issue, what event",
			func(c *calibration) reading { return c.only("host_issue", "event", 1) },
		},
		{
			"launch.host_collective", "host time of a GEMM and an asynchronous collective, less launch.host", "kind host_issue, what gemm+coll", readHostCollective,
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
			if r.Params.Queued && r.Params.Channels == 0 && r.World == k.World && r.Workload.Collective == k.Workload.Collective && r.Workload.Bytes == k.Workload.Bytes {
				over = append(over, (r.Us-median(append([]float64(nil), k.Params.DurUs...)))*1e-6)
				f.rows = append(f.rows, k)
			}
		}
	}
	f.value = median(over)
	return f
}

func readHostCollective(c *calibration) reading {
	f := c.only("host_issue", "gemm+coll", 1)
	f.value -= c.m.Launch.Host.Value
	return f
}
