package engines

import (
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// streamK writes the products of a chain one after the other, each as two kernels: the tiles
// that fill every slot a whole number of times, and the rest of them, each slot
// computing an equal part of their loops over K (MECHANISM section 5, Stream-K).
func (r *rank) streamK(p *pair) {
	sides, l := r.sides(p), r.pl.m.Launch
	s := sides[0].on
	r.enter(p)
	for _, x := range sides {
		gap := r.refill(s, x.fills, r.ready(s, x.op, x.after, x.within...))
		for i, k := range r.pl.splitAlongK(x.op) {
			if i > 0 {
				s.wait(r.issued, r.issue(l.Host.Value, x.op.Name), "host")
				gap = duration(l.Gap.Value)
			}
			s.launch(gap, launchOf(x.op, k))
		}
		r.finished(s, x.op)
	}
	r.leave(p.last())
}

// partialBytes is an element of a partial sum, in single precision.
const partialBytes = 4

// splitAlongK is a product's whole waves, and the rest of its tiles spread over
// all slots: parts of a tile are written to memory, read again and summed.
func (pl *planner) splitAlongK(op *workload.Op) []*replay.Kernel {
	c, _ := coverOf(op, false)
	g := pl.apartGrid(op, c.tiles()*c.splits)
	slots := g.wgs // persistent: a tile at a time each
	if g.tiles == 0 {
		slots = int(pl.m.GPU.CUs.Value) * pl.residents(op.Footprint)
	}
	tiles := max(g.tiles, g.wgs)
	rest := tiles % slots
	var kernels []*replay.Kernel
	if even := tiles - rest; even > 0 {
		h := g
		if h.tiles > 0 {
			h.tiles = even
		} else {
			h.wgs = even
		}
		kernels = append(kernels, pl.kernelOf(op, h))
	}
	if rest > 0 {
		part := float64(rest) / float64(slots) // of a tile, in each slot
		partial := partialBytes * float64(op.Tiling.TileM*op.Tiling.TileN)
		h := g
		h.wgs, h.tiles = slots, 0
		k := pl.kernelOf(op, h)
		k.Recipe = func(_ int, buf []replay.Phase) []replay.Phase {
			return append(buf,
				replay.Phase{Op: replay.Work, Time: trace.Time(float64(g.time) * part), Read: g.read * part},
				replay.Phase{Op: replay.Work, Read: partial, Write: partial + g.write*part})
		}
		kernels = append(kernels, k)
	}
	return kernels
}
