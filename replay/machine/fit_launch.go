package machine

import "math"

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

// The clock: under a duty cycle d of one GEMM the slowdown is (u/Knee)^Exponent
// with u = d · the GEMM's rate / GPU.Flops, so that its logarithm is a straight
// line in that of d. The knee is read where all GPUs of a board run, which
// share its power and cooling; one alone keeps a higher clock.
func clockRules() []rule {
	return []rule{
		{
			"clock.exponent", "slope of log slowdown over log busy fraction, of a GEMM with pauses", "strategy duty_cycle, kind gemm, at three gaps and more, one of them 0 and one twice the GEMM's time", readExponent,
		},
		{
			"clock.knee", "busy fraction from which all GPUs together slow down as they do back to back", "kind gemm+collective, part compute, once with back_to_back and once without", readKnee,
		},
	}
}

func readExponent(c *calibration) reading {
	rows := c.pick(func(r *Row) bool {
		return r.Strategy == "duty_cycle" && r.Workload.Kind == "gemm" && r.Params.Fill == ""
	})
	if len(rows) < 3 {
		return reading{}
	}
	cool := rows[0]
	for _, r := range rows {
		if r.Params.GapUs > cool.Params.GapUs {
			cool = r
		}
	}
	f := reading{rows: rows}
	var points [][]float64
	var slow []float64
	for _, r := range rows {
		// Below 1.5 % it is noise and leakage, not the cap.
		if s := r.Us / cool.Us; s > 1.015 {
			points = append(points, []float64{1, math.Log(r.Us / (r.Us + r.Params.GapUs))})
			slow = append(slow, math.Log(s))
		}
	}
	if len(points) < 2 {
		return reading{}
	}
	x, ok := solve(points, slow)
	if !ok {
		return reading{}
	}
	f.value = x[1]
	var res []float64
	for i, p := range points {
		res = append(res, off(math.Exp(x[0]+x[1]*p[1]), math.Exp(slow[i])))
	}
	f.residual = median(res)
	return f
}

func readKnee(c *calibration) reading {
	var f reading
	var knees []float64
	parts := c.pick(func(r *Row) bool {
		return r.Workload.Kind == "gemm+collective" && r.Workload.Part == "compute" && r.Strategy == "isolated" && r.Workload.Tile == nil
	})
	for _, hot := range parts {
		if !hot.Workload.BackToBack {
			continue
		}
		for _, r := range parts {
			w := r.Workload
			if w.BackToBack || w.M != hot.Workload.M || w.N != hot.Workload.N || w.K != hot.Workload.K {
				continue
			}
			busy := 2 * float64(w.M) * float64(w.N) * float64(w.K) / c.seconds(r) / c.m.GPU.Flops.Value
			knees = append(knees, min(1, busy)*math.Pow(r.Us/hot.Us, 1/c.m.Clock.Exponent.Value))
			f.rows = append(f.rows, hot)
		}
	}
	if len(knees) == 0 || !c.m.Clock.Exponent.Known() {
		return reading{}
	}
	f.rows = dedupe(f.rows)
	f.value = median(knees)
	return f
}

// dedupe keeps the first of rows that stand for the same line.
func dedupe(rows []Row) []Row {
	var out []Row
	for _, r := range rows {
		if len(out) == 0 || out[len(out)-1].ID != r.ID {
			out = append(out, r)
		}
	}
	return out
}
