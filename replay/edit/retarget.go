// Package edit changes a workload before strategies plan it.
//
//	recut.go, pipelined.go, rebuild.go  chains of computation and collectives in another number of parts, pipelined
//	                                    collectives that are whole again (rules V21, V22)
//	batch.go, repeat.go                 another number of rows, or of iterations
//	retarget.go, balance.go, ranks.go   another machine, or another number of ranks
//
// A workload that is retargeted has the durations that its operations would have on another machine. Strategies
// plan the result as if it had been captured there. Dependencies, the order of issue and the host's own times stay as
// captured.
//
//	captured on h200         |GEMM 100 µs |norm 20 µs|all-reduce 80 µs |
//	                           matmul law   bytes      library's times
//	scaled to another GPU    |GEMM 104 µs |norm 28 µs|all-reduce 80 µs |
package edit

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// To returns a copy of a workload whose durations are those of another machine. Durations
// alone, and those of the captured schedule, are scaled by the ratio of a law's times on
// the two machines (rules Y1, Y3, Y4 and Y5). Durations alone must have been estimated on the
// machine of the capture.
func To(w *workload.Workload, from, to machine.Machine) *workload.Workload {
	return rescale(w, &from, &to, nil)
}

// A scaler sums what bounds the durations of one workload.
type scaler map[cost.Reason]*workload.Rescaled

// rescale gives a workload the durations on a machine, z as resized: nil, if groups keep their ranks.
func rescale(w *workload.Workload, from, to *machine.Machine, z *Resized) *workload.Workload {
	scaled, sums := w.Copy(), scaler{}
	laws := cost.Laws{Machine: to, Workload: scaled, Seen: &cost.Laws{Machine: from, Workload: w}}
	if z != nil {
		laws.RanksSeen = z.before
	}
	if scaled.Scale = slices.Clone(w.Scale); w.Scale == nil {
		scaled.Scale = slices.Repeat([]float64{1}, len(w.Ops))
	}
	for i := range scaled.Collectives {
		c := &scaled.Collectives[i]
		e := laws.Collective(c, c.Bytes, 0)
		for _, id := range c.Members {
			sums.count(scaled, scaled.Ops[id].Rank, &e, c.TransferAlone())
		}
		if c.Alone, c.Scale = e.Alone, cmp.Or(c.Scale, 1)*e.By; c.Channels > 0 {
			c.Channels = e.Channels
		}
	}
	for i := range scaled.Ops {
		op := &scaled.Ops[i]
		if op.Collective >= 0 {
			op.Kernel = laws.Launched(op)
			continue
		}
		seen, part := []*workload.Op{op}, cost.Part{}
		shard := z != nil && z.sharded && op.Optimizer // of sharded parameters (rule Y7)
		if shard {
			seen, part.Of = slices.Repeat(seen, z.Was), z.Ranks
		}
		e := laws.Kernel(seen, part)
		if shard {
			e.Law = "shard of the optimizer: " + e.Law
		}
		sums.count(scaled, op.Rank, &e, op.DurAlone())
		scaled.Scale[i] *= e.By
		*op = e.Op
	}
	isolation := workload.Isolation{}
	if w.Isolation != nil {
		isolation = *w.Isolation
	}
	isolation.Memo = &workload.Memo{} // of another machine
	scaled.Isolation = &isolation
	if w.Rescaled != nil { // the captured workload and its laws stay
		r := *w.Rescaled
		r.To, scaled.Rescaled = to.Name, &r
		return scaled
	}
	r := workload.Rescaling{From: from.Name, To: to.Name, Parts: sums.sorted(), Of: w, On: *from}
	r.Same = from.Profile == to.Profile && (z != nil || !slices.ContainsFunc(r.Parts, func(p workload.Rescaled) bool { return p.Is != p.Was }))
	scaled.Rescaled = &r
	return scaled
}

// count adds an operation to the sums by what bounds it and by law. Copies of captured ranks do not count.
func (s scaler) count(w *workload.Workload, rank int, e *cost.Estimate, took trace.Time) {
	if rank < len(w.Copies) && w.Copies[rank] {
		return
	}
	add := func(of cost.Reason, was, is trace.Time, ops int) {
		if was == 0 && ops == 0 {
			return
		}
		p := s[of]
		if p == nil {
			p = &workload.Rescaled{Bound: of.Bound, Law: of.Law, Sure: of.Sure}
			s[of] = p
		}
		p.Ops += ops
		p.Was += was
		p.Is += is
	}
	now := workload.Scaled(took, e.By)
	most := 2
	for k, bound := range cost.Bounds {
		was, is := trace.Time(e.Was[k]*1e9+0.5), trace.Time(e.Is[k]*1e9+0.5)
		part, ops := cost.Reason{Bound: bound, Law: e.Law, Sure: e.Sure}, 0
		if k == 0 {
			part.Law, part.Sure = "time of an empty kernel", true
		}
		if e.Was[k] > max(e.Was[1-k], e.Was[2]) {
			most, ops = k, 1
		}
		add(part, was, is, ops)
		took, now = took-was, now-is
	}
	add(e.Reason, took, now, most/2)
}

func (s scaler) sorted() []workload.Rescaled {
	parts := []workload.Rescaled{}
	for _, p := range s {
		parts = append(parts, *p)
	}
	slices.SortFunc(parts, func(a, b workload.Rescaled) int {
		return cmp.Or(cmp.Compare(b.Was, a.Was), cmp.Compare(a.Bound, b.Bound), cmp.Compare(a.Law, b.Law))
	})
	return parts
}
