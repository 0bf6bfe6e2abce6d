package calibrate

import (
	"math"
	"regexp"
	"slices"
	"strconv"

	"github.com/overlapse/overlapse/replay/machine"
)

const (
	coolRows  = "kind gemm with cool: GEMMs of several sizes after a pause, some of one wave, some of many; and tiles"
	namedRows = "kind gemm with kernel_name: 50 GEMMs and more of several sizes; or " + coolRows
)

func clusterRules() []rule {
	return []rule{{
		"matmul.clusters", "as kernels' names have them, the most frequent of each tile; tiles that were not seen as before", "kind gemm with kernel_name", readClusters,
	}}
}

// gemmLaw is the time of the library's GEMMs by their tiles, and which tile it takes.
func gemmLaw() law {
	l := law{
		name:   "GEMMs of other sizes",
		keys:   []string{"matmul.rate", "matmul.tile_start", "matmul.exposed", "matmul.reduce", "matmul.tiles"},
		need:   namedRows,
		rows:   func(c *calibration) []Row { return c.tileRows() },
		weight: func(measured float64) float64 { return min(1, measured/shortKernel) },
		predict: func(c *calibration, r *Row) (predicted, measured float64) {
			m := c.m
			m.Matmul.Shapes, m.Matmul.Taken = machine.Table{Mark: machine.Unknown}, machine.Table{Mark: machine.Unknown}
			w := r.Workload
			return m.Preferred(w.M, w.N, w.K).Seconds, r.Us*1e-6 - c.starting(*r)
		},
	}
	line := []string{"matmul.rate", "matmul.tile_start", "matmul.exposed"}
	l.ways = []way{
		l.scaled("time of GEMMs, the base's rate times one factor", line[0]),
		{how: "time of GEMMs over waves, multiply-adds a tile and the memory's time for the operands", keys: line, fit: func(c *calibration) bool {
			t, ok := c.fitTiles(false)
			if ok {
				mm := &c.m.Matmul
				mm.Rate.Value, mm.TileStart.Value, mm.Exposed.Value = t.m.Matmul.Rate.Value, t.m.Matmul.TileStart.Value, t.m.Matmul.Exposed.Value
			}
			return ok
		}},
		{how: "time of GEMMs by the tiles of their kernels' names, each with its slowness; preferences that best reproduce which the library takes, and the times", keys: l.keys, fit: func(c *calibration) bool {
			t, ok := c.fitTiles(true)
			if ok {
				shapes, taken := c.m.Matmul.Shapes, c.m.Matmul.Taken
				c.m.Matmul = t.m.Matmul
				c.m.Matmul.Shapes, c.m.Matmul.Taken = shapes, taken
			}
			return ok
		}},
	}
	return l
}

func matmulRules() []rule {
	return []rule{
		{
			"matmul.shapes", "time of the row less launch.timing, median of repeats", coolRows,
			func(c *calibration) reading {
				seconds := func(r *Row) float64 { return r.Us*1e-6 - c.starting(*r) }
				f := medians(c.pick(func(r *Row) bool { return isCool(r) && seconds(r) > 0 }), 3, func(r *Row) [3]float64 {
					return [3]float64{float64(r.Workload.M), float64(r.Workload.N), float64(r.Workload.K)}
				}, seconds)
				f.rows, f.residual = c.cool(), 0
				return f
			},
		},
		{
			"matmul.taken", "the kernels' names, where the law prefers another tile; of GEMMs that no row has, as before", namedRows,
			func(c *calibration) reading {
				t := c.tileFit()
				return reading{rows: t.rows, table: t.taken()}
			},
		},
		{
			"gpu.flops", "best GEMM of at least 4 waves", coolRows,
			func(c *calibration) reading {
				return best(c.cool(), func(r *Row) float64 {
					w := r.Workload
					t := c.m.Tiling(w.M, w.N, w.K)
					if t.Waves < 4 {
						return 0
					}
					return 2 * float64(w.M) * float64(w.N) * float64(w.K) / t.Seconds
				})
			},
		},
	}
}

func compiledRules() []rule {
	return []rule{
		{
			"matmul.compiled", "two tiles of compiled GEMMs on each CU, the best", "kind compiled_gemm, one tile for each of twice as many programs as CUs",
			func(c *calibration) reading { return c.readCompiled(2, slices.Max[[]float64]) },
		},
		{
			"matmul.lone", "one tile of compiled GEMMs on some of the CUs, median", "kind compiled_gemm, one tile for each of as many programs as CUs or fewer",
			func(c *calibration) reading { return c.readCompiled(1, median) },
		},
		{
			"matmul.crowd", "time of a compiled tile over the idle fraction of the CUs", "kind compiled_gemm, several tiles a program, programs up to the CUs", readCrowd,
		},
	}
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

func (c *calibration) cool() []Row { return c.pick(isCool) }

func isCool(r *Row) bool {
	return r.Workload.Kind == "gemm" && r.Strategy == "isolated" && r.Params.Cool
}

// ownedLaw is how many tiles each persistent workgroup owns. While H CUs
// are held to the end, their workgroups start only when others have left, with
// the tiles they own; everybody else shares the rest (rule D12).
func ownedLaw() law {
	held := func(r *Row) bool {
		return r.Strategy == "held_slots" && r.Workload.Kind == "gemm" && (r.Params.HeldCUs == 0 || r.Params.HoldUs > r.Us)
	}
	l := law{
		name: "GEMMs on part of the CUs",
		keys: []string{"matmul.owned"},
		need: "strategy held_slots, kind gemm, held_cus 0 and several more, hold_us beyond the end",
		rows: func(c *calibration) []Row {
			return c.pick(func(r *Row) bool {
				w := r.Workload // where tiles are not handed out, all are owned
				return held(r) && r.Params.HeldCUs > 0 && c.m.Dynamic(c.m.Tiling(w.M, w.N, w.K))
			})
		},
		predict: func(c *calibration, r *Row) (predicted, measured float64) {
			w := r.Workload
			for i := range c.all { // the time with nothing held
				b := &c.all[i]
				if held(b) && b.Params.HeldCUs == 0 && b.Workload.M == w.M && b.Workload.N == w.N && b.Workload.K == w.K {
					t := c.m.Tiling(w.M, w.N, w.K)
					waves := heldWaves(c.m, t, r.Params.HeldCUs, int(c.m.Matmul.Owned.Or(1)))
					return b.Us * 1e-6 * float64(waves) / float64(t.Waves), r.Us * 1e-6
				}
			}
			return 0, 0
		},
	}
	l.ways = []way{{
		how: "tiles owned that best explain the time while a kernel holds CUs from start to end", keys: l.keys,
		fit: func(c *calibration) bool {
			rows, best, least := l.rows(c), 0.0, math.Inf(1)
			for owned := 1; owned <= 8; owned++ {
				c.m.Matmul.Owned.Value = float64(owned)
				if e := l.error(c, rows); e < least {
					best, least = float64(owned), e
				}
			}
			c.m.Matmul.Owned.Value = best
			return len(rows) > 0
		},
	}}
	return l
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

// A compiledTile is a row of compiled GEMM tiles in workgroups that have as many each.
type compiledTile struct {
	Row
	flop     float64 // of one tile
	programs int
	each     int // tiles of a workgroup, one after the other
}

// compiledTiles are the rows of compiled GEMMs alone.
func (c *calibration) compiledTiles() (list []compiledTile) {
	for _, r := range c.rows {
		w := &r.Workload
		if r.Strategy != "isolated" || len(w.Tile) != 3 {
			continue
		}
		area, programs := 2*float64(w.Tile[0]*w.Tile[1]), r.Params.Programs
		switch part := slices.Index([]string{"producer", "consumer"}, w.Part); {
		case w.Kind == "gemm+gemm" && part >= 0 && len(w.Grids) == 2:
			depth := [...]int64{w.Hidden, w.FFN}[part]
			list = append(list, compiledTile{r, area * float64(depth), w.Grids[part], 1})
		case (w.Kind == "compiled_gemm" || w.Kind == "gemm+collective" && w.Part == "compute") && programs > 0:
			list = append(list, compiledTile{r, area * float64(w.K), programs, machine.CeilDiv(w.Tiles, programs)})
		}
	}
	return list
}

// readCompiled is what kernels reach whose grid fills a number of slots of each CU.
func (c *calibration) readCompiled(slots float64, of func([]float64) float64) reading {
	f := reading{}
	cus := c.m.GPU.CUs.Value
	var rates []float64
	for _, x := range c.compiledTiles() {
		if x.each == 1 && math.Ceil(float64(x.programs)/cus) == slots {
			rates = append(rates, slots*x.flop*cus/c.seconds(x.Row))
			f.rows = append(f.rows, x.Row)
		}
	}
	if len(rates) == 0 {
		return f
	}
	f.value = of(rates)
	f.residual = residual(rates, func(v float64) (predicted, measured float64) { return f.value, v })
	return f
}

func readCrowd(c *calibration) reading {
	f := reading{}
	cus := c.m.GPU.CUs.Value
	all := map[float64][]float64{} // by multiply-adds of a tile: seconds of one with all CUs at work
	var list []compiledTile
	tile := func(x compiledTile) float64 { return c.seconds(x.Row) / float64(x.each) }
	for _, x := range c.compiledTiles() {
		if x.each > 1 && float64(x.programs) <= cus {
			list = append(list, x)
			if float64(x.programs) == cus {
				all[x.flop] = append(all[x.flop], tile(x))
			}
		}
	}
	full := map[float64]float64{}
	for flop, repeats := range all {
		full[flop] = median(repeats)
	}
	var gains []float64
	for _, x := range list {
		idle := 1 - float64(x.programs)/cus
		if t, ok := full[x.flop]; ok && idle > 0 {
			gains = append(gains, (1-tile(x)/t)/idle)
			f.rows = append(f.rows, x.Row)
		}
	}
	f.value = median(slices.Clone(gains))
	for i, g := range gains {
		gains[i] = math.Abs(g - f.value)
	}
	f.residual = median(gains)
	return f
}
