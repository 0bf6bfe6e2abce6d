package engines

import (
	"fmt"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// An occupancy is what a product's kernel leaves of the device for others
// (resource-aware overlap, MECHANISM M3 to M5). Zero values change nothing.
//
//	residents of a CU    |AAAABBBB....|   blocks of 24 KiB: a channel fits beside
//	with more LDS each   |AAAAAAAA....|   blocks of 48 KiB: one less resident
//	fewer blocks         |AAAA|AAAA|..|   whole CUs stay free
//	CUs carved out       |AABB|AABB|xx|   compute may not use the last
type occupancy struct {
	shared int // bytes of LDS that each workgroup asks for
	blocks int // workgroups, looping over the tiles
	carve  int // CUs that compute may not use
}

func occupancyOf(v Values) occupancy {
	return occupancy{shared: v.Int("lds") << 10, blocks: v.Int("blocks"), carve: v.Int("carve")}
}

// refuses says why an operation cannot run so, or nothing.
func (o occupancy) refuses(pl *planner, op *workload.Op) string {
	gpu := &pl.m.GPU
	switch {
	case o.carve >= int(gpu.CUs.Value):
		return fmt.Sprintf("carve=%d leaves compute none of %.0f compute units", o.carve, gpu.CUs.Value)
	case o.shared > 0 && o.shared < op.Footprint.Shared:
		return fmt.Sprintf("lds=%d is less than the %d KiB that %s uses", o.shared>>10, ceilDiv(op.Footprint.Shared, 1<<10), shortName(op.Name))
	case o.shared > 0 && float64(o.shared)+gpu.SharedSpare.Value > gpu.Shared.Value:
		return fmt.Sprintf("lds=%d does not fit on a compute unit with %.0f KiB", o.shared>>10, gpu.Shared.Value/(1<<10))
	case o != occupancy{} && op.Tiling.WGs == 0:
		return fmt.Sprintf("the workgroups of %s are not known (give its tiles)", shortName(op.Name))
	}
	return ""
}

// shaped is the grid of an operation that leaves so much. A workgroup keeps the
// time that it takes alone: with fewer of them on a CU each goes faster if they
// shared its pipes, and all of them together slower if they hid each other's latency (R0.4).
func (pl *planner) shaped(op *workload.Op, o occupancy) grid {
	if o == (occupancy{}) {
		return pl.gridOf(op, op.DurAlone())
	}
	g := pl.apartGrid(op, max(op.Tiling.Tiles, op.Tiling.WGs))
	if n := ceilDiv(g.wgs, maxWaves*int(pl.m.GPU.CUs.Value)*pl.residents(op.Footprint)); n > 1 { // n of them, one after another, count as one
		g.wgs, g.time, g.read, g.write = ceilDiv(g.wgs, n), g.time*trace.Time(n), g.read*float64(n), g.write*float64(n)
	}
	if o.shared > 0 {
		g.foot.Shared = o.shared
	}
	if o.blocks > 0 && o.blocks < max(g.wgs, g.tiles) {
		g = pl.looping(op, g, o.blocks)
	}
	if o.carve > 0 {
		g = pl.carved(g, o.carve)
	}
	return g
}

// looping gives the tiles of a grid to so many workgroups.
func (pl *planner) looping(op *workload.Op, g grid, blocks int) grid {
	if g.tiles > 0 {
		return pl.withPrograms(op, g, min(blocks, g.wgs))
	}
	slots := min(g.wgs, int(pl.m.GPU.CUs.Value)*pl.residents(g.foot))
	together := func(n int) float64 { return float64(n) / pl.reach(op, n) }
	g.time = trace.Time(float64(g.time)*together(min(blocks, slots))/together(slots) + 0.5)
	g.tiles, g.wgs, g.owned = g.wgs, blocks, -1
	return g
}

// reach is how much so many workgroups of an operation get done together: in
// proportion, but where memory bounds them only what the profile says they reach.
func (pl *planner) reach(op *workload.Op, n int) float64 {
	switch {
	case op.Shape.Kind == workload.Embedding && pl.m.GPU.Gather.Known():
		return pl.m.GPU.GatherAt(n, false)
	case op.Shape.Kind == workload.Elementwise && pl.m.GPU.Stream.Known():
		return pl.m.GPU.StreamAt(n)
	}
	return float64(n)
}

// carved keeps a grid off so many CUs: what is resident on one of the others
// counts as one workgroup that has it to itself.
func (pl *planner) carved(g grid, carve int) grid {
	cus := int(pl.m.GPU.CUs.Value)
	per := min(pl.residents(g.foot), ceilDiv(g.wgs, cus))
	tiles, wgs := max(g.tiles, g.wgs), min(g.wgs, cus*per)
	if g.tiles == 0 {
		g.owned = 0
	}
	n := float64(per)
	g.time = trace.Time(float64(g.time)*max(1, n*g.pipe) + 0.5)
	g.read, g.write, g.pipe = g.read*n, g.write*n, 1
	g.tiles, g.wgs = ceilDiv(tiles, per), min(cus-carve, ceilDiv(wgs, per))
	g.foot.Exclusive, g.merged = true, per > 1
	return g
}

// channels is how many of a collective's workgroups may run beside: with CUs
// carved out, no more than fit there, for a gang that does not fit waits for the product's tail.
func (o occupancy) channels(pl *planner, comm *workload.Op, want int) int {
	if o.carve == 0 {
		return want
	}
	if want == 0 {
		want = pl.channels(&pl.w.Collectives[comm.Collective])
	}
	return min(want, o.carve*pl.residents(pl.channelFootprint(comm)))
}
