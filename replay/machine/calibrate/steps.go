package calibrate

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine/profile"
)

// steps lists numbers and laws in an order in which each finds what it builds on.
func steps() []step {
	list := slices.Concat(launching(), memory(), gemms(), fabric())
	for _, op := range profile.RecordedOps {
		list = append(list, channelLaw(op), latencyLaw(op), linkLaw(op), direct{
			key: "library." + op.String() + ".times", how: "time of the row less launch.timing, least of repeats and of fewer channels",
			rows: "kind collective, collective " + op.String() + "; queued or of 60 us and more",
			read: func(c *calibration) reading { return readTimes(c, op) },
		})
	}
	for n := range coRuns {
		list = append(list, coRunLaw(n))
	}
	return list
}

// perPart is seconds divided by a number of equal parts.
func perPart(parts float64) perRow {
	return func(_ *calibration, r *Row) float64 { return r.Us * 1e-6 / parts }
}

// field is a field of the row in units of so many SI units.
func field(name string, unit float64) perRow {
	return func(_ *calibration, r *Row) float64 { return number(r, name) * unit }
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

// itself is the check of a number that is found in each row: by as much as the rows differ.
func itself(value perRow) func(c *calibration, r *Row, found float64) (predicted, measured float64) {
	return func(c *calibration, r *Row, found float64) (predicted, measured float64) { return found, value(c, r) }
}

func launching() []step {
	return []step{
		direct{
			key: "launch.timing", how: "median of a queued collective's time less its kernel's",
			rows: "kind collective_kernel; dur_us of the kernel, and kind collective with queued, of the same operation and bytes",
			read: readTiming,
		},
		direct{key: "launch.gap", how: "gap between GEMMs of one stream", rows: "kind gap, what same", value: seconds, of: mean},
		direct{
			key: "launch.memset_gap", how: "gap between GEMMs across the library's memset, less launch.gap", rows: "kind gap, what across_memset", of: mean,
			value: func(c *calibration, r *Row) float64 { return seconds(c, r) - c.m.Launch.Gap.Value },
		},
		direct{key: "launch.hop", how: "gap between GEMMs that alternate between two streams", rows: "kind gap, what hops", value: seconds, of: mean},
		direct{key: "launch.graph", how: "one of 40 tiny kernels of a replayed graph", rows: "kind graph40_same", value: perPart(40), of: mean},
		direct{
			key: "launch.host", how: "host time to enqueue a small GEMM, the least where a device may have held it back",
			rows: "kind host_issue, what gemm or mm, without profiled", value: hostTime, of: least,
		},
		direct{key: "launch.compiled", how: "the same of a Triton kernel", rows: "kind host_issue, what compiled, without profiled", value: hostTime, of: least},
		direct{
			key: "launch.call", how: "duration of the driver's launch calls while GEMMs are enqueued, as the profiler has it",
			rows: "kind host_issue, what gemm, with profiled, with call_us", value: field("call_us", 1e-6), of: middle,
		},
		profiled("call", "what a profiler with shapes adds to loops of events, by recorded call, median", "what event", func(_ *calibration, r *Row) (events, seconds float64) {
			if number(r, "operators") > 0 || number(r, "launches") > 0 {
				return 0, 0
			}
			return number(r, "calls"), 0
		}),
		profiled("op", "what it adds to loops of operators that launch nothing, by recorded operator, median", "what views", func(c *calibration, r *Row) (events, seconds float64) {
			if number(r, "launches") > 0 {
				return 0, 0
			}
			return number(r, "operators"), number(r, "calls") * c.m.Launch.ProfiledCall.Or(0)
		}),
		profiled("launch", "what it adds to loops of launches, less that of their operators and other calls, by launch, median", "of kernels", func(c *calibration, r *Row) (events, seconds float64) {
			l, launches := &c.m.Launch, number(r, "launches")
			return launches, number(r, "operators")*l.ProfiledOp.Or(0) + (number(r, "calls")-launches)*l.ProfiledCall.Or(0)
		}),
		direct{
			key: "launch.host_event", how: "host time to record an event and wait for it on another stream",
			rows: "kind host_issue, what event, without profiled", value: hostTime, of: least,
		},
		direct{
			key: "launch.host_collective", how: "host time of a GEMM and an asynchronous collective, less launch.host",
			rows: "kind host_issue, what gemm+coll, without profiled", of: least,
			value: func(c *calibration, r *Row) float64 { return hostTime(c, r) - c.m.Launch.Host.Value },
		},
		direct{key: "launch.barrier", how: "the barrier kernel on ranks that arrive together", rows: "kind symm_barrier, with kernel", value: seconds, of: mean},
	}
}

func memory() []step {
	gemv := func(_ *calibration, r *Row) float64 { return 2 * float64(r.Workload.N) * float64(r.Workload.K) }
	programs := func(r *Row) [3]float64 { return [3]float64{number(r, "programs")} }
	gathered := func(c *calibration, r *Row) float64 {
		w := &r.Workload
		if number(r, "programs") > c.m.GPU.CUs.Value*c.m.GPU.WGs.Value { // more than any GPU holds stand for one a row: the plain grid
			return math.NaN()
		}
		return 4 * float64(w.Batch*w.Tables*w.Pool*w.Dim) / kernel(c, r)
	}
	return []step{
		direct{
			key: "gpu.memory", how: "bytes read and written by a large copy", rows: "kind hbm_copy", of: last,
			value: func(c *calibration, r *Row) float64 { return 2 * rate(c, r) },
		},
		direct{
			key: "gpu.groups", how: "CUs that clusters of workgroups share, by the size of their group",
			rows: "kind cu_groups", read: readGroups,
		},
		direct{
			key: "gpu.read", how: "slope over bytes of GEMVs of 64 MiB and more", rows: "kind gemv; of 64 MiB and more, two sizes", over: gemv,
			value: func(c *calibration, r *Row) float64 {
				if gemv(c, r) < 64<<20 {
					return math.NaN()
				}
				return kernel(c, r)
			},
		},
		direct{key: "gpu.stream", how: "bytes a second of a triad by workgroups", rows: "kind triad; with programs", value: rate, by: programs},
		direct{
			key: "gpu.sum", how: "bytes a second of the result of adding so many, in PyTorch", rows: "kind sum; with pool", value: rate,
			by: func(r *Row) [3]float64 { return [3]float64{number(r, "pool")} },
		},
		direct{
			key: "gpu.post", how: "a round of storing a tile and posting a semaphore behind it less one of storing only, one workgroup a CU at most",
			rows: "kind semaphore, what post; with posts 0 and 1", read: readPost,
		},
		direct{
			key: "gpu.poll", how: "slope over waits for semaphores that are posted already, of a GEMM with one workgroup a CU",
			rows: "kind semaphore, what product; two numbers of waits from 1 on", read: readPoll,
		},
		direct{
			key: "gpu.gather", how: "bytes a second of pooled embedding rows by workgroups, median over sizes",
			rows: "kind embedding+collective, part compute, dtype f32, with programs, without same_build", value: gathered, by: programs,
		},
		direct{
			key: "gpu.gather_fused", how: "the same of the kernel that can store to peers",
			rows: "kind embedding+collective, part compute, dtype f32, with programs, with same_build", value: gathered, by: programs,
		},
	}
}

const (
	coolRows  = "kind gemm, with cool; GEMMs of several sizes after a pause, some of one wave, some of many"
	namedRows = "kind gemm; 50 GEMMs and more of several sizes with kernel_name, or with cool: some of one wave, some of many"
	tileRows  = "kind compiled_gemm or gemm+gemm or gemm+collective"
)

func gemms() []step {
	compiled := func(slots float64) perRow {
		return func(c *calibration, r *Row) float64 {
			if x, ok := compiledTile(r); ok && x.each == 1 && math.Ceil(x.programs/c.m.GPU.CUs.Value) == slots {
				return slots * x.flop * c.m.GPU.CUs.Value / kernel(c, r)
			}
			return math.NaN()
		}
	}
	return []step{
		direct{
			key: "matmul.clusters", how: "as kernels' names have them, the most frequent of each tile; tiles that were not seen as before",
			rows: "kind gemm; with kernel_name", read: readClusters,
		},
		gemmLaw(),
		direct{
			key: "matmul.shapes", how: "time of the row less launch.timing, median of repeats", rows: coolRows,
			value: func(c *calibration, r *Row) float64 { return seconds(c, r) - c.timing(r) },
			by: func(r *Row) [3]float64 {
				return [3]float64{float64(r.Workload.M), float64(r.Workload.N), float64(r.Workload.K)}
			},
		},
		direct{
			key: "matmul.taken", how: "the kernels' names, where the law prefers another tile; of GEMMs that no row has, as before",
			rows: namedRows, read: readTaken,
		},
		direct{
			key: "gpu.flops", how: "best GEMM of at least 4 waves", rows: coolRows, of: most,
			value: func(c *calibration, r *Row) float64 {
				w := r.Workload
				t := c.m.Tiling(w.M, w.N, w.K)
				if t.Waves < 4 {
					return math.NaN()
				}
				return 2 * float64(w.M) * float64(w.N) * float64(w.K) / t.Seconds
			},
		},
		ownedLaw(),
		direct{
			key: "matmul.compiled", how: "two tiles of compiled GEMMs on each CU, the best",
			rows: tileRows + "; one tile for each of twice as many programs as CUs", value: compiled(2), of: most, check: itself(compiled(2)),
		},
		direct{
			key: "matmul.lone", how: "one tile of compiled GEMMs on some of the CUs, median",
			rows: tileRows + "; one tile for each of as many programs as CUs or fewer", value: compiled(1), of: middle, check: itself(compiled(1)),
		},
		direct{
			key: "matmul.crowd", how: "time of a compiled tile over the idle fraction of the CUs",
			rows: tileRows + "; several tiles a program, programs up to the CUs", read: readCrowd,
		},
		clockLaw(),
		direct{
			key: "clock.hold", how: "time until GEMMs slow down over what the law has it at in times of itself, median",
			rows: cycles + "; with every10_us", value: hold, of: middle, check: itself(hold),
		},
	}
}

func fabric() []step {
	copies := func(key string) direct {
		return direct{
			key: key, how: "slope over bytes of peer copies of 16 MiB and more, all GPUs at once to the next",
			rows: copied, value: kernel, over: field("bytes", 1),
		}
	}
	stores := func(pattern, how string) direct {
		return direct{
			key: "fabric.store_" + pattern, how: how, rows: "kind tile_store or peer_store, pattern " + pattern + ", bytes from 16 MiB; programs from the CUs on",
			value: stored, of: most,
		}
	}
	return []step{
		copies("fabric.egress"), copies("fabric.ingress"), copies("fabric.pair"), copies("engines.rate"),
		direct{
			key: "engines.latency", how: "peer copy between GEMMs of another stream: from the end of one to the start of the next, less the bytes at engines.rate and launch.hop; without such rows the line over bytes of copies at none, less launch.timing",
			rows: "kind gap, what copy, with copy_bytes, with copy_us; or " + copied, read: readCopyLatency,
		},
		direct{
			key: "fabric.fence", how: "each further flag of a round in which one workgroup stores little, posts flags and waits for as many, median",
			rows: "kind peer_flag, programs 1, bytes to 128, flags from 2, flags to 64; and with 1", of: middle,
			// A flag is a releasing store, which waits for the one before it as it does for data.
			value: func(c *calibration, r *Row) float64 { return (seconds(c, r) - c.oneFlag()) / (number(r, "flags") - 1) },
			check: func(c *calibration, r *Row, fence float64) (predicted, measured float64) {
				return c.oneFlag() + (number(r, "flags")-1)*fence, seconds(c, r)
			},
		},
		direct{
			key: "fabric.latency", how: "the round with one flag, less fabric.fence", rows: oneFlag, of: mean,
			value: func(c *calibration, r *Row) float64 { return seconds(c, r) - c.m.Fabric.Fence.Value },
		},
		direct{
			key: "fabric.message", how: "shortest round a flag of many workgroups", rows: "kind peer_flag, programs from 64, bytes to 128", of: least,
			value: func(c *calibration, r *Row) float64 {
				return seconds(c, r) / (number(r, "programs") * max(1, number(r, "flags")))
			},
			// A round takes as long as its flags do one after another, in a workgroup or out of the GPU.
			check: func(c *calibration, r *Row, message float64) (predicted, measured float64) {
				flags := max(1, number(r, "flags"))
				return max(c.m.Fabric.Latency.Value+flags*c.m.Fabric.Fence.Value, flags*number(r, "programs")*message), seconds(c, r)
			},
		},
		direct{
			key: "fabric.store_cu", how: "slope over bytes of one workgroup that stores tiles to the next rank", over: field("bytes", 1),
			rows: "kind peer_store or tile_store, pattern ring, programs 1; two sizes",
			value: func(c *calibration, r *Row) float64 {
				if r.Workload.Kind == "peer_store" && len(c.where("kind tile_store")) > 0 {
					return math.NaN()
				}
				return seconds(c, r)
			},
		},
		stores("ring", "best rate of kernels that all store to the next rank"),
		stores("spread", "best rate of kernels that store to all ranks"),
		stores("incast", "best rate into one rank that all others store to"),
	}
}
