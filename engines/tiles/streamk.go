package tiles

import (
	"fmt"
	"math"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// streamK writes the GEMMs of a chain in sequence, each as two kernels: the tiles of full
// waves, and the remaining tiles, of whose loops over K each slot computes an equal part
// (rule T6). kept: a GEMM whose tiles are in parts along K stays as it is.
func streamK(r *plan.Rank, p *plan.Pair, v plan.Values) {
	sides, l := sides(r, p, v), r.Planner.Machine.Launch
	s := sides[0].on
	r.BeginPair(p)
	for _, x := range sides {
		gap := r.WriteFills(s, x.fills, r.WaitUntilReady(s, x.op, x.after, x.within...))
		for i, k := range splitAlongK(r.Planner, x.built, v["splits"] == "kept") {
			if i > 0 {
				r.IssueOne(s, l.Host.Value, x.op.Name)
				gap = plan.Duration(l.Gap.Value)
			}
			s.Launch(gap, plan.LaunchOf(x.op, k))
		}
		r.Written(s, x.op)
		for _, op := range x.parts { // kernels of their own
			s.Launch(r.WaitUntilReady(s, op, op.After, x.within...), r.Planner.CommandOf(op))
			r.Written(s, op)
		}
	}
	r.EndPair()
}

// partialBytes is the size of an element of a partial sum, in single precision.
const partialBytes = 4

// splitAlongK returns a GEMM's full waves, and its remaining tiles distributed over all
// slots (rule T6).
func splitAlongK(pl *plan.Planner, op *workload.Op, kept bool) []*program.Kernel {
	c, _ := plan.CoverOf(op)
	g := pl.ApartGrid(op, c.Tiles()*c.Splits)
	if kept && c.Splits > 1 {
		return []*program.Kernel{pl.KernelOf(op, g)}
	}
	slots := g.WGs // persistent workgroups, one tile at a time
	if g.Tiles == 0 {
		slots = pl.Laws().Slots(op.Footprint)
	}
	g.Time *= trace.Time(c.Splits) // whole tiles, however the captured kernel split them
	g.Read, g.Write = g.Read*float64(c.Splits), g.Write*float64(c.Splits)
	tiles := max(g.Tiles, g.WGs/c.Splits)
	rest := tiles % slots
	var kernels []*program.Kernel
	if even := tiles - rest; even > 0 {
		h := g
		if h.Tiles > 0 {
			h.Tiles = even
		} else {
			h.WGs = even
		}
		kernels = append(kernels, pl.KernelOf(op, h))
	}
	if rest > 0 {
		kernels = append(kernels, restAlongK(pl, op, g, rest, along(pl, op, g, rest, slots)))
	}
	return kernels
}

// along is the number of slots over which Stream-K spreads tiles: as many parts a tile as take the
// least time with the sums behind them. More parts of a short loop cost more sums than they save.
func along(pl *plan.Planner, op *workload.Op, g plan.Grid, rest, slots int) int {
	partial := partialBytes * float64(op.Tiling.TileM*op.Tiling.TileN)
	sum := pl.Laws().Stream(partial, rest) + poll(pl, 1, nil).Time
	best, least := slots, math.Inf(1)
	for parts := 1; parts <= machine.CeilDiv(slots, rest); parts++ {
		n := min(slots, parts*rest)
		share := float64(rest) / float64(n) * max(1, g.Pipe*float64(machine.CeilDiv(n, int(pl.Machine.GPU.CUs.Value))))
		if took := float64(g.Time)*share + float64(sum)*float64(parts-1); took < least {
			best, least = n, took
		}
	}
	return best
}

// restAlongK distributes the K iterations of the last tiles equally over the slots. Every slot
// but a tile's last writes its partial sums and posts; the last one waits for them, reads and
// adds one after another, and writes the tile (Stream-K, arXiv 2301.03598, section 4). A
// workgroup moves partial sums no faster than its loads and stores in flight allow.
func restAlongK(pl *plan.Planner, op *workload.Op, g plan.Grid, rest, slots int) *program.Kernel {
	part := float64(rest) / float64(slots) // of a tile, in each slot
	partial := partialBytes * float64(op.Tiling.TileM*op.Tiling.TileN)
	done := pl.Program.NewFlagsOf(pl.Program.Writing, rest, func(t int) string {
		return fmt.Sprintf("partial sums of tile %d from the end of %s", rest-t, op.Name)
	})
	h := g
	h.WGs, h.Tiles = slots, 0
	k := pl.KernelOf(op, h)
	written, added := pl.Laws().Stream(partial, slots), pl.Laws().Stream(partial, rest)
	cut := plan.Cut{N: slots, Parts: rest} // by tile
	k.Recipe = func(i int, buf []program.Phase) []program.Phase {
		t := cut.Of(i)
		end := cut.From(t + 1)
		buf = append(buf, plan.Compute(trace.Time(float64(g.Time)*part), g.Read*part, 0))
		if i < end-1 {
			return append(buf, plan.Compute(written, 0, partial), roundTrip(pl), plan.Signal(done[t], ""))
		}
		for n := range end - cut.From(t) - 1 {
			buf = append(buf, plan.Await(done[t], int64(n+1)), poll(pl, 1, nil), plan.Compute(added, partial, 0))
		}
		return append(buf, plan.Compute(0, 0, g.Write))
	}
	return k
}
