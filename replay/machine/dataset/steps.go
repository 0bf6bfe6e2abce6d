package dataset

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
)

// steps lists numbers, tables and laws in an order in which each finds what it builds on.
func steps() []step {
	list := slices.Concat(launching(), memory(), gemms(), fabric())
	for _, op := range machine.RecordedOps {
		list = append(list, collectives(op)...)
	}
	for n := range coRuns {
		list = append(list, coRunLaw(machine.CoRunKind(n)))
	}
	return list
}

// in is a field of the row in units of so many SI units.
func in(unit float64, name string) perRow {
	return func(_ *calibration, r *Row) float64 { return number(r, name) * unit }
}

// less is a value less a parameter.
func less(value perRow, key string) perRow {
	return func(c *calibration, r *Row) float64 { return value(c, r) - find(&c.m, key).Quantity.Value }
}

// hostTime is that of a row with several iterations: one is no measurement of a host.
func hostTime(_ *calibration, r *Row) float64 {
	if r.MinUs < r.MaxUs {
		return r.Us * 1e-6
	}
	return math.NaN()
}

// rate is bytes a second of the kernel.
func rate(c *calibration, r *Row) float64 { return number(r, "bytes") / kernel(c, r) }

func launching() []step {
	const issue, gap = "kind host_issue, without profiled, what ", "kind gap, what "
	return []step{
		special("launch.timing", "median of a queued collective's time less its kernel's",
			"kind collective_kernel; dur_us of the kernel, and kind collective with queued, of the same operation and bytes", readTiming),
		one("launch.gap", "gap between GEMMs of one stream", gap+"same", seconds, mean),
		one("launch.memset_gap", "gap between GEMMs across the library's memset, less launch.gap", gap+"across_memset",
			less(seconds, "launch.gap"), mean),
		one("launch.hop", "gap between GEMMs that alternate between two streams", gap+"hops", seconds, mean),
		one("launch.graph", "one of 40 tiny kernels of a replayed graph", "kind graph40_same", in(1e-6/40, "us"), mean),
		one("launch.host", "host time to enqueue a small GEMM, the least where a device may have held it back",
			issue+"gemm or mm", hostTime, least),
		one("launch.compiled", "the same of a Triton kernel", issue+"compiled", hostTime, least),
		one("launch.call", "duration of the driver's launch calls while GEMMs are enqueued, as the profiler has it",
			"kind host_issue, what gemm, with profiled, with call_us", in(1e-6, "call_us"), middle),
		profiled("call", "what a profiler with shapes adds to loops of events, by recorded call, median",
			", operators 0, launches 0; what event", "calls", func(*calibration, *Row) float64 { return 0 }),
		profiled("op", "what it adds to loops of operators that launch nothing, by recorded operator, median",
			", launches 0; what views", "operators", func(c *calibration, r *Row) float64 {
				return number(r, "calls") * c.m.Launch.ProfiledCall.Or(0)
			}),
		profiled("launch", "what it adds to loops of launches, less that of their operators and other calls, by launch, median",
			"; what gemm and others", "launches", func(c *calibration, r *Row) float64 {
				l := &c.m.Launch
				return number(r, "operators")*l.ProfiledOp.Or(0) + (number(r, "calls")-number(r, "launches"))*l.ProfiledCall.Or(0)
			}),
		one("launch.host_event", "host time to record an event and wait for it on another stream", issue+"event", hostTime, least),
		one("launch.host_collective", "host time of a GEMM and an asynchronous collective, less launch.host",
			issue+"gemm+coll", less(hostTime, "launch.host"), least),
		one("launch.barrier", "the barrier kernel on ranks that arrive together", "kind symm_barrier, with kernel", seconds, mean),
	}
}

func memory() []step {
	const gather = "kind embedding+collective, part compute, dtype f32, with programs, "
	gathered := func(c *calibration, r *Row) float64 {
		w := &r.Workload
		if number(r, "programs") > c.m.GPU.CUs.Value*c.m.GPU.WGs.Value { // more than any GPU holds stand for one a row: the plain grid
			return math.NaN()
		}
		return 4 * float64(w.Batch*w.Tables*w.Pool*w.Dim) / kernel(c, r)
	}
	operand := func(_ *calibration, r *Row) float64 { return 2 * number(r, "n") * number(r, "k") }
	large := func(c *calibration, r *Row) float64 {
		if operand(c, r) < 64<<20 {
			return math.NaN()
		}
		return kernel(c, r)
	}
	return []step{
		one("gpu.memory", "bytes read and written by a large copy", "kind hbm_copy", func(c *calibration, r *Row) float64 {
			return 2 * rate(c, r)
		}, last),
		special("gpu.groups", "CUs that clusters of workgroups share, by the size of their group", "kind cu_groups", readGroups),
		slope("gpu.read", "slope over bytes of GEMVs of 64 MiB and more", "kind gemv; of 64 MiB and more, two sizes", operand, large),
		table("gpu.stream", "bytes a second of a triad by workgroups", "kind triad; with programs", rate, "programs"),
		table("gpu.sum", "bytes a second of the result of adding so many, in PyTorch", "kind sum; with pool", rate, "pool"),
		special("gpu.post", "a round of storing a tile and posting a semaphore behind it less one of storing only, one workgroup a CU at most",
			"kind semaphore, what post; with posts 0 and 1", readPost),
		special("gpu.poll", "slope over waits for semaphores that are posted already, of a GEMM with one workgroup a CU",
			"kind semaphore, what product; two numbers of waits from 1 on", readPoll),
		table("gpu.gather", "bytes a second of pooled embedding rows by workgroups, median over sizes",
			gather+"without same_build", gathered, "programs"),
		table("gpu.gather_fused", "the same of the kernel that can store to peers", gather+"with same_build", gathered, "programs"),
	}
}

const (
	coolRows = "kind gemm, with cool; GEMMs of several sizes after a pause, some of one wave, some of many"
	tileRows = "kind compiled_gemm or gemm+gemm or gemm+collective; one tile for each program: as many programs as CUs, and twice as many; and several tiles a program"
)

func gemms() []step {
	compiled := func(slots float64) perRow {
		return func(c *calibration, r *Row) float64 {
			if x := compiledTile(r); x.each == 1 && math.Ceil(x.programs/c.m.GPU.CUs.Value) == slots {
				return slots * x.flop * c.m.GPU.CUs.Value / kernel(c, r)
			}
			return math.NaN()
		}
	}
	fourWaves := func(c *calibration, r *Row) float64 {
		w := r.Workload
		t := c.m.Tiling(w.M, w.N, w.K)
		if t.Waves < 4 {
			return math.NaN()
		}
		return 2 * float64(w.M) * float64(w.N) * float64(w.K) / t.Seconds
	}
	return []step{
		special("matmul.clusters", "as kernels' names have them, the most frequent of each tile; tiles that were not seen as before",
			"kind gemm; with kernel_name", readClusters),
		gemmLaw(),
		table("matmul.shapes", "time of the row less launch.timing, median of repeats", coolRows, kernel, "m", "n", "k"),
		special("matmul.taken", "the kernels' names, where the law prefers another tile; of GEMMs that no row has, as before",
			"kind gemm; 50 and more with kernel_name", readTaken),
		one("gpu.flops", "best GEMM of at least 4 waves", coolRows, fourWaves, largest),
		ownedLaw(),
		one("matmul.compiled", "two tiles of compiled GEMMs on each CU, the best", tileRows, compiled(2),
			largest).checkedBy(itself(compiled(2))),
		one("matmul.lone", "one tile of compiled GEMMs on some of the CUs, median", tileRows, compiled(1),
			middle).checkedBy(itself(compiled(1))),
		special("matmul.idle_gain", "time of a compiled tile over the idle fraction of the CUs", tileRows, readIdleGain),
		clockLaw(),
		one("clock.hold", "time until GEMMs slow down over what the law has it at in times of itself, median",
			cycles+"; with every10_us", hold, middle).checkedBy(itself(hold)),
	}
}

const (
	oneFlag = "kind peer_flag, programs 1, bytes to 128, flags to 1"
	copied  = "kind p2p_copy_ring, bytes from 16 MiB; at two sizes"
)

func fabric() []step {
	copies := func(key string) direct {
		return slope(key, "slope over bytes of peer copies of 16 MiB and more, all GPUs at once to the next",
			copied, in(1, "bytes"), kernel)
	}
	stores := func(pattern, how string) direct {
		const rows = "kind tile_store or peer_store, bytes from 16 MiB, pattern "
		return one("fabric.store_"+pattern, how, rows+pattern+"; programs from the CUs on", stored, largest)
	}
	each := func(c *calibration, r *Row) float64 {
		return (seconds(c, r) - c.oneFlag()) / (number(r, "flags") - 1)
	}
	return []step{
		copies("fabric.egress"), copies("fabric.ingress"), copies("fabric.pair"), copies("engines.rate"),
		special("engines.latency", "peer copy between GEMMs of another stream: from the end of one to the start of the next, less the bytes at engines.rate and launch.hop; without such rows the line over bytes of copies at none, less launch.timing",
			"kind gap, what copy, with copy_bytes, with copy_us; or "+copied, readCopyLatency),
		// A flag is a releasing store, which waits for the one before it as it does for data.
		one("fabric.fence", "each further flag of a round in which one workgroup stores little, posts flags and waits for as many, median",
			"kind peer_flag, programs 1, bytes to 128, flags from 2, flags to 64; and with 1", each, middle).
			checkedBy(func(c *calibration, r *Row, fence float64) (predicted, measured float64) {
				return c.oneFlag() + (number(r, "flags")-1)*fence, seconds(c, r)
			}),
		one("fabric.latency", "the round with one flag, less fabric.fence", oneFlag, less(seconds, "fabric.fence"), mean),
		// A round takes as long as its flags do one after another, in a workgroup or out of the GPU.
		one("fabric.message", "shortest round a flag of many workgroups", "kind peer_flag, programs from 64, bytes to 128",
			func(c *calibration, r *Row) float64 {
				return seconds(c, r) / (number(r, "programs") * max(1, number(r, "flags")))
			}, least).
			checkedBy(func(c *calibration, r *Row, message float64) (predicted, measured float64) {
				flags := max(1, number(r, "flags"))
				return max(c.m.Fabric.Latency.Value+flags*c.m.Fabric.Fence.Value, flags*number(r, "programs")*message), seconds(c, r)
			}),
		slope("fabric.store_cu", "slope over bytes of one workgroup that stores tiles to the next rank",
			"kind peer_store or tile_store, pattern ring, programs 1; two sizes", in(1, "bytes"), storedByOne),
		stores("ring", "best rate of kernels that all store to the next rank"),
		stores("spread", "best rate of kernels that store to all ranks"),
		stores("incast", "best rate into one rank that all others store to"),
	}
}
