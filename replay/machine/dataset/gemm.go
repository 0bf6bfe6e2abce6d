package dataset

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
)

// gemmLaw is the time of the library's GEMMs by their tiles, and which tile it takes.
func gemmLaw() law {
	l := law{
		name:   "GEMMs of other sizes",
		keys:   []string{"matmul.rate", "matmul.tile_start", "matmul.exposed", "matmul.reduce", "matmul.tiles"},
		need:   "kind gemm; 50 and more of several sizes with kernel_name, or with cool: some of one wave, some of many",
		rows:   func(c *calibration) []Row { rows, _ := c.tileRows(); return rows },
		weight: func(measured float64) float64 { return min(1, measured/shortKernel) },
		predict: func(c *calibration, r *Row) (predicted, measured float64) {
			m := c.m
			m.Matmul.Shapes = machine.Table{Mark: machine.Unknown}
			w := r.Workload
			return m.Preferred(w.M, w.N, w.K).Seconds, seconds(c, r) - c.timing(r)
		},
	}
	l.ways = []way{
		{how: "time of GEMMs, the base's rate times one factor", keys: l.keys[:1]},
		{
			how: "time of GEMMs over waves, multiply-adds a tile and the memory's time for the operands", keys: l.keys[:3],
			fit: func(c *calibration) bool { return c.fitTiles(l, false) },
		},
		{
			how:  "time of GEMMs by the tiles of their kernels' names, each with its slowness; preferences that best reproduce which the library takes, and the times",
			keys: l.keys, fit: func(c *calibration) bool { return c.fitTiles(l, true) },
		},
	}
	return l
}

// shortKernel is the time in seconds below which a GEMM counts for less: what lies between
// kernels matters as much.
const shortKernel = 50e-6

// clusterName is cuBLAS's: tile, depth and stages, cluster.
var clusterName = regexp.MustCompile(`^nvjet_\w*?_(\d+)x(\d+)_\d+x\d+_(\d+)x(\d+)_`)

// A tileName is what a kernel's name says of how it computes.
type tileName struct {
	rows, columns int
	split         bool // along K
}

// tileOf is the tile and the cluster that the name of a GEMM's kernel has.
func tileOf(r *Row) (t tileName, cluster [2]float64, ok bool) {
	n := clusterName.FindStringSubmatch(r.Params.KernelName)
	if n == nil || r.Workload.Kind != "gemm" {
		return t, cluster, false
	}
	t.rows, _ = strconv.Atoi(n[1])
	t.columns, _ = strconv.Atoi(n[2])
	t.split = strings.Contains(r.Params.KernelName, "splitK")
	for i := range cluster {
		cluster[i], _ = strconv.ParseFloat(n[3+i], 64)
	}
	return t, cluster, true
}

// enoughNamed is from how many rows on that name their kernels the law and the
// library's preferences are read off those.
const enoughNamed = 50

// tileRows are the rows that tiles are read off: those that name their kernels where they
// are enough, else all GEMMs after a pause.
func (c *calibration) tileRows() (rows []Row, named bool) {
	isNamed := func(r *Row) bool { _, _, ok := tileOf(r); return ok }
	if rows = c.where("kind gemm", isNamed); len(rows) >= enoughNamed {
		return rows, true
	}
	return c.where(coolRows), false
}

func readClusters(c *calibration) (f reading) {
	seen := map[[2]float64]map[[2]float64]int{}
	count := func(tile, cluster [2]float64) {
		if seen[tile] == nil {
			seen[tile] = map[[2]float64]int{}
		}
		seen[tile][cluster]++
	}
	for _, r := range c.where("kind gemm") {
		if n, cluster, ok := tileOf(&r); ok {
			count([2]float64{float64(n.rows), float64(n.columns)}, cluster)
			f.rows = append(f.rows, r)
		}
	}
	for _, old := range c.m.Matmul.Clusters.Rows {
		if seen[[2]float64(old[:2])] == nil {
			count([2]float64(old[:2]), [2]float64(old[2:]))
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
			return c.where("strategy held_slots, kind gemm, with held_cus", func(r *Row) bool {
				w := r.Workload // where tiles are not handed out, all are owned
				return held(r) && c.m.Dynamic(c.m.Tiling(w.M, w.N, w.K))
			})
		},
		predict: func(c *calibration, r *Row) (predicted, measured float64) {
			w := r.Workload
			for i := range c.all { // the time with nothing held
				b := &c.all[i]
				if held(b) && b.Params.HeldCUs == 0 && b.Workload.M == w.M && b.Workload.N == w.N && b.Workload.K == w.K {
					t := c.m.Tiling(w.M, w.N, w.K)
					waves := heldWaves(c.m, t, r.Params.HeldCUs, int(c.m.Matmul.Owned.Or(1)))
					return seconds(c, b) * float64(waves) / float64(t.Waves), seconds(c, r)
				}
			}
			return 0, 0
		},
	}
	l.ways = []way{{
		how: "tiles owned that best explain the time while a kernel holds CUs from start to end", keys: l.keys,
		fit: func(c *calibration) bool {
			rows := l.rows(c)
			c.m.Matmul.Owned.Mark = machine.Sourced
			best, least := 0.0, math.Inf(1)
			for owned := 1.0; owned <= 8; owned++ {
				c.m.Matmul.Owned.Value = owned
				if e := l.error(c, rows); e < least {
					best, least = owned, e
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
