package tiles

import (
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A sequence is the tiles of a pair's GEMM in the order of units. A unit is one piece of one shard; its number is
// shard·cuts + piece, which is its place down the rows.
type sequence struct {
	op     *workload.Op
	g      plan.Grid
	tiles  int
	even   int     // panels of tiles in each unit, where units are tiled evenly; 0: as captured
	panels []panel // in order
	each   int     // tiles of a panel
	counts []int64 // by unit: tiles that touch it
}

// A panel is tiles whose rows touch the units from the first to the last.
type panel struct{ first, last int }

// sequence orders the tiles of the GEMM, which leaves the compute units alone that kernels beside it need.
func (x *side) sequence() *sequence {
	op, spare := x.Compute, x.spares()
	q := &sequence{op: op, g: x.pl.GridOf(op, op.DurAlone())}
	if spare > 0 {
		cus := int(x.pl.Machine.GPU.CUs.Value)
		q.g = x.pl.TilesOf(op)
		q.g = x.pl.WithPrograms(op, q.g, max(1, q.g.WGs*(cus-spare)/cus))
	}
	q.tiles = max(q.g.Tiles, q.g.WGs)
	q.tileEvenly(x.n * x.cuts)
	q.inOrder(x.units(), x.gathers())
	return q
}

// inOrder puts the tiles into the order of the units. A tile that waits
// for units comes with the last that its rows touch, one that completes units with
// the first.
func (q *sequence) inOrder(units []int, waits bool) {
	q.cut(len(units))
	at := make([]int, len(units)) // by unit: its place in the order
	for i, u := range units {
		at[u] = i
	}
	turn := func(p panel) int {
		if waits {
			return slices.Max(at[p.first : p.last+1])
		}
		return slices.Min(at[p.first : p.last+1])
	}
	slices.SortStableFunc(q.panels, func(a, b panel) int { return turn(a) - turn(b) })
	q.counts = make([]int64, len(units))
	for _, p := range q.panels {
		for u := p.first; u <= p.last; u++ {
			q.counts[u] += int64(q.each)
		}
	}
}

// cut finds the panels in the order of rows. Where tiles have no known height, they are taken to follow one another
// down the rows.
func (q *sequence) cut(units int) {
	groups := q.groups()
	tiles := q.tiles / groups
	panels := tiles
	rows := func(i int) panel { return panel{i * units / panels, ((i+1)*units - 1) / panels} }
	if q.even > 0 {
		panels = q.even * units
		rows = func(i int) panel { return panel{i / q.even, i / q.even} }
	} else if m, h := machine.CeilDiv(int(q.op.Shape.M), groups), q.op.Tiling.TileM; h > 0 && m > 0 && tiles%machine.CeilDiv(m, h) == 0 {
		panels = machine.CeilDiv(m, h)
		rows = func(i int) panel { return panel{i * h * units / m, (min(m, (i+1)*h)*units - 1) / m} }
	}
	q.each, q.panels = tiles/panels, make([]panel, groups*panels)
	for i := range q.panels {
		q.panels[i] = rows(i % panels)
	}
}

// groups is the number of groups of a grouped GEMM whose rows are sorted by shard each
// (rule O20), 1 of another one, or where they do not share out its tiles.
func (q *sequence) groups() int {
	if n := int(q.op.Shape.Groups); n > 1 && q.tiles%n == 0 {
		return n
	}
	return 1
}

// tileEvenly makes the tiles of a GEMM a little lower where their height does not divide a unit, so
// that none touches two units: a kernel that waits for shards, or signals them, is built with such
// tiles (rule O4). The work stays the same.
func (q *sequence) tileEvenly(units int) {
	m, h := int(q.op.Shape.M), q.op.Tiling.TileM
	if q.groups() > 1 || h <= 0 || m%units != 0 || m/units%h == 0 || q.g.Merged || q.tiles%machine.CeilDiv(m, h) != 0 {
		return
	}
	columns := q.tiles / machine.CeilDiv(m, h)
	q.even = machine.CeilDiv(m/units, h)
	lower := float64(m) / float64(q.even*units*h)
	q.g.Time = trace.Time(float64(q.g.Time)*lower + 0.5)
	q.g.Read *= lower
	q.g.Write *= lower
	q.tiles = q.even * units * columns
	if q.g.Tiles > 0 {
		q.g.Tiles = q.tiles
	} else {
		q.g.WGs = q.tiles
	}
}

// kernel is one launch that computes the tiles in order; around adds to the
// phases of a tile what it waits for, and what it does with its result.
func (q *sequence) kernel(pl *plan.Planner, around func(buf []program.Phase, p panel, work program.Phase) []program.Phase) *program.Kernel {
	k := pl.KernelOf(q.op, q.g)
	k.Recipe = func(tile int, buf []program.Phase) []program.Phase {
		return around(buf, q.panels[tile/q.each], plan.Compute(q.g.Time, q.g.Read, q.g.Write))
	}
	return k
}
