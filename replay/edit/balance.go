package edit

import (
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

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
