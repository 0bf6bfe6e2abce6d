package onesided

import (
	"slices"
	"sort"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A gemm is a GEMM of a pair and the workgroups that compute it.
type gemm struct {
	op    *workload.Op
	g     plan.Grid
	tiles int
	even  int // panels of tiles in each piece, where pieces are tiled evenly; 0: as captured
}

// A run is consecutive tiles whose rows touch the same units.
type run struct {
	until int // index behind its last tile
	units []int
	unit  int // the unit that its position follows from
}

// inOrder puts the tiles of a GEMM into the order of the units. A tile that waits
// for units comes with the last that its rows touch, one that completes units with
// the first.
func (p *gemm) inOrder(units []unit, ranks, cuts int, waits bool) []run {
	at := make([]int, ranks*cuts) // by piece of all rows: its place in the order
	for i, u := range units {
		at[u.shard*cuts+u.piece] = i
	}
	all := p.runs(at)
	for i := range all {
		if all[i].unit = slices.Min(all[i].units); waits {
			all[i].unit = slices.Max(all[i].units)
		}
	}
	slices.SortStableFunc(all, func(a, b run) int { return a.unit - b.unit })
	tiles := 0
	for i := range all {
		tiles += all[i].until
		all[i].until = tiles
	}
	return all
}

// runs are a GEMM's in the order of rows; until counts tiles still. Where
// tiles have no known height, they are taken to follow one another down the rows.
func (p *gemm) runs(at []int) []run {
	groups := p.groups()
	tiles := p.tiles / groups
	panels, each := tiles, 1
	row := func(i int) (lo, hi int) { return i * len(at) / panels, ((i+1)*len(at) - 1) / panels }
	if p.even > 0 {
		panels = p.even * len(at)
		each = tiles / panels
		row = func(i int) (lo, hi int) { return i / p.even, i / p.even }
	} else if m, h := plan.CeilDiv(int(p.op.Shape.M), groups), p.op.Tiling.TileM; h > 0 && m > 0 && tiles%plan.CeilDiv(m, h) == 0 {
		panels = plan.CeilDiv(m, h)
		each = tiles / panels
		row = func(i int) (lo, hi int) { return i * h * len(at) / m, (min(m, (i+1)*h)*len(at) - 1) / m }
	}
	all := make([]run, groups*panels)
	for i := range all {
		lo, hi := row(i % panels)
		all[i] = run{until: each}
		for piece := lo; piece <= hi; piece++ {
			all[i].units = append(all[i].units, at[piece])
		}
	}
	return all
}

// groups is the number of groups of a grouped GEMM whose rows are sorted by shard each
// (rule O20), 1 of another one, or where they do not share out its tiles.
func (p *gemm) groups() int {
	if n := int(p.op.Shape.Groups); n > 1 && p.tiles%n == 0 {
		return n
	}
	return 1
}

// tileEvenly makes the tiles of a GEMM a little lower where their height does not divide a piece, so
// that none touches two pieces: a kernel that waits for shards, or signals them, is built with such
// tiles (rule O4). The work stays the same.
func (p *gemm) tileEvenly(pieces int) {
	m, h := int(p.op.Shape.M), p.op.Tiling.TileM
	if p.groups() > 1 || h <= 0 || m%pieces != 0 || m/pieces%h == 0 || p.g.Merged || p.tiles%plan.CeilDiv(m, h) != 0 {
		return
	}
	columns := p.tiles / plan.CeilDiv(m, h)
	p.even = plan.CeilDiv(m/pieces, h)
	lower := float64(m) / float64(p.even*pieces*h)
	p.g.Time = trace.Time(float64(p.g.Time)*lower + 0.5)
	p.g.Read *= lower
	p.g.Write *= lower
	p.tiles = p.even * pieces * columns
	if p.g.Tiles > 0 {
		p.g.Tiles = p.tiles
	} else {
		p.g.WGs = p.tiles
	}
}

// A sequence is the tiles of a pair's GEMM in the order of its units.
type sequence struct {
	gemm   gemm
	units  []unit
	runs   []run
	counts []int64 // by unit: tiles that touch it
}

// sequence orders the tiles of a GEMM that leaves the given number of compute units free.
func (t *operator) sequence(b *state, me int, gather bool, op *workload.Op, spare int) *sequence {
	g := t.pl.GridOf(op, op.DurAlone())
	if spare > 0 {
		cus := int(t.pl.Machine.GPU.CUs.Value)
		g = t.pl.TilesOf(op)
		g = t.pl.WithPrograms(op, g, max(1, g.WGs*(cus-spare)/cus))
	}
	s := &sequence{units: t.units(b, me, gather), gemm: gemm{op: op, g: g, tiles: max(g.Tiles, g.WGs)}}
	s.gemm.tileEvenly(len(b.ranks) * b.cuts)
	s.runs = s.gemm.inOrder(s.units, len(b.ranks), b.cuts, gather)
	s.counts = make([]int64, len(s.units))
	first := 0
	for _, r := range s.runs {
		for _, u := range r.units {
			s.counts[u] += int64(r.until - first)
		}
		first = r.until
	}
	return s
}

// run is the one that a tile belongs to.
func (s *sequence) run(tile int) *run {
	return &s.runs[sort.Search(len(s.runs), func(i int) bool { return s.runs[i].until > tile })]
}

// count is how many tiles touch a piece of a shard.
func (s *sequence) count(shard, piece int) int64 {
	return s.counts[slices.Index(s.units, unit{shard, piece})]
}

// away is the number of tiles of the shards of other ranks, each counted for every unit that it touches.
func (s *sequence) away(me int) (n int64) {
	for i, u := range s.units {
		if u.shard != me {
			n += s.counts[i]
		}
	}
	return n
}

// kernel is one launch that computes the tiles in order; around adds to the
// phases of a tile what it waits for, and what it does with its result.
func (s *sequence) kernel(pl *plan.Planner, around func(buf []program.Phase, r *run, work program.Phase) []program.Phase) *program.Kernel {
	g := &s.gemm.g
	k := pl.KernelOf(s.gemm.op, *g)
	k.Recipe = func(tile int, buf []program.Phase) []program.Phase {
		return around(buf, s.run(tile), program.Phase{Op: program.Work, Time: g.Time, Read: g.Read, Write: g.Write})
	}
	return k
}
