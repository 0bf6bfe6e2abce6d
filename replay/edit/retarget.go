// Package edit changes a workload before strategies plan it.
//
//	recut.go, pipelined.go, rebuild.go  chains of computation and collectives in another number of parts, pipelined
//	                                    collectives that are whole again (rules V21, V22)
//	batch.go                            another number of rows, or of iterations
//	copies.go                           copies from the host earlier; captured graphs launched by the host
//	retarget.go, ranks.go               another machine, or another number of ranks
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
	"github.com/overlapse/overlapse/trace/overlap"
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
	r.Same = from.Profile == to.Profile && (z != nil || !slices.ContainsFunc(r.Parts,
		func(p workload.Rescaled) bool { return p.Is != p.Was }))
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
		was, is := nanoseconds(e.Was[k]), nanoseconds(e.Is[k])
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

// WhatIf returns a workload as it would be on a changed machine, and that machine (rules Z7
// and Y11).
func WhatIf(w *workload.Workload, m machine.Machine, x machine.WhatIf) (*workload.Workload, machine.Machine) {
	changed := x.Of(m)
	w = To(w, m, changed)
	if i := slices.IndexFunc(x, func(f machine.Factor) bool { return f.Name == machine.Balanced }); i >= 0 {
		balance(w, x[i].By == machine.ByFastest)
	}
	return w, changed
}

// balance gives every rank the compute times and the host times of the median rank, or of
// the fastest: of each kernel those of the ranks that launch it equally often.
// Durations are in proportion to those of the rank itself. w is changed.
func balance(w *workload.Workload, fastest bool) {
	type kernel struct {
		name string
		rank int
	}
	type sum struct {
		n    int
		time trace.Time
	}
	sums := map[kernel]sum{}
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Kind == trace.Compute {
			k := kernel{op.Name, op.Rank}
			sums[k] = sum{sums[k].n + 1, sums[k].time + op.DurAlone()}
		}
	}
	by := map[kernel]float64{}
	for k, x := range sums {
		var alike []trace.Time // of the ranks that launch it as often
		for rank := range w.World {
			if y := sums[kernel{k.name, rank}]; y.n == x.n {
				alike = append(alike, y.time)
			}
		}
		by[k] = float64(chosenOf(alike, fastest)) / float64(max(1, x.time))
	}
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Kind == trace.Compute {
			f := by[kernel{op.Name, op.Rank}]
			op.Alone = workload.Scaled(op.DurAlone(), f)
			w.Scale[i] *= f
		}
	}
	balanceHosts(w, fastest)
}

// balanceHosts gives the hosts of all ranks, iteration by iteration, the work of the median one or of the fastest: each
// issue what it took there, if both have as many, so that a stall goes, else in proportion.
func balanceHosts(w *workload.Workload, fastest bool) {
	of, n := workload.IterationsOf(w)
	issues := make([][][]*workload.Issue, n+1) // by iteration, the last for what is in none, and rank
	for i := range issues {
		issues[i] = make([][]*workload.Issue, len(w.Hosts))
	}
	w.Hosts = slices.Clone(w.Hosts)
	for rank, h := range w.Hosts {
		scaled := *h
		scaled.Issues = slices.Clone(h.Issues)
		w.Hosts[rank] = &scaled
		for k := range scaled.Issues {
			at := n
			if i := of[w.Ranks[rank][k]]; i >= 0 {
				at = int(i)
			}
			issues[at][rank] = append(issues[at][rank], &scaled.Issues[k])
		}
	}
	for _, ranks := range issues {
		works, like := make([]trace.Time, len(ranks)), []workload.Issue{}
		for rank, own := range ranks {
			for _, i := range own {
				works[rank] += i.Work
			}
		}
		if len(works) == 0 {
			continue
		}
		work := chosenOf(works, fastest)
		for _, i := range ranks[slices.Index(works, work)] {
			like = append(like, *i)
		}
		for rank, own := range ranks {
			for k, i := range own {
				if len(own) == len(like) {
					*i = like[k]
				} else {
					i.Work = workload.Scaled(i.Work, float64(work)/float64(max(1, works[rank])))
				}
			}
		}
	}
	if len(w.Calls) > 0 {
		w.Calls = slices.Repeat([]trace.Time{chosenOf(w.Calls, fastest)}, len(w.Calls))
	}
}

// chosenOf is the least or the lower median of some times.
func chosenOf(times []trace.Time, least bool) trace.Time {
	if least {
		return slices.Min(times)
	}
	return overlap.Median(times)
}
