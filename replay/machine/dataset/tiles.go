package dataset

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
)

// fitTiles settles the law of tiles and, with choices, what differs between tiles and which the library prefers, where
// enough rows name their kernels. The most frequent tile is the reference of the others, of which those seen once are as fast.
func (c *calibration) fitTiles(l law, choices bool) bool {
	rows, named := c.tileRows()
	mm := &c.m.Matmul
	shapes := mm.Shapes
	if mm.Shapes = (machine.Table{}); choices && named {
		c.candidates(rows)
	}
	if len(rows) < 4 || !mm.Tiles.Known() {
		return false
	}
	w, seen := way{keys: l.keys[:3]}, make([]int, len(mm.Tiles.Rows))
	for i := range rows {
		t := c.tiling(&rows[i])
		if at := c.index(t.Rows, t.Columns); at >= 0 {
			seen[at]++
		}
		if choices && t.Splits > 1 {
			w.keys = l.keys[:4]
		}
	}
	var slowness []*variable
	for i, tile := range mm.Tiles.Rows {
		if !choices {
			break
		}
		if tile[3] = 1; seen[i] > 1 && i != slices.Index(seen, slices.Max(seen)) {
			v := &variable{factor: 1, least: 0.1, most: 10}
			v.add(&tile[3])
			slowness = append(slowness, v)
		}
	}
	l.predict = func(c *calibration, r *Row) (predicted, measured float64) {
		return c.tiling(r).Seconds, kernel(c, r)
	}
	ok := l.fit(c, w, slowness...)
	if ok && choices && named {
		c.prefer(rows)
	}
	mm.Shapes = shapes
	return ok
}

// newcomer is where the search for a preference begins of a tile that the base lacks.
const newcomer = 1.1

// candidates adds tiles that several rows name.
func (c *calibration) candidates(rows []Row) {
	seen := map[tileName]int{}
	for i := range rows {
		name, _, _ := tileOf(&rows[i])
		if name.split = false; c.index(name.rows, name.columns) < 0 {
			seen[name]++
		}
	}
	for name, n := range seen {
		if n >= 4 {
			c.m.Matmul.Tiles.Rows = append(c.m.Matmul.Tiles.Rows, []float64{float64(name.rows), float64(name.columns), newcomer, 1})
		}
	}
	slices.SortFunc(c.m.Matmul.Tiles.Rows, slices.Compare[[]float64])
}

// index is the candidate of a tile, or -1.
func (c *calibration) index(rows, columns int) int {
	return slices.IndexFunc(c.m.Matmul.Tiles.Rows, func(t []float64) bool { return int(t[0]) == rows && int(t[1]) == columns })
}

// tiling is how a row was computed: as its kernel's name says, else as the law has it.
func (c *calibration) tiling(r *Row) machine.Tiling {
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

// Preferences are searched on a grid, one tile after the other: a tile
// that the library does not take counts as much as an error of so much of the time.
const (
	leastPreference, mostPreference = 188, 260 // over preferenceGrid
	preferenceGrid                  = 200
	preferenceRounds                = 6
	wrongTile                       = 0.05
)

// prefer settles the candidates' preferences.
func (c *calibration) prefer(rows []Row) {
	type option struct {
		tile                        []float64
		expected, reducing, missing float64 // seconds; what choosing it is off by
	}
	mm := &c.m.Matmul
	var options [][]option
	for i := range rows {
		w, measured := rows[i].Workload, kernel(c, &rows[i])
		n, _, _ := tileOf(&rows[i])
		var of []option
		for _, tile := range mm.Tiles.Rows {
			for _, splits := range c.m.Splits(w.M, w.N, w.K, int(tile[0]), int(tile[1])) {
				g := c.m.LawWithTile(w.M, w.N, w.K, int(tile[0]), int(tile[1]), splits)
				loop := 2 * tile[0] * tile[1] * float64(w.K) / float64(splits) * c.m.GPU.CUs.Value / mm.Rate.Value
				o := option{
					tile, float64(g.Waves) * (mm.TileStart.Value + loop), c.m.Reducing(w.M, w.N, splits),
					min(0.5, off(g.Seconds, measured)),
				}
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
				if e := o.expected*o.tile[2] + o.reducing; e < least {
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
			preferred := tile[2]
			for at := leastPreference; at <= mostPreference; at++ {
				tile[2] = float64(at) / preferenceGrid
				if s := score(); s < best-1e-9 {
					best, preferred = s, tile[2]
				}
			}
			tile[2] = preferred
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
			f.table = append(f.table, []float64{
				float64(w.M), float64(w.N), float64(w.K), float64(is.Rows),
				float64(is.Columns), float64(is.Splits),
			})
		}
	}
	for _, b := range c.m.Matmul.Taken.Rows {
		if !named[product{int64(b[0]), int64(b[1]), int64(b[2])}] {
			f.table = append(f.table, b)
		}
	}
	return f
}
