package tilesync

import (
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// streamK writes the GEMMs of a chain in sequence, each as two kernels: the tiles of full
// waves, and the remaining tiles, of whose loops over K each slot computes an equal part
// (rule T6).
func streamK(r *plan.Rank, p *plan.Pair) {
	sides, l := sides(r, p), r.Planner.Machine.Launch
	s := sides[0].on
	r.BeginPair(p)
	for _, x := range sides {
		gap := r.WriteFills(s, x.fills, r.WaitUntilReady(s, x.op, x.after, x.within...))
		for i, k := range splitAlongK(r.Planner, x.op) {
			if i > 0 {
				s.Wait(r.HostIssued, r.Issue(l.Host.Value, x.op.Name), "host")
				gap = plan.Duration(l.Gap.Value)
			}
			s.Launch(gap, plan.LaunchOf(x.op, k))
		}
		r.Written(s, x.op)
	}
	r.EndPair(p.Last())
}

// partialBytes is the size of an element of a partial sum, in single precision.
const partialBytes = 4

// splitAlongK returns a GEMM's full waves, and its remaining tiles distributed over all
// slots. Parts of a tile are written to memory, read again and summed.
func splitAlongK(pl *plan.Planner, op *workload.Op) []*program.Kernel {
	c, _ := plan.CoverOf(op, false)
	g := pl.ApartGrid(op, c.Tiles()*c.Splits)
	slots := g.WGs // persistent workgroups, one tile at a time
	if g.Tiles == 0 {
		slots = int(pl.Machine.GPU.CUs.Value) * pl.Residents(op.Footprint)
	}
	tiles := max(g.Tiles, g.WGs)
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
		part := float64(rest) / float64(slots) // of a tile, in each slot
		partial := partialBytes * float64(op.Tiling.TileM*op.Tiling.TileN)
		h := g
		h.WGs, h.Tiles = slots, 0
		k := pl.KernelOf(op, h)
		k.Recipe = func(_ int, buf []program.Phase) []program.Phase {
			return append(buf,
				program.Phase{Op: program.Work, Time: trace.Time(float64(g.Time) * part), Read: g.Read * part},
				program.Phase{Op: program.Work, Read: partial, Write: partial + g.Write*part})
		}
		kernels = append(kernels, k)
	}
	return kernels
}
