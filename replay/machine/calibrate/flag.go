package calibrate

// rounds are the rows in which workgroups of two GPUs exchange little data and one
// flag or more, one workgroup's or, with many, those of 64 and more.
func (c *calibration) rounds(flags int) []Row {
	return c.pick(func(r *Row) bool {
		return r.Workload.Kind == "peer_flag" && r.Params.Programs == 1 && r.Workload.Bytes <= 128 && max(1, r.Params.Flags) == flags
	})
}

// readFence takes what each flag beyond the first adds: a flag is a releasing
// store, which waits for the one before it as it does for data.
func readFence(c *calibration) reading {
	one := mean(c.rounds(1), 1)
	var rows []Row
	for flags := 2; flags <= maxFlags && len(one.rows) > 0; flags++ {
		rows = append(rows, c.rounds(flags)...)
	}
	f := middle(rows, func(r *Row) (float64, bool) { return (r.Us*1e-6 - one.value) / float64(r.Params.Flags-1), true })
	f.residual = residual(f.rows, func(r Row) (predicted, measured float64) {
		return one.value + float64(r.Params.Flags-1)*f.value, r.Us * 1e-6
	})
	return f
}

// maxFlags is how many flags a round may have that is read.
const maxFlags = 64

// readMessage is the best rate of flags, as that of stores is; the residual is of
// rounds that take as long as their flags do one after another, in a workgroup or out of the GPU.
func readMessage(c *calibration) reading {
	rows := c.pick(func(r *Row) bool {
		return r.Workload.Kind == "peer_flag" && r.Params.Programs >= 64 && r.Workload.Bytes <= 128
	})
	f := reading{rows: rows}
	for _, r := range rows {
		if each := r.Us * 1e-6 / float64(r.Params.Programs*max(1, r.Params.Flags)); f.value == 0 || each < f.value {
			f.value = each
		}
	}
	f.residual = residual(rows, func(r Row) (predicted, measured float64) {
		flags := float64(max(1, r.Params.Flags))
		alone := c.m.Fabric.Latency.Value + flags*c.m.Fabric.Fence.Value
		return max(alone, flags*float64(r.Params.Programs)*f.value), r.Us * 1e-6
	})
	return f
}

func readPost(c *calibration) reading {
	f := reading{}
	var each []float64
	posts := func(programs, n int) []Row {
		return c.pick(func(r *Row) bool {
			return r.Workload.Kind == "semaphore" && r.Workload.What == "post" && r.Params.Programs == programs && r.Params.Posts == n
		})
	}
	for programs := 1; programs <= int(c.m.GPU.CUs.Value); programs++ {
		with, without := posts(programs, 1), posts(programs, 0)
		if len(with) == 0 || len(without) == 0 {
			continue
		}
		each = append(each, mean(with, 1).value-mean(without, 1).value)
		f.rows = append(append(f.rows, without...), with...)
	}
	f.value = median(each)
	return f
}

// readPoll's residual is of the rows in which semaphores are handed over to
// workgroups that wait: one post and one poll each.
func readPoll(c *calibration) reading {
	rows := c.kind("semaphore", func(r *Row) bool {
		return r.Workload.What == "product" && r.Params.Waits > 0 && float64(r.Params.Programs) <= c.m.GPU.CUs.Value
	})
	f, _, b := slope(rows, func(r *Row) float64 { return float64(r.Params.Waits) }, func(r *Row) float64 { return r.Us * 1e-6 })
	if len(f.rows) > 0 {
		f.residual = residual(c.kind("semaphore", func(r *Row) bool { return r.Workload.What == "handover" }),
			func(r Row) (predicted, measured float64) { return c.m.GPU.Post.Value + b, r.Us * 1e-6 })
	}
	return f
}
