package calibrate

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
)

// A tileFit is the machine with Rate, TileStart, Exposed, Reduce and the tiles as the rows have them.
type tileFit struct {
	m        machine.Machine
	rows     []Row
	named    bool        // they name their kernels
	before   [][]float64 // what the base has of tiles that were taken
	residual float64
}

// enoughNamed is from how many rows on that name their kernels the law and the
// library's preferences are read off those.
const enoughNamed = 50

// fitTiles settles the law of tiles and, with choices, what differs between tiles and which
// the library prefers, where enough rows name their kernels. Where they do not, which tile
// each row had hangs on the law itself: so it goes in turns. Where two tiles are about as
// good, the choices may go round in a circle: after twenty turns, which are more than it
// takes to come to it, the turn that leaves least counts.
func (c *calibration) fitTiles(choices bool) (tileFit, bool) {
	t := c.tileFit()
	named := len(t.rows) >= enoughNamed && t.named
	if choices && named {
		t.candidates()
	}
	if len(t.rows) < 4 || !t.m.Matmul.Tiles.Known() {
		return tileFit{}, false
	}
	best := tileFit{residual: math.Inf(1)}
	for turn := range 40 {
		if !t.line() {
			return tileFit{}, false
		}
		if choices {
			t.slowness()
			t.reduce()
		}
		var res []float64
		for _, r := range t.rows {
			res = append(res, off(c.starting(r)+t.tiling(r).Seconds, r.Us*1e-6))
		}
		if t.residual = median(res); turn >= 20 && t.residual < best.residual {
			best = t
			best.m = clone(t.m)
		}
	}
	if choices && named {
		best.prefer()
	}
	return best, true
}

// tileRows are the rows that tiles are read off: those that name their kernels where they
// are enough, else all GEMMs after a pause.
func (c *calibration) tileRows() []Row {
	named := c.pick(func(r *Row) bool { _, ok := tileOf(r); return ok })
	if len(named) >= enoughNamed {
		return named
	}
	return c.cool()
}

// tileFit is where fits of tiles begin: the machine without what it has recorded.
func (c *calibration) tileFit() tileFit {
	t := tileFit{m: clone(c.m), rows: c.tileRows(), before: c.m.Matmul.Taken.Rows}
	t.named = len(t.rows) > 0
	for i := range t.rows {
		_, ok := tileOf(&t.rows[i])
		t.named = t.named && ok
	}
	t.m.Matmul.Shapes = machine.Table{} // so that Tiling is the law
	t.m.Matmul.Taken = machine.Table{}
	return t
}

// A tileName is what a kernel's name says of how it computes.
type tileName struct {
	rows, columns int
	split         bool // along K
}

// tileOf is the tile that a row's kernel name has.
func tileOf(r *Row) (t tileName, ok bool) {
	n := clusterName.FindStringSubmatch(r.Params.KernelName)
	if n == nil || r.Workload.Kind != "gemm" || r.Strategy != "isolated" {
		return t, false
	}
	t.rows, _ = strconv.Atoi(n[1])
	t.columns, _ = strconv.Atoi(n[2])
	t.split = strings.Contains(r.Params.KernelName, "splitK")
	return t, true
}

// newcomer is where the search for a preference begins of a tile that the base lacks.
const newcomer = 1.1

// candidates adds tiles that several rows name.
func (t *tileFit) candidates() {
	seen := map[tileName]int{}
	for i := range t.rows {
		name, _ := tileOf(&t.rows[i])
		if name.split = false; t.index(name) < 0 {
			seen[name]++
		}
	}
	for name, n := range seen {
		if n >= 4 {
			t.m.Matmul.Tiles.Rows = append(t.m.Matmul.Tiles.Rows, []float64{float64(name.rows), float64(name.columns), newcomer, 1})
		}
	}
	slices.SortFunc(t.m.Matmul.Tiles.Rows, slices.Compare[[]float64])
}

// index is the candidate of a tile, or -1.
func (t *tileFit) index(n tileName) int {
	return slices.IndexFunc(t.m.Matmul.Tiles.Rows, func(c []float64) bool { return int(c[0]) == n.rows && int(c[1]) == n.columns })
}

// tiling is how a row was computed: as its kernel's name says, else as the law has it.
func (t *tileFit) tiling(r Row) machine.Tiling {
	w := r.Workload
	n, ok := tileOf(&r)
	if !ok {
		return t.m.Preferred(w.M, w.N, w.K)
	}
	splits := 1
	if n.split {
		splits = max(1, int(t.m.GPU.CUs.Value)/int(machine.CeilDiv(w.N, int64(n.rows))*machine.CeilDiv(w.M, int64(n.columns))))
	}
	return t.m.LawWithTile(w.M, w.N, w.K, n.rows, n.columns, splits)
}

// starting is what a row has beyond the kernel: events and launch.
func (c *calibration) starting(r Row) float64 {
	if r.Params.Kernel {
		return 0
	}
	return c.m.Launch.Timing.Value
}

// kernel is a row's time without that.
func (t *tileFit) kernel(r Row) float64 {
	c := calibration{m: t.m}
	return r.Us*1e-6 - c.starting(r)
}

// line settles Rate, TileStart and Exposed by the rows that the memory does not
// limit, of tiles that are candidates and whole.
func (t *tileFit) line() bool {
	var a [][]float64
	var y []float64
	for _, r := range t.rows {
		g := t.tiling(r)
		if g.InMemory || g.Splits > 1 || t.index(tileName{rows: g.Rows, columns: g.Columns}) < 0 {
			continue
		}
		w := r.Workload
		waves := float64(g.Waves)
		flop := 2 * float64(g.Rows) * float64(g.Columns) * float64(w.K) * t.m.GPU.CUs.Value * t.m.Matmul.Slowness(g.Rows, g.Columns)
		a = append(a, []float64{waves, waves * flop, t.m.Moving(w.M, w.N, w.K)})
		y = append(y, t.kernel(r))
	}
	x, ok := solve(a, y)
	if !ok || !(x[0] > 0) || !(x[1] > 0) {
		return false
	}
	t.m.Matmul.TileStart.Value, t.m.Matmul.Rate.Value, t.m.Matmul.Exposed.Value = x[0], 1/x[1], max(leastExposed, x[2])
	return true
}

// leastExposed stands for none: rows that the memory's part does not show in.
const leastExposed = 1e-4

// slowness is the median of what the line leaves of each tile. The most
// frequent tile is the reference; those seen once only keep 1.
func (t *tileFit) slowness() {
	mm := &t.m.Matmul
	left := make([][]float64, len(mm.Tiles.Rows))
	for _, r := range t.rows {
		g, w := t.tiling(r), r.Workload
		i := t.index(tileName{rows: g.Rows, columns: g.Columns})
		if g.InMemory || g.Splits > 1 || i < 0 {
			continue
		}
		exposed := mm.Exposed.Value * t.m.Moving(w.M, w.N, w.K)
		loop := 2 * float64(g.Rows) * float64(g.Columns) * float64(w.K) * t.m.GPU.CUs.Value / mm.Rate.Value
		left[i] = append(left[i], ((t.kernel(r)-exposed)/float64(g.Waves)-mm.TileStart.Value)/loop)
	}
	reference := 0
	for i := range left {
		if len(left[i]) > len(left[reference]) {
			reference = i
		}
	}
	for i, tile := range mm.Tiles.Rows {
		tile[3] = 1
		if i != reference && len(left[i]) > 1 {
			tile[3] = median(left[i])
		}
	}
}

// reduce is the median of what that leaves of GEMMs in parts, beyond the sums' traffic.
func (t *tileFit) reduce() {
	var left []float64
	for _, r := range t.rows {
		if g := t.tiling(r); g.Splits > 1 {
			left = append(left, t.kernel(r)-g.Seconds+t.m.Matmul.Reduce.Or(0))
		}
	}
	if len(left) > 0 {
		t.m.Matmul.Reduce = machine.Quantity{Value: max(1e-9, median(left)), Source: "rows"}
	}
}

// Preferences are searched on a grid, one tile after the other: a tile
// that the library does not take counts as much as an error of so much of the time.
const (
	leastPreference, mostPreference = 188, 260 // over preferenceGrid
	preferenceGrid                  = 200
	preferenceRounds                = 6
	wrongTile                       = 0.05
	shortKernel                     = 50e-6 // seconds below which a row counts for less: what lies between kernels matters as much
)

// prefer settles the candidates' preferences.
func (t *tileFit) prefer() {
	type option struct {
		tile                        int
		expected, reducing, missing float64 // seconds; what choosing it is off by
	}
	mm := &t.m.Matmul
	var options [][]option
	for _, r := range t.rows {
		w := r.Workload
		n, _ := tileOf(&r)
		var of []option
		for i, c := range mm.Tiles.Rows {
			for _, splits := range t.m.Splits(w.M, w.N, w.K, int(c[0]), int(c[1])) {
				g := t.m.LawWithTile(w.M, w.N, w.K, int(c[0]), int(c[1]), splits)
				loop := 2 * c[0] * c[1] * float64(w.K) / float64(splits) * t.m.GPU.CUs.Value / mm.Rate.Value
				o := option{i, float64(g.Waves) * (mm.TileStart.Value + loop), t.m.Reducing(w.M, w.N, splits), min(0.5, off(g.Seconds, t.kernel(r)))}
				if g.Rows != n.rows || g.Columns != n.columns || n.split != (splits > 1) {
					o.missing += wrongTile
				}
				o.missing *= min(1, t.kernel(r)/shortKernel)
				of = append(of, o)
			}
		}
		options = append(options, of)
	}
	score := func() (sum float64) {
		for _, of := range options {
			missing, least := 0.0, math.Inf(1)
			for _, o := range of {
				if e := o.expected*mm.Tiles.Rows[o.tile][2] + o.reducing; e < least {
					missing, least = o.missing, e
				}
			}
			sum += missing
		}
		return sum
	}
	best := score()
	for range preferenceRounds {
		for _, tile := range mm.Tiles.Rows {
			kept := tile[2]
			for p := leastPreference; p <= mostPreference; p++ {
				tile[2] = float64(p) / preferenceGrid
				if s := score(); s < best-1e-9 {
					best, kept = s, tile[2]
				}
			}
			tile[2] = kept
		}
	}
}

// taken lists the GEMMs of which a kernel's name says that the library takes
// another tile than it is expected to prefer.
func (t *tileFit) taken() (list [][]float64) {
	type product [3]int64
	named := map[product]bool{}
	for _, r := range t.rows {
		w := r.Workload
		p := product{w.M, w.N, w.K}
		if _, ok := tileOf(&r); !ok || named[p] {
			continue
		}
		named[p] = true
		is, law := t.tiling(r), t.m.Preferred(w.M, w.N, w.K)
		if is.Rows != law.Rows || is.Columns != law.Columns || is.Splits != law.Splits {
			list = append(list, []float64{float64(w.M), float64(w.N), float64(w.K), float64(is.Rows), float64(is.Columns), float64(is.Splits)})
		}
	}
	for _, b := range t.before {
		if !named[product{int64(b[0]), int64(b[1]), int64(b[2])}] {
			list = append(list, b)
		}
	}
	return list
}
