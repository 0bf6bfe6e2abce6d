package retarget

import (
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// WhatIf returns a workload as it would be on a changed machine, and that machine (rules Z7
// and Y11).
func WhatIf(w *workload.Workload, m machine.Machine, x profile.WhatIf) (*workload.Workload, machine.Machine) {
	changed := x.Of(m)
	w = To(w, m, changed)
	if i := slices.IndexFunc(x, func(f profile.Factor) bool { return f.Name == profile.Balanced }); i >= 0 {
		balance(w, x[i].By == profile.ByFastest)
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

func balanceHosts(w *workload.Workload, fastest bool) {
	var works []trace.Time
	for _, h := range w.Hosts {
		works = append(works, workOf(h))
	}
	hosts := slices.Clone(w.Hosts)
	for i, h := range hosts {
		if works[i] == 0 {
			continue
		}
		f := float64(chosenOf(works, fastest)) / float64(works[i])
		scaled := *h
		scaled.Issues = slices.Clone(h.Issues)
		for k := range scaled.Issues {
			scaled.Issues[k].Work = workload.Scaled(scaled.Issues[k].Work, f)
		}
		hosts[i] = &scaled
	}
	w.Hosts = hosts
	if len(w.Calls) > 0 {
		w.Calls = slices.Repeat([]trace.Time{chosenOf(w.Calls, fastest)}, len(w.Calls))
	}
}

func workOf(h *workload.Host) (sum trace.Time) {
	for _, i := range h.Issues {
		sum += i.Work
	}
	return sum
}

// chosenOf is the least or the lower median of some times.
func chosenOf(times []trace.Time, least bool) trace.Time {
	if least {
		return slices.Min(times)
	}
	return overlap.Median(times)
}
