// Package retarget gives the operations of a workload the durations that they would have
// on another machine, or with another number of ranks. Strategies then plan the result as
// if it had been captured there. Dependencies, the order of issue and the host's own times
// stay as captured.
//
//	captured on h200         |GEMM 100 µs |norm 20 µs|all-reduce 80 µs |
//	                           matmul law   bytes      library's times
//	scaled to another GPU    |GEMM 104 µs |norm 28 µs|all-reduce 80 µs |
package retarget

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// To returns a copy of a workload whose durations are those of another machine. Durations
// alone, and those of the captured schedule, are scaled by the ratio of a law's times on
// the two machines (rules Y1, Y3, Y4 and Y5). Durations alone must have been estimated on the
// machine of the capture.
func To(w *workload.Workload, from, to machine.Machine) *workload.Workload {
	return rescale(w, &scaler{Elsewhere: cost.Elsewhere{From: &from, To: &to}})
}

// A scaler scales the durations of one workload.
type scaler struct {
	cost.Elsewhere
	resized *Resized // nil: groups keep their ranks
	kernels map[*workload.Kernel]*workload.Kernel
	parts   map[cost.Reason]*workload.Rescaled
}

func rescale(w *workload.Workload, s *scaler) *workload.Workload {
	s.kernels, s.parts = map[*workload.Kernel]*workload.Kernel{}, map[cost.Reason]*workload.Rescaled{}
	scaled := w.Copy()
	if scaled.Scale = slices.Clone(w.Scale); w.Scale == nil {
		scaled.Scale = slices.Repeat([]float64{1}, len(w.Ops))
	}
	for i := range scaled.Collectives {
		c := &scaled.Collectives[i]
		ranks := scaled.RanksOf(c)
		was := ranks
		if s.resized != nil {
			was = s.resized.before(c, ranks)
		}
		by, of := s.Collective(c, was, ranks)
		for _, id := range c.Members {
			s.count(scaled, scaled.Ops[id].Rank, of, c.TransferAlone(), by, cost.Roofed{})
		}
		c.Alone, c.Scale = workload.Scaled(c.TransferAlone(), by), cmp.Or(c.Scale, 1)*by
		c.Channels = s.Channels(c)
	}
	for i := range scaled.Ops {
		op := &scaled.Ops[i]
		if op.Collective < 0 {
			share := s.shard(op)
			by, of, t := s.Kernel(w, op, s.kernel(op), share)
			if op.Kind == trace.Compute {
				op.Read, op.Write = op.Read*share, op.Write*share
			}
			s.count(scaled, op.Rank, of, op.DurAlone(), by, t)
			op.Alone = workload.Scaled(op.DurAlone(), by)
			scaled.Scale[i] *= by
		}
		op.Kernel = s.kernel(op)
	}
	isolation := workload.Isolation{}
	if w.Isolation != nil {
		isolation = *w.Isolation
	}
	isolation.Memo = &workload.Memo{} // of another machine
	scaled.Isolation = &isolation
	if w.Rescaled != nil { // the captured workload and its laws stay
		r := *w.Rescaled
		r.To, scaled.Rescaled = s.To.Name, &r
		return scaled
	}
	r := workload.Rescaling{From: s.From.Name, To: s.To.Name, Parts: s.sorted(), Of: w, On: *s.From}
	r.Same = s.From.Profile == s.To.Profile && (s.resized != nil || !slices.ContainsFunc(r.Parts, func(p workload.Rescaled) bool { return p.Is != p.Was }))
	scaled.Rescaled = &r
	return scaled
}

// count adds an operation to the sums by what bounds it and by law. Copies of captured ranks do not count.
func (s *scaler) count(w *workload.Workload, rank int, of cost.Reason, took trace.Time, by float64, t cost.Roofed) {
	if rank < len(w.Copies) && w.Copies[rank] {
		return
	}
	add := func(of cost.Reason, was, is trace.Time, ops int) {
		if was == 0 && ops == 0 {
			return
		}
		p := s.parts[of]
		if p == nil {
			p = &workload.Rescaled{Bound: of.Bound, Law: of.Law, Sure: of.Sure}
			s.parts[of] = p
		}
		p.Ops += ops
		p.Was += was
		p.Is += is
	}
	now := workload.Scaled(took, by)
	most := 2
	for k, bound := range cost.Bounds {
		was, is := trace.Time(t.Was[k]*1e9+0.5), trace.Time(t.Is[k]*1e9+0.5)
		part, ops := cost.Reason{Bound: bound, Law: of.Law, Sure: of.Sure}, 0
		if k == 0 {
			part.Law, part.Sure = "time of an empty kernel", true
		}
		if t.Was[k] > max(t.Was[1-k], t.Was[2]) {
			most, ops = k, 1
		}
		add(part, was, is, ops)
		took, now = took-was, now-is
	}
	add(of, took, now, most/2)
}

func (s *scaler) sorted() []workload.Rescaled {
	parts := []workload.Rescaled{}
	for _, p := range s.parts {
		parts = append(parts, *p)
	}
	slices.SortFunc(parts, func(a, b workload.Rescaled) int {
		return cmp.Or(cmp.Compare(b.Was, a.Was), cmp.Compare(a.Bound, b.Bound), cmp.Compare(a.Law, b.Law))
	})
	return parts
}

// within is a footprint of at most what a compute unit has.
func within(f program.Footprint, g *machine.GPU) program.Footprint {
	has := g.CUResources()
	f.Threads = min(f.Threads, int(has.Threads))
	f.Registers = min(f.Registers, int(has.Registers)/max(1, f.Threads))
	f.Shared = min(f.Shared, int(has.Shared)-int(g.SharedSpare.Value))
	return f
}

// kernel is the launch of an operation on the other machine. Persistent
// workgroups grow with the compute units. A workgroup that fits on no compute unit there
// takes a whole one: the kernel is another build. Channels of another library have its
// footprint.
func (s *scaler) kernel(op *workload.Op) *workload.Kernel {
	k := *op.Kernel
	cus, now := s.From.GPU.CUs.Value, s.To.GPU.CUs.Value
	if t := &k.Tiling; op.Kind == trace.Compute && t.Persistent && cus != now && cus > 0 {
		t.WGs = max(1, int(float64(t.WGs)*now/cus+0.5))
		if t.Tiles > 0 {
			t.WGs = min(t.WGs, t.Tiles)
		}
	}
	switch another := s.From.Profile != s.To.Profile; {
	case another && op.Kind == trace.Collective:
		k.Footprint = program.Footprint{}
	case another && op.Kind == trace.Compute && program.Fits(s.To, k.Footprint) != nil:
		k.Footprint = within(k.Footprint, &s.To.GPU)
	}
	if k == *op.Kernel {
		return op.Kernel
	}
	if s.kernels[op.Kernel] == nil {
		s.kernels[op.Kernel] = &k
	}
	return s.kernels[op.Kernel]
}
