package calibrate

import (
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/overlapse/overlapse/replay/machine"
)

func matmulRules() []rule {
	const cool = "kind gemm with cool: GEMMs of several sizes after a pause, some of one wave, some of many; and tiles"
	const named = "kind gemm with kernel_name: 50 GEMMs and more of several sizes; or " + cool
	tiles := func(read func(f *reading, t tileFit)) func(*calibration) reading {
		return func(c *calibration) reading {
			t, ok := c.fitTiles()
			if !ok {
				return reading{}
			}
			f := reading{rows: t.rows, residual: t.residual}
			read(&f, t)
			return f
		}
	}
	list := []rule{
		{
			"matmul.clusters", "as kernels' names have them, the most frequent of each tile; tiles that were not seen as before", "kind gemm with kernel_name", readClusters,
		},
		{
			"matmul.rate", "time over waves and multiply-adds a tile, tiles as kernels' names have them", named,
			tiles(func(f *reading, t tileFit) { f.value = t.m.Matmul.Rate.Value }),
		},
		{
			"matmul.tile_start", "the same at no multiply-adds", named,
			tiles(func(f *reading, t tileFit) { f.value = t.m.Matmul.TileStart.Value }),
		},
		{
			"matmul.exposed", "the same over the memory's time for the operands", named + " of few rows by large matrices",
			tiles(func(f *reading, t tileFit) { f.value = t.m.Matmul.Exposed.Value }),
		},
		{
			"matmul.reduce", "what that leaves of GEMMs whose tiles are split along K, less the sums' traffic, median", "kind gemm with kernel_name: GEMMs of few tiles and great depth",
			tiles(func(f *reading, t tileFit) { f.rows, f.value, f.residual = t.split, t.m.Matmul.Reduce.Value, 0 }),
		},
		{
			"matmul.tiles", "tiles as kernels' names have them; preferences that best reproduce which the library takes, and the times; slowness: median over rows of what the law leaves", named,
			tiles(func(f *reading, t tileFit) { f.table = t.m.Matmul.Tiles.Rows }),
		},
		{
			"matmul.shapes", "time of the row less launch.timing", cool,
			func(c *calibration) reading {
				f := reading{rows: c.cool()}
				for _, r := range f.rows {
					f.table = append(f.table, []float64{float64(r.Workload.M), float64(r.Workload.N), float64(r.Workload.K), r.Us*1e-6 - c.starting(r)})
				}
				return f
			},
		},
		{
			"matmul.taken", "the kernels' names, where the law prefers another tile; of GEMMs that no row has, as before", named,
			tiles(func(f *reading, t tileFit) { f.residual, f.table = 0, t.taken() }),
		},
		{
			"gpu.flops", "best GEMM of at least 4 waves", cool,
			func(c *calibration) reading {
				f := reading{}
				for _, r := range c.cool() {
					w := r.Workload
					t := c.m.Tiling(w.M, w.N, w.K)
					if v := 2 * float64(w.M) * float64(w.N) * float64(w.K) / t.Seconds; t.Waves >= 4 && v > f.value {
						f.value, f.rows = v, []Row{r}
					}
				}
				return f
			},
		},
		{
			"matmul.owned", "tiles owned that best explain the time while a kernel holds CUs from start to end", "strategy held_slots, kind gemm, held_cus 0 and several more, hold_us beyond the end", readOwned,
		},
		{
			"matmul.compiled", "two tiles of compiled GEMMs on each CU", "kind gemm+gemm, part producer or consumer, with a grid of more than the CUs and at most twice",
			func(c *calibration) reading { return c.readCompiled(2) },
		},
		{
			"matmul.lone", "one tile of compiled GEMMs on some of the CUs, median", "kind gemm+gemm, part producer or consumer, with a grid of at most the CUs",
			func(c *calibration) reading { return c.readCompiled(1) },
		},
		{
			"matmul.crowd", "time of a compiled tile over the idle fraction of the CUs", "kind gemm+collective, part compute, tile, with programs up to the CUs", readCrowd,
		},
	}
	return append(list, clockRules()...)
}

// clusterName is cuBLAS's: tile, depth and stages, cluster.
var clusterName = regexp.MustCompile(`^nvjet_\w*?_(\d+)x(\d+)_\d+x\d+_(\d+)x(\d+)_`)

func readClusters(c *calibration) reading {
	f := reading{}
	seen := map[[2]float64]map[[2]float64]int{}
	for _, r := range c.rows {
		n := clusterName.FindStringSubmatch(r.Params.KernelName)
		if n == nil {
			continue
		}
		var v [4]float64
		for i := range v {
			v[i], _ = strconv.ParseFloat(n[i+1], 64)
		}
		tile, cluster := [2]float64(v[:2]), [2]float64(v[2:])
		if seen[tile] == nil {
			seen[tile] = map[[2]float64]int{}
		}
		seen[tile][cluster]++
		f.rows = append(f.rows, r)
	}
	for _, old := range c.m.Matmul.Clusters.Rows {
		if tile := [2]float64(old[:2]); seen[tile] == nil {
			seen[tile] = map[[2]float64]int{[2]float64(old[2:]): 1}
		}
	}
	for tile, clusters := range seen {
		best, most := [2]float64{}, 0
		for cluster, n := range clusters {
			if n > most || n == most && slices.Compare(cluster[:], best[:]) < 0 {
				best, most = cluster, n
			}
		}
		f.table = append(f.table, []float64{tile[0], tile[1], best[0], best[1]})
	}
	return f
}

func (c *calibration) cool() []Row {
	return c.pick(func(r *Row) bool { return r.Workload.Kind == "gemm" && r.Strategy == "isolated" && r.Params.Cool })
}

// readOwned tries how many tiles each persistent workgroup owns. While H CUs
// are held to the end, their workgroups start only when others have left, with
// the tiles they own; everybody else shares the rest (rule D12).
func readOwned(c *calibration) reading {
	rows := c.pick(func(r *Row) bool {
		return r.Strategy == "held_slots" && r.Workload.Kind == "gemm" && (r.Params.HeldCUs == 0 || r.Params.HoldUs > r.Us)
	})
	base := map[[3]int64]float64{} // time with nothing held
	for _, r := range rows {
		if r.Params.HeldCUs == 0 {
			base[[3]int64{r.Workload.M, r.Workload.N, r.Workload.K}] = r.Us
		}
	}
	f := reading{residual: math.Inf(1)}
	for _, r := range rows {
		w := r.Workload
		if r.Params.HeldCUs > 0 && c.m.Dynamic(c.m.Tiling(w.M, w.N, w.K)) { // else all tiles are owned
			f.rows = append(f.rows, r)
		}
	}
	for owned := 1; owned <= 8; owned++ {
		var res []float64
		for _, r := range f.rows {
			w := r.Workload
			t := c.m.Tiling(w.M, w.N, w.K)
			alone, ok := base[[3]int64{w.M, w.N, w.K}]
			if !ok {
				continue
			}
			waves := heldWaves(c.m, t, r.Params.HeldCUs, owned)
			res = append(res, off(float64(waves)/float64(t.Waves), r.Us/alone))
		}
		if len(res) == 0 {
			return reading{}
		}
		if m := median(res); m < f.residual {
			f.value, f.residual = float64(owned), m
		}
	}
	return f
}

// heldWaves is how many tile times a GEMM takes while some CUs are held to
// its end. Clusters that find no room own their tiles nonetheless: they start
// when others have asked for a tile in vain.
func heldWaves(m machine.Machine, t machine.Tiling, held int, owned int) int {
	size := max(1, m.Cluster(t))
	all := t.Tiles / size
	free := m.GPU.Clusters(size, held)
	late := min(all, m.GPU.Clusters(size, 0)) - free
	switch {
	case free <= 0:
		return math.MaxInt32
	case late <= 0:
		return machine.CeilDiv(all, free)
	}
	handed := max(0, all-owned*late)
	full, over := handed/free, handed%free // so many run a tile more
	switch {
	case over == 0:
		return full + owned*machine.CeilDiv(late, free)
	case late <= free-over:
		return full + max(1, owned)
	}
	return full + 1 + owned*machine.CeilDiv(late-(free-over), free)
}

// readCompiled is what kernels reach whose grid fills a number of slots of each CU.
func (c *calibration) readCompiled(slots float64) reading {
	f := reading{}
	cus := c.m.GPU.CUs.Value
	var rates []float64
	for _, r := range c.kind("gemm+gemm") {
		w := r.Workload
		part := slices.Index([]string{"producer", "consumer"}, w.Part)
		if part < 0 || len(w.Grids) != 2 || len(w.Tile) != 3 {
			continue
		}
		grid, depth := float64(w.Grids[part]), [...]int64{w.Hidden, w.FFN}[part]
		if math.Ceil(grid/cus) != slots {
			continue
		}
		tile := 2 * float64(w.Tile[0]*w.Tile[1]) * float64(depth)
		rates = append(rates, slots*tile*cus/c.seconds(r))
		f.rows = append(f.rows, r)
	}
	f.value = median(rates)
	var res []float64
	for _, v := range rates {
		res = append(res, off(f.value, v))
	}
	f.residual = median(res)
	return f
}

func readCrowd(c *calibration) reading {
	f := reading{}
	cus := c.m.GPU.CUs.Value
	rows := c.pick(func(r *Row) bool {
		w := r.Workload
		return w.Kind == "gemm+collective" && w.Part == "compute" && r.Strategy == "isolated" && w.Tile != nil && r.Params.Programs > 0 && float64(r.Params.Programs) <= cus
	})
	tile := func(r Row) float64 {
		return c.seconds(r) / math.Ceil(float64(r.Workload.Tiles)/float64(r.Params.Programs))
	}
	all := map[string][]float64{}
	for _, r := range rows {
		if float64(r.Params.Programs) == cus {
			all[r.Workload.Name] = append(all[r.Workload.Name], tile(r))
		}
	}
	full := map[string]float64{}
	for name, repeats := range all {
		full[name] = median(repeats)
	}
	var gains []float64
	for _, r := range rows {
		idle := 1 - float64(r.Params.Programs)/cus
		if t, ok := full[r.Workload.Name]; ok && idle > 0 {
			gains = append(gains, (1-tile(r)/t)/idle)
			f.rows = append(f.rows, r)
		}
	}
	f.value = median(gains)
	var res []float64
	for _, r := range f.rows {
		res = append(res, off(full[r.Workload.Name]*(1-f.value*(1-float64(r.Params.Programs)/cus)), tile(r)))
	}
	f.residual = median(res)
	return f
}
