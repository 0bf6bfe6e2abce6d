package calibrate

import (
	"fmt"

	"github.com/overlapse/overlapse/replay/machine"
)

func memoryRules() []rule {
	return []rule{
		{
			"gpu.memory", "bytes read and written by a large copy", "kind hbm_copy",
			func(c *calibration) reading {
				rows := c.kind("hbm_copy")
				if len(rows) == 0 {
					return reading{}
				}
				r := rows[len(rows)-1]
				return reading{value: 2 * float64(r.Workload.Bytes) / c.seconds(r), rows: rows[len(rows)-1:]}
			},
		},
		{
			"gpu.groups", "CUs that clusters of workgroups share, by the size of their group", "kind cu_groups", readGroups,
		},
		{"gpu.read", "slope over bytes of GEMVs of 64 MiB and more", "kind gemv of 64 MiB and more, two sizes", readRead},
		{
			"gpu.stream", "bytes a second of a triad by workgroups", "kind triad with programs",
			readRates("triad", func(r *Row) int { return r.Params.Programs }),
		},
		{
			"gpu.sum", "bytes a second of the result of adding so many, in PyTorch", "kind sum with pool",
			readRates("sum", func(r *Row) int { return int(r.Workload.Pool) }),
		},
		{
			"gpu.post", "a round of storing a tile and posting a semaphore behind it less one of storing only, one workgroup a CU at most", "kind semaphore, what post, with posts 0 and 1", readPost,
		},
		{
			"gpu.poll", "slope over waits for semaphores that are posted already, of a GEMM with one workgroup a CU", "kind semaphore, what product, two numbers of waits from 1 on", readPoll,
		},
		{
			"gpu.gather", "bytes a second of pooled embedding rows by workgroups, median over sizes", "kind embedding+collective, part compute, with programs",
			func(c *calibration) reading { return readGather(c, false) },
		},
		{
			"gpu.gather_fused", "the same of the kernel that can store to peers", "the same with same_build",
			func(c *calibration) reading { return readGather(c, true) },
		},
	}
}

// readRates reads a table of bytes a second off all rows of a kind, by a number of theirs:
// the median of repeats.
func readRates(kind string, by func(*Row) int) func(*calibration) reading {
	return func(c *calibration) reading {
		f := medians(c.kind(kind), 1, func(r *Row) [3]float64 { return [3]float64{float64(by(r))} }, func(r *Row) float64 { return bytesOf(r) / c.seconds(*r) })
		f.residual = 0
		return f
	}
}

// readGroups counts groups by their size. The residual is the share of CUs that a
// plain grid fills in another order than Grouping says, groups of one size being alike.
func readGroups(c *calibration) reading {
	rows := c.kind("cu_groups")
	if len(rows) == 0 {
		return reading{}
	}
	f := reading{rows: rows[len(rows)-1:]}
	p := f.rows[0].Params
	number, size := map[int]int{}, map[int]int{}
	cus := 0
	for _, g := range p.Groups {
		cus += len(g)
	}
	if cus != int(c.m.GPU.CUs.Value) {
		f.why = fmt.Sprintf("the rows' groups have %d CUs, the base %v (--base of another GPU?)", cus, c.m.GPU.CUs.Value)
		return f
	}
	for _, g := range p.Groups {
		number[len(g)]++
		for _, cu := range g {
			size[cu] = len(g)
		}
	}
	for n, k := range number {
		f.table = append(f.table, []float64{float64(n), float64(k)})
	}
	g := machine.GPU{Groups: machine.Table{Rows: tidy(f.table, []machine.Dimension{machine.Count, machine.Count})}}
	order := g.Grouping()
	sizes := map[int]int{}
	for _, group := range order {
		sizes[group]++
	}
	for i, cu := range p.FillOrder {
		if i >= len(order) || sizes[order[i]] != size[cu] {
			f.residual += 1 / float64(len(p.FillOrder))
		}
	}
	return f
}

func readRead(c *calibration) reading {
	bytes := func(r *Row) float64 { return 2 * float64(r.Workload.N) * float64(r.Workload.K) }
	rows := c.kind("gemv", func(r *Row) bool { return bytes(r) >= 64<<20 })
	f, _, _ := slope(rows, bytes, func(r *Row) float64 { return c.seconds(*r) })
	f.value = 1 / f.value
	return f
}

// readGather takes the median over sizes at each number of workgroups. More
// workgroups than any GPU holds at once stand for "one a row": the plain grid.
func readGather(c *calibration, fused bool) reading {
	rows := c.kind("embedding+collective", func(r *Row) bool {
		w, n := &r.Workload, r.Params.Programs
		return w.Part == "compute" && w.SameBuild == fused && n != 0 && w.DType == "f32" && float64(n) <= c.m.GPU.CUs.Value*c.m.GPU.WGs.Value
	})
	return medians(rows, 1, func(r *Row) [3]float64 { return [3]float64{float64(r.Params.Programs)} }, func(r *Row) float64 {
		w := &r.Workload
		return 4 * float64(w.Batch*w.Tables*w.Pool*w.Dim) / c.seconds(*r)
	})
}

func fabricRules() []rule {
	copied := func(c *calibration) reading {
		f, _ := readCopies(c)
		return f
	}
	const how, need = "slope over bytes of peer copies of 16 MiB and more, all GPUs at once to the next", "kind p2p_copy_ring at two sizes of 16 MiB and more"
	return []rule{
		{"fabric.egress", how, need, copied},
		{"fabric.ingress", how, need, copied},
		{"fabric.pair", how, need, copied},
		{"engines.rate", how, need, copied},
		{
			"engines.latency", "peer copy between GEMMs of another stream: from the end of one to the start of the next, less the bytes at engines.rate and launch.hop; without such rows the line over bytes of copies at none, less launch.timing",
			"kind gap, what copy; or " + need, readCopyLatency,
		},
		{
			"fabric.fence", "each further flag of a round in which one workgroup stores little, posts flags and waits for as many, median",
			"kind peer_flag, 1 program, with 1 and with more flags", readFence,
		},
		{
			"fabric.latency", "the round with one flag, less fabric.fence", "kind peer_flag, 1 program, bytes up to 128",
			func(c *calibration) reading { return c.beyond(mean(c.rounds(1), 1), c.m.Fabric.Fence) },
		},
		{
			"fabric.message", "shortest round a flag of many workgroups", "kind peer_flag with programs from 64 on, bytes up to 128", readMessage,
		},
		{"fabric.store_cu", "slope over bytes of one workgroup that stores tiles to the next rank", "kind peer_store or tile_store, pattern ring, 1 program, two sizes", readStoreCU},
		{
			"fabric.store_ring", "best rate of kernels that all store to the next rank", "kind tile_store or peer_store, pattern ring",
			func(c *calibration) reading { return readStores(c, "ring", 1) },
		},
		{
			"fabric.store_spread", "best rate of kernels that store to all ranks", "kind tile_store or peer_store, pattern spread",
			func(c *calibration) reading { return readStores(c, "spread", 1) },
		},
		{
			"fabric.store_incast", "best rate into one rank that all others store to", "kind tile_store or peer_store, pattern incast",
			func(c *calibration) reading { return readStores(c, "incast", -1) },
		},
	}
}

// readCopies is the rate of a copy engine and its latency.
func readCopies(c *calibration) (f reading, start float64) {
	rows := c.kind("p2p_copy_ring", func(r *Row) bool { return r.Workload.Bytes >= 16<<20 })
	f, start, b := slope(rows, bytesOf, func(r *Row) float64 { return c.seconds(*r) })
	f.value, f.residual = 1/b, 0
	return f, start
}

func bytesOf(r *Row) float64 { return float64(r.Workload.Bytes) }

// readCopyLatency is what a copy between kernels takes at no bytes. Copies that nothing waits
// for start sooner: the engine's queue hides most of it.
func readCopyLatency(c *calibration) reading {
	between := middle(c.kind("gap"), func(r *Row) (float64, bool) {
		seconds := (r.Us+r.Params.CopyUs)*1e-6 - float64(r.Params.CopyBytes)/c.m.Engines.Rate.Value - c.m.Launch.Hop.Value
		return seconds, r.Workload.What == "copy" && r.Params.CopyBytes > 0 && r.Params.CopyUs > 0
	})
	if len(between.rows) > 0 {
		return between
	}
	f, start := readCopies(c)
	f.value = start
	return f
}

func readStoreCU(c *calibration) reading {
	one := func(r *Row) bool { return r.Workload.Pattern == "ring" && r.Params.Programs == 1 }
	rows := c.kind("tile_store", one)
	if len(c.kind("tile_store")) == 0 {
		rows = c.kind("peer_store", one)
	}
	f, _, b := slope(rows, bytesOf, func(r *Row) float64 { return r.Us * 1e-6 })
	f.value = 1 / b
	return f
}

// readStores is the best rate of a pattern. ranks is how many of them share
// what is read: 1, or -1 for all but one.
func readStores(c *calibration, pattern string, ranks float64) reading {
	return best(append(c.kind("tile_store"), c.kind("peer_store")...), func(r *Row) float64 {
		// A store kernel writes megabytes; few workgroups do not saturate a link.
		if r.Workload.Pattern != pattern || float64(r.Params.Programs) < c.m.GPU.CUs.Value || r.Workload.Bytes < 16<<20 {
			return 0
		}
		share, seconds := ranks, r.Us*1e-6
		if ranks < 0 {
			share = float64(r.World - 1)
		}
		if r.Workload.Kind == "peer_store" {
			seconds = c.seconds(*r)
		}
		return share * float64(r.Workload.Bytes) / seconds
	})
}
