package score

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/tiles"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A replayed experiment is what measures are read off.
type replayed struct {
	*workload.Workload
	machine.Machine
	engines.Outcome
	seconds float64 // of an iteration, the mean over dispatch races
	waits   float64 // of it: the host's launch of the first kernel and its wait for the last, less a gap between kernels
}

// measure is a number of the whole run by its name; the error is a noNumber where the replay has none:
//
//	time           seconds of an iteration
//	skew           latest less earliest end of a rank's kernels, over the latest
//	end.N          seconds to the end of the kernels of rank N
//	overlap        share of the communication's time that compute runs alongside, of all ranks
//	communication  share of the time in which a rank communicates
//	collectives    seconds of collectives, per rank and iteration
//	compute        seconds of compute kernels, per rank and iteration
//	tiles          workgroups of the first compute kernel
//	waves.X        tilesync.Waves of the first pair: first, second, stream (apart), fine (together), whole (together, rounded up)
//	traffic        bytes of memory per rank and iteration
//	traffic.X      those of cause X (verdict.MemoryByCause)
//	read.X         those that were read
//	written.X      those that were written; X as in -all_gather: all but that cause
//	mark.X         marks of rank 0: lastput and firstslice, in seconds; top and rest, shares of puts
//	sent           bytes that a rank sends to others, per iteration
//	bus            bus bandwidth of the only collective, bytes per second, by the time of an iteration
func (x *replayed) measure(name string) (float64, error) {
	if x.Result == nil {
		return 0, noNumber(x.Why)
	}
	kind, of, _ := strings.Cut(name, ".")
	if kind == "bus" && len(x.Collectives) == 0 || kind == "waves" &&
		(len(x.Pairs) == 0 || x.Pairs[0].Direction != workload.ComputeThenCompute) {
		return 0, noNumber("the replay has nothing to read " + name + " off")
	}
	switch kind {
	case "", "time":
		return x.seconds, nil
	case "overlap", "communication", "collectives", "compute", "sent":
		return x.breakdown(kind), nil
	case "skew":
		ends := x.ends()
		last := slices.Max(ends)
		return float64(last-slices.Min(ends)) / float64(max(1, last)), nil
	case "end":
		ends := x.ends()
		rank, err := strconv.Atoi(of)
		if err != nil || rank < 0 || rank >= len(ends) {
			return 0, fmt.Errorf("no rank %q", of)
		}
		return float64(ends[rank]) / 1e9, nil
	case "mark":
		return x.mark(of)
	case "bus":
		c := &x.Collectives[0]
		return float64(c.Op.WireBytes(c.Bytes, len(c.Members))) / x.seconds, nil
	case "tiles":
		for i := range x.Ops {
			if op := &x.Ops[i]; op.Kind == trace.Compute {
				return float64(op.Tiling.WGs), nil
			}
		}
		return 0, nil
	case "waves":
		waves, _ := tiles.WavesOf(x.Machine, &x.Ops[x.Pairs[0].First[0]], &x.Ops[x.Pairs[0].Second[0]])
		return map[string]float64{
			"first": waves.First, "second": waves.Second, "stream": waves.Apart,
			"fine": waves.Together, "whole": math.Ceil(waves.Together),
		}[of], nil
	case "traffic", "read", "written":
		return x.traffic(kind, of), nil
	}
	return 0, fmt.Errorf("unknown measure %q", name)
}

// breakdown is a measure of a mean rank.
func (x *replayed) breakdown(kind string) float64 {
	ranks := overlap.Collect(x.Result.Run).Ranks()
	all := overlap.Sum(ranks)
	n, rounds := float64(max(1, len(ranks))), float64(max(1, workload.Iterations(x.Workload)))
	switch kind {
	case "overlap":
		return float64(all.Overlapped) / float64(max(1, all.Communication))
	case "communication":
		return float64(all.Communication) / float64(max(1, all.Total))
	case "collectives":
		return float64(all.Communication) / (n * rounds * 1e9)
	case "compute":
		return float64(all.Compute) / (n * rounds * 1e9)
	}
	var sent float64
	for _, t := range x.Result.Traffic {
		if t.Resource == replay.Egress || t.Resource == replay.NICEgress {
			sent += t.Bytes / n / rounds
		}
	}
	return sent
}

// ends is when the last kernel of each rank ends, ns.
func (x *replayed) ends() []trace.Time {
	run := x.Result.Run
	ends := make([]trace.Time, len(run.Ranks))
	for _, s := range run.Spans {
		if s.Kind == trace.Compute || s.Kind == trace.Collective {
			row := run.RankOf(s)
			ends[row] = max(ends[row], s.End)
		}
	}
	return ends
}

// traffic is bytes of memory, of one cause, of all but one, or with "" of all.
func (x *replayed) traffic(kind, cause string) (sum float64) {
	but, others := strings.CutPrefix(cause, "-")
	for _, m := range verdict.MemoryByCause(x.Workload, x.Outcome) {
		if cause != "" && strings.HasPrefix(m.Cause, but) == others {
			continue
		}
		if kind != "written" {
			sum += m.Read
		}
		if kind != "read" {
			sum += m.Written
		}
	}
	return sum
}

// withMarks reports whether a measure needs phases of workgroups.
func withMarks(measure string) bool { return strings.HasPrefix(measure, "mark.") }

// mark is what Figure 11 of the fused operators shows: when workgroups of rank 0 put slices to other ranks and complete
// slices that stay, and the share of the puts by the two workgroups with most of them.
func (x *replayed) mark(name string) (float64, error) {
	lastPut, firstSlice, puts := trace.Time(0), trace.Infinity, map[trace.LaneID]int{}
	run := x.Result.Run
	for _, s := range run.Spans {
		if s.Kind != trace.PhasePut && s.Kind != trace.Marker {
			continue
		}
		switch mark := run.NameOf(s); { // replay names what a workgroup puts or posts by its mark
		case strings.HasPrefix(mark, "put"):
			puts[s.Lane]++
			lastPut = max(lastPut, s.Start)
		case mark == "slice ready":
			firstSlice = min(firstSlice, s.Start)
		}
	}
	var counts []int
	all, top := 0, 0.0
	for _, n := range puts {
		counts, all = append(counts, n), all+n
	}
	slices.Sort(counts)
	for _, n := range counts[max(0, len(counts)-2):] {
		top += float64(n) / float64(all)
	}
	switch {
	case name == "firstslice" && firstSlice < trace.Infinity:
		return float64(firstSlice) / 1e9, nil
	case name == "firstslice" || all == 0:
		return 0, noNumber("mark." + name + ": the replay has no such mark")
	case name == "lastput":
		return float64(lastPut) / 1e9, nil
	case name == "top":
		return top, nil
	case name == "rest":
		return 1 - top, nil
	}
	return 0, fmt.Errorf("unknown measure %q", "mark."+name)
}
