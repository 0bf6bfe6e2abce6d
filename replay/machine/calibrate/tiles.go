package calibrate

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/dataset"
	"github.com/overlapse/overlapse/replay/machine"
)

// A tileFit is a fit of Rate, TileStart, Exposed, Reduce and the tiles under way, on a machine without recorded times.
type tileFit struct {
	*calibration
	rows []dataset.Row
}

// fitTiles settles the law of tiles and, with choices, what differs between tiles and which
// the library prefers, where enough rows name their kernels. Where they do not, which tile
// each row had hangs on the law itself: so it goes in turns. Where two tiles are about as
// good, the choices may go round in a circle: after twenty turns, which are more than it
// takes to come to it, the turn that leaves least counts.
func (c *calibration) fitTiles(choices bool) bool {
	rows, named := c.tileRows()
	t := tileFit{c, rows}
	shapes := c.m.Matmul.Shapes
	c.m.Matmul.Shapes = machine.Table{}
	if choices && named {
		t.candidates()
	}
	if len(rows) < 4 || !c.m.Matmul.Tiles.Known() {
		return false
	}
	best, least := c.m, math.Inf(1)
	for turn := range 40 {
		if !t.line() {
			return false
		}
		if choices {
			t.slowness()
			t.reduce()
		}
		left := residual(c, rows, func(c *calibration, r *dataset.Row) (predicted, measured float64) {
			return c.timing(r) + c.tiling(r).Seconds, seconds(c, r)
		})
		if turn >= 20 && left < least {
			best, least = clone(c.m), left
		}
	}
	if c.m = best; choices && named {
		t.prefer()
	}
	c.m.Matmul.Shapes = shapes
	return true
}

// newcomer is where the search for a preference begins of a tile that the base lacks.
const newcomer = 1.1

// candidates adds tiles that several rows name.
func (t *tileFit) candidates() {
	seen := map[tileName]int{}
	for i := range t.rows {
		name, _, _ := tileOf(&t.rows[i])
		if name.split = false; t.index(name.rows, name.columns) < 0 {
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
func (c *calibration) index(rows, columns int) int {
	return slices.IndexFunc(c.m.Matmul.Tiles.Rows, func(t []float64) bool { return int(t[0]) == rows && int(t[1]) == columns })
}

// tiling is how a row was computed: as its kernel's name says, else as the law has it.
func (c *calibration) tiling(r *dataset.Row) machine.Tiling {
	w := r.Workload
	n, _, ok := tileOf(r)
	if !ok {
		return c.m.Preferred(w.M, w.N, w.K)
	}
	splits := 1
	if n.split {
		splits = max(1, int(c.m.GPU.CUs.Value)/int(machine.CeilDiv(w.N, int64(n.rows))*machine.CeilDiv(w.M, int64(n.columns))))
	}
	return c.m.LawWithTile(w.M, w.N, w.K, n.rows, n.columns, splits)
}

// loop is the time of a tile's multiply-adds at the rate, in seconds.
func (t *tileFit) loop(rows, columns, k float64) float64 {
	return 2 * rows * columns * k * t.m.GPU.CUs.Value / t.m.Matmul.Rate.Value
}

// whole calls f for each row of a candidate that the memory does not limit and that is not
// split, with the candidate's index, the time of its loop and the memory's time.
func (t *tileFit) whole(f func(r *dataset.Row, g machine.Tiling, i int, loop, moving float64)) {
	for i := range t.rows {
		r := &t.rows[i]
		g, w := t.tiling(r), r.Workload
		if at := t.index(g.Rows, g.Columns); !g.InMemory && g.Splits <= 1 && at >= 0 {
			f(r, g, at, t.loop(float64(g.Rows), float64(g.Columns), float64(w.K)), t.m.Moving(w.M, w.N, w.K))
		}
	}
}

// line settles TileStart, Rate and Exposed.
func (t *tileFit) line() bool {
	var a [][]float64
	var y []float64
	mm := &t.m.Matmul
	t.whole(func(r *dataset.Row, g machine.Tiling, _ int, loop, moving float64) {
		waves := float64(g.Waves)
		a = append(a, []float64{waves, waves * loop * mm.Slowness(g.Rows, g.Columns), moving})
		y = append(y, kernel(t.calibration, r))
	})
	x, ok := solve(a, y, y)
	if !ok || !(x[0] > 0) || !(x[1] > 0) {
		return false
	}
	mm.TileStart.Value, mm.Rate.Value, mm.Exposed.Value = x[0], mm.Rate.Value/x[1], max(leastExposed, x[2])
	return true
}

// leastExposed stands for none: rows that the memory's part does not show in.
const leastExposed = 1e-4

// slowness is the median of what the line leaves of each tile. The most
// frequent tile is the reference; those seen once only keep 1.
func (t *tileFit) slowness() {
	mm := &t.m.Matmul
	left := make([][]float64, len(mm.Tiles.Rows))
	t.whole(func(r *dataset.Row, g machine.Tiling, i int, loop, moving float64) {
		exposed := mm.Exposed.Value * moving
		left[i] = append(left[i], ((kernel(t.calibration, r)-exposed)/float64(g.Waves)-mm.TileStart.Value)/loop)
	})
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
	for i := range t.rows {
		r := &t.rows[i]
		if g := t.tiling(r); g.Splits > 1 {
			left = append(left, kernel(t.calibration, r)-g.Seconds+t.m.Matmul.Reduce.Or(0))
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
)

// prefer settles the candidates' preferences.
func (t *tileFit) prefer() {
	type option struct {
		tile                        int
		expected, reducing, missing float64 // seconds; what choosing it is off by
	}
	mm := &t.m.Matmul
	var options [][]option
	for i := range t.rows {
		r := &t.rows[i]
		w, measured := r.Workload, kernel(t.calibration, r)
		n, _, _ := tileOf(r)
		var of []option
		for i, c := range mm.Tiles.Rows {
			for _, splits := range t.m.Splits(w.M, w.N, w.K, int(c[0]), int(c[1])) {
				g := t.m.LawWithTile(w.M, w.N, w.K, int(c[0]), int(c[1]), splits)
				loop := t.loop(c[0], c[1], float64(w.K)/float64(splits))
				o := option{i, float64(g.Waves) * (mm.TileStart.Value + loop), t.m.Reducing(w.M, w.N, splits), min(0.5, off(g.Seconds, measured))}
				if g.Rows != n.rows || g.Columns != n.columns || n.split != (splits > 1) {
					o.missing += wrongTile
				}
				o.missing *= min(1, measured/shortKernel)
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
			was := tile[2]
			if s := grid(&tile[2], leastPreference, preferenceGrid, mostPreference-leastPreference+1, score); s < best-1e-9 {
				best = s
			} else {
				tile[2] = was
			}
		}
	}
}

// readTaken lists the GEMMs of which a kernel's name says that the library takes
// another tile than it is expected to prefer.
func readTaken(c *calibration) (f reading) {
	f.rows, _ = c.tileRows()
	type product [3]int64
	named := map[product]bool{}
	for i := range f.rows {
		r := &f.rows[i]
		w := r.Workload
		p := product{w.M, w.N, w.K}
		if _, _, ok := tileOf(r); !ok || named[p] {
			continue
		}
		named[p] = true
		is, law := c.tiling(r), c.m.Preferred(w.M, w.N, w.K)
		if is.Rows != law.Rows || is.Columns != law.Columns || is.Splits != law.Splits {
			f.table = append(f.table, []float64{float64(w.M), float64(w.N), float64(w.K), float64(is.Rows), float64(is.Columns), float64(is.Splits)})
		}
	}
	for _, b := range c.m.Matmul.Taken.Rows {
		if !named[product{int64(b[0]), int64(b[1]), int64(b[2])}] {
			f.table = append(f.table, b)
		}
	}
	return f
}
