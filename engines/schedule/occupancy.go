package schedule

import (
	"cmp"
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// An occupancy is what a GEMM's kernel leaves of the device for others
// (resource-aware overlap, section 3.1; rules W7 to W9). Zero values change nothing.
//
//	residents of a CU    |AAAABBBB....|   blocks of 24 KiB: a channel fits alongside
//	with more LDS each   |AAAAAAAA....|   blocks of 48 KiB: one less resident
//	fewer blocks         |AAAA|AAAA|..|   whole CUs stay free
//	CUs carved out       |AABB|AABB|xx|   compute may not use the last
type occupancy struct {
	shared int // bytes of LDS that each workgroup requests
	blocks int // workgroups, looping over the tiles
	carve  int // CUs that compute may not use
}

func occupancyOf(v plan.Values) occupancy {
	return occupancy{shared: v.Int("lds") << 10, blocks: v.Int("blocks"), carve: v.Int("carve")}
}

// refuses is the reason why an operation cannot run with the settings, or "".
func (o occupancy) refuses(pl *plan.Planner, op *workload.Op) string {
	gpu := &pl.Machine.GPU
	switch {
	case o.carve >= int(gpu.CUs.Value):
		return fmt.Sprintf("carve=%d leaves compute none of %.0f compute units", o.carve, gpu.CUs.Value)
	case o.shared > 0 && o.shared < op.Footprint.Shared:
		uses := machine.CeilDiv(op.Footprint.Shared, 1<<10)
		return fmt.Sprintf("lds=%d is less than the %d KiB that %s uses", o.shared>>10, uses, trace.Short(op.Name))
	case o.shared > 0 && float64(o.shared)+gpu.SharedSpare.Value > gpu.Shared.Value:
		return fmt.Sprintf("lds=%d does not fit on a compute unit with %.0f KiB", o.shared>>10, gpu.Shared.Value/(1<<10))
	case o != occupancy{} && op.Tiling.WGs == 0:
		return fmt.Sprintf("the workgroups of %s are not known (give its tiles)", trace.Short(op.Name))
	}
	return ""
}

// note says why settings that shape a GEMM's room on the device can do nothing for a pair.
func (o occupancy) note(pl *plan.Planner, p *plan.Pair, v plan.Values) {
	gpu := &pl.Machine.GPU
	compute, comm := &pl.Workload.Ops[p.First[0]], &pl.Workload.Ops[p.Second[0]]
	g := shaped(pl, compute, o)
	slots := pl.Laws().Slots(g.Footprint)
	channel := pl.ChannelFootprint(comm)
	fits := float64(g.Footprint.Shared*pl.Laws().Residents(g.Footprint)+channel.Shared)+float64(pl.Laws().Residents(g.Footprint)+1)*gpu.SharedSpare.Value <= gpu.Shared.Value
	if v["priority"] == "on" && g.WGs <= slots {
		pl.Note("priority=on orders workgroups that wait for a slot: all %d of %s are resident at once, so it decides only who is placed first where two kernels become ready together",
			g.WGs, trace.Short(compute.Name))
	}
	if o.shared > 0 && pl.Laws().Residents(g.Footprint) == pl.Laws().Residents(compute.Footprint) {
		room := "and a channel of the collective needs more than the rest"
		if fits {
			room = "and a channel of the collective fits beside them"
		}
		pl.Note("lds=%d leaves as many workgroups of %s on a compute unit as captured, %d, %s", o.shared>>10, trace.Short(compute.Name), pl.Laws().Residents(g.Footprint), room)
	}
}

// refusesAll is the reason why no compute of the workload can run with the settings, or "".
func (o occupancy) refusesAll(pl *plan.Planner) string {
	why := "no compute was found"
	for i := range pl.Workload.Ops {
		op := &pl.Workload.Ops[i]
		if op.Kind != trace.Compute {
			continue
		}
		if why = o.refuses(pl, op); why == "" {
			break
		}
	}
	return why
}

// shaped is the grid of an operation that leaves so much. A workgroup keeps the
// time that it takes alone: with fewer of them on a CU each goes faster if they
// shared its pipes, and all of them together slower if they hid each other's latency (rule D11).
func shaped(pl *plan.Planner, op *workload.Op, o occupancy) plan.Grid {
	if o == (occupancy{}) {
		return pl.GridOf(op, op.DurAlone())
	}
	g := pl.ApartGrid(op, max(op.Tiling.Tiles, op.Tiling.WGs))
	if n := machine.CeilDiv(g.WGs, plan.MaxWaves*pl.Laws().Slots(op.Footprint)); n > 1 { // n of them, one after another, count as one
		g.WGs, g.Time, g.Read, g.Write = machine.CeilDiv(g.WGs, n), g.Time*trace.Time(n), g.Read*float64(n), g.Write*float64(n)
	}
	if o.shared > 0 {
		g.Footprint.Shared = o.shared
	}
	if o.blocks > 0 && o.blocks < max(g.WGs, g.Tiles) {
		g = looping(pl, op, g, o.blocks)
	}
	if o.carve > 0 {
		g = carved(pl, g, o.carve)
	}
	return g
}

// looping distributes the tiles of a grid over n workgroups.
func looping(pl *plan.Planner, op *workload.Op, g plan.Grid, blocks int) plan.Grid {
	if g.Tiles > 0 {
		return pl.WithPrograms(op, g, min(blocks, g.WGs))
	}
	slots := min(g.WGs, pl.Laws().Slots(g.Footprint))
	g.Time = trace.Time(float64(g.Time)*pl.Laws().TileOn(op, min(blocks, slots), slots, false) + 0.5)
	g.Tiles, g.WGs, g.Owned = g.WGs, blocks, -1
	return g
}

// carved keeps a grid off so many CUs: what is resident on one of the others
// counts as one workgroup that has it to itself.
func carved(pl *plan.Planner, g plan.Grid, carve int) plan.Grid {
	cus := int(pl.Machine.GPU.CUs.Value)
	per := pl.Laws().Together(g.Footprint, g.WGs)
	tiles, wgs := max(g.Tiles, g.WGs), min(g.WGs, cus*per)
	if g.Tiles == 0 {
		g.Owned = 0
	}
	n := float64(per)
	g.Time = trace.Time(float64(g.Time)*max(1, n*g.Pipe) + 0.5)
	g.Read, g.Write, g.Pipe = g.Read*n, g.Write*n, 1
	g.Tiles, g.WGs = machine.CeilDiv(tiles, per), min(cus-carve, machine.CeilDiv(wgs, per))
	g.Footprint.Exclusive, g.Merged = true, per > 1
	return g
}

// channels is how many of a collective's workgroups may run alongside: with CUs
// carved out, no more than fit there, for a gang that does not fit waits for the GEMM's tail.
func (o occupancy) channels(pl *plan.Planner, comm *workload.Op, want int) int {
	if o.carve == 0 {
		return want
	}
	want = cmp.Or(want, pl.Laws().Channels(&pl.Workload.Collectives[comm.Collective]))
	return min(want, o.carve*pl.Laws().Residents(pl.ChannelFootprint(comm)))
}
