package tiles

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// pollNap is the pause between two looks of FlashOverlap's wait kernel (src/wait.cuh).
const pollNap = trace.Time(100)

// Groups are the tiles of a GEMM, in the order in which they leave, counted
// together: all but the last have size tiles.
type groups struct {
	plan.Grid
	size, n int
	counted []program.Flag
}

// countsWaves says why the tiles of a pair's GEMM cannot be counted in groups, or nothing.
func countsWaves(pl *plan.Planner, p *workload.Pair) string {
	if p.Direction != workload.ComputeThenCollective {
		return "variant=waves counts tiles of a GEMM before a collective, and the collectives here come first"
	}
	if no := notByTile(pl, p); no != "" {
		return no
	}
	tiles := pl.Workload.Ops[p.First[0]].Tiling.Tiles
	for _, id := range p.First {
		switch first := &pl.Workload.Ops[id]; {
		case first.Tiling.Tiles == 0:
			return fmt.Sprintf("the tiles of %s are not known (give them)", trace.Short(first.Name))
		case first.Tiling.Tiles != tiles:
			return fmt.Sprintf("ranks cut %s into %d and %d tiles: groups would not match",
				trace.Short(first.Name), tiles, first.Tiling.Tiles)
		}
	}
	return ""
}

// groupsOf counts a GEMM's tiles in groups of whole waves, as many as make n groups. It leaves
// slots to nobody, so each tile is a workgroup.
func groupsOf(pl *plan.Planner, op *workload.Op, n int) groups {
	g := groups{Grid: pl.GridOf(op, op.DurAlone())}
	if g.Tiles > 0 {
		g.WGs, g.Tiles, g.Owned = g.Tiles, 0, 0
	}
	wave := min(g.WGs, pl.Laws().Slots(g.Footprint))
	g.size = min(g.WGs, machine.CeilDiv(machine.CeilDiv(g.WGs, wave), n)*wave)
	g.n = machine.CeilDiv(g.WGs, g.size)
	g.counted = pl.Program.NewFlags(g.n, fmt.Sprintf("tiles of %s on rank %d in group", op.Name, op.Rank))
	return g
}

// tilesIn is the number of tiles of a group.
func (g *groups) tilesIn(i int) int { return min(g.size, g.WGs-i*g.size) }

// inWaves writes a pair as one GEMM and a library call a group of its tiles,
// each behind a wait kernel (FlashOverlap, rule W3).
func inWaves(r *plan.Rank, p *plan.Pair, n, channels int) {
	x, l := r.SideOf(p), r.Planner.Machine.Launch
	lane := x.CommStream(x.Compute, x.Comm)
	lane.Priority = 1
	g := groupsOf(r.Planner, x.Compute, n)
	k := r.Planner.KernelOf(x.Compute, g.Grid)
	k.Recipe = func(i int, buf []program.Phase) []program.Phase {
		return append(append(buf, k.Each...), plan.Signal(g.counted[i/g.size], ""))
	}
	begun := r.Planner.Program.NewFlag(x.Compute.Name + " next on its stream")
	x.On.Post(begun, 1)
	x.Write(k)
	lane.Wait(begun, 1, x.Compute.Name)
	for i := range g.n {
		r.IssueOne(lane, l.Host.Value, "wait kernel")
		lane.Launch(plan.Duration(l.Gap.Value), plan.WaitKernel(g.counted[i], int64(g.tilesIn(i)), pollNap))
		r.IssueOne(lane, l.HostCollective.Value, x.Comm.Name)
		part := r.Planner.PieceOf(plan.Piece{Coll: p.Coll, Index: i, Of: g.WGs, Shares: g.tilesIn(i)}, channels, x.Compute)
		lane.Launch(plan.Duration(l.Gap.Value), plan.LaunchOf(x.Comm, r.Planner.Collective(x.Comm, part)))
	}
	x.End(lane)
}
