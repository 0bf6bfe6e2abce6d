package engines

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// pollNap is the pause between two looks of FlashOverlap's wait kernel (src/wait.cuh).
const pollNap = trace.Time(100)

// Groups are the tiles of a product, in the order in which they leave, counted
// together: all but the last have size tiles.
type groups struct {
	grid
	size, n int
	counted []replay.Flag
}

// countsWaves says why the tiles of a pair's product cannot be counted in groups, or nothing.
func (pl *planner) countsWaves(p *workload.Pair) string {
	if p.Direction != workload.ComputeThenCollective {
		return "variant=waves counts tiles of a product before a collective, and the collectives here come first"
	}
	tiles := pl.w.Ops[p.First[0]].Tiling.Tiles
	for k := range p.First {
		first, second := &pl.w.Ops[p.First[k]], &pl.w.Ops[p.Second[k]]
		switch name := pl.between(first, second); {
		case name != "":
			return fmt.Sprintf("%s lies between compute and communication, and works on the whole", shortName(name))
		case first.Tiling.Tiles == 0:
			return fmt.Sprintf("the tiles of %s are not known (give them)", shortName(first.Name))
		case first.Tiling.Tiles != tiles:
			return fmt.Sprintf("ranks cut %s into %d and %d tiles: groups would not match", shortName(first.Name), tiles, first.Tiling.Tiles)
		}
	}
	return ""
}

// groupsOf counts a product's tiles in groups of whole waves: of so many, or as
// many as make n groups. It leaves slots to nobody, so each tile is a workgroup.
func (pl *planner) groupsOf(op *workload.Op, waves, n int) groups {
	g := groups{grid: pl.gridOf(op, op.DurAlone())}
	if g.tiles > 0 {
		g.wgs, g.tiles, g.owned = g.tiles, 0, 0
	}
	wave := min(g.wgs, int(pl.m.GPU.CUs.Value)*pl.residents(g.foot))
	if waves == 0 {
		waves = ceilDiv(ceilDiv(g.wgs, wave), n)
	}
	g.size = min(g.wgs, waves*wave)
	g.n = ceilDiv(g.wgs, g.size)
	for i := range g.n {
		g.counted = append(g.counted, pl.p.NewFlag(fmt.Sprintf("group %d of %s on rank %d", i, op.Name, op.Rank)))
	}
	return g
}

// tilesIn is how many tiles a group has.
func (g *groups) tilesIn(i int) int { return min(g.size, g.wgs-i*g.size) }

// inWaves writes a pair as one product and a library call a group of its tiles,
// each behind a wait kernel (FlashOverlap, MECHANISM section 2).
func (r *rank) inWaves(p *pair, waves, n, channels int) {
	compute, comm := r.ops(p)
	onCompute, onComm := r.stream(compute.Queue), r.commStream(compute, comm)
	onComm.Priority = 1
	l := r.pl.m.Launch
	g := r.pl.groupsOf(compute, waves, n)

	r.enter(p)
	k := r.pl.kernelOf(compute, g.grid)
	work := k.Recipe
	k.Recipe = func(i int, buf []replay.Phase) []replay.Phase {
		return append(work(i, buf), replay.Phase{Op: replay.PostTo, Flag: g.counted[i/g.size], Count: 1})
	}
	gap := r.ready(onCompute, compute, slices.Concat(r.before(p, compute), comm.After), r.within(p)...)
	begun := r.pl.p.NewFlag(compute.Name + " next on its stream")
	onCompute.post(begun, 1)
	onCompute.launch(r.refill(onCompute, p.pre[r.id], gap), launchOf(compute, k))
	for _, id := range p.mid[r.id] {
		r.step(p, &r.pl.w.Ops[id], 0, 0)
	}
	onComm.wait(begun, 1, compute.Name)
	for i := range g.n {
		onComm.wait(r.issued, r.issue(l.Host.Value, "wait kernel"), "host")
		onComm.launch(duration(l.Gap.Value), waitKernel(g.counted[i], int64(g.tilesIn(i)), pollNap))
		onComm.wait(r.issued, r.issue(l.HostCollective.Value, comm.Name), "host")
		part := r.pl.piece(part{coll: p.coll, index: i, of: g.wgs, take: g.tilesIn(i)}, channels, compute)
		onComm.launch(duration(l.Gap.Value), launchOf(comm, r.pl.collective(comm, part)))
	}
	r.finished(onCompute, compute)
	r.finished(onComm, comm)
	r.leave(p)
}
