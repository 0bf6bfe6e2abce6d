package reproduce

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/engines/tilesync"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// Measures are what can be read off a replay. All but time are of the whole run.
//
//	time           seconds of an iteration, the mean over dispatch races
//	skew           latest less earliest end of a rank's kernels, over the latest
//	end.N          seconds to the end of the kernels of rank N
//	overlap        share of the communication's time that compute runs alongside, of all ranks
//	communication  share of the time in which a rank communicates
//	collectives    seconds of collectives, per rank and iteration
//	compute        seconds of compute kernels, per rank and iteration
//	tiles          workgroups of the first compute kernel
//	waves.X        tilesync.Waves of the first pair: first, second, stream (apart), fine (together), whole (together, rounded up)
//	traffic        bytes of memory per rank and iteration
//	traffic.X      those of cause X (explain.MemoryByCause)
//	read.X         those that were read
//	written.X      those that were written; X as in -all_gather: all but that cause
//	mark.X         marks of rank 0: lastput and firstslice, in seconds; top and rest, shares of puts
//	sent           bytes that a rank sends to others, per iteration
//	bus            bus bandwidth of the only collective, bytes per second, by the time of an iteration
type measured struct {
	why    string // why nothing was measured
	time   float64
	waits  float64           // of time: the host's launch of the first kernel and its wait for the last, less a gap between kernels
	ends   []trace.Time      // by rank
	all    overlap.Breakdown // sum over ranks
	ranks  float64
	rounds float64 // iterations
	tiles  float64
	waves  tilesync.Waves
	moved  []explain.Moved
	sent   float64
	wire   float64 // bytes that a rank sends in the only collective of an iteration, by a ring
	links  float64 // bytes per second of the slowest link between its ranks
	marks  marks
}

func measure(w *workload.Workload, m machine.Machine, out compare.Outcome) measured {
	if out.Result == nil {
		return measured{why: out.Why}
	}
	run := out.Result.Run
	ranks := overlap.Collect(run).Ranks()
	x := measured{
		time: float64(out.Expected) / 1e9, ends: rankEnds(run), all: overlap.Sum(ranks),
		ranks: float64(max(1, len(ranks))), rounds: float64(max(1, workload.Iterations(w))),
		moved: explain.MemoryByCause(w, out),
	}
	x.marks = marksOf(run)
	for _, t := range out.Result.Traffic {
		if t.Resource == replay.Egress || t.Resource == replay.NICEgress {
			x.sent += t.Bytes / x.ranks / x.rounds
		}
	}
	if len(w.Collectives) > 0 {
		c := &w.Collectives[0]
		x.wire, x.links = float64(c.Op.WireBytes(c.Bytes, len(c.Members))), m.LinkRate(len(c.Members))
	}
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Kind == trace.Compute {
			x.tiles = float64(op.Tiling.WGs)
			break
		}
	}
	if len(w.Pairs) > 0 && w.Pairs[0].Direction == workload.ComputeThenCompute {
		x.waves, _ = tilesync.WavesOf(m, &w.Ops[w.Pairs[0].First[0]], &w.Ops[w.Pairs[0].Second[0]])
	}
	return x
}

// rankEnds is when the last kernel of each rank ends, ns.
func rankEnds(run *trace.Run) []trace.Time {
	ends := make([]trace.Time, len(run.Ranks))
	for _, s := range run.Spans {
		if s.Kind == trace.Compute || s.Kind == trace.Collective {
			row := run.RankOf(s)
			ends[row] = max(ends[row], s.End)
		}
	}
	return ends
}

// value is a measure by name.
func (x *measured) value(name string) (float64, error) {
	if x.why != "" {
		return 0, noNumber(x.why)
	}
	kind, cause, byCause := strings.Cut(name, ".")
	per := x.ranks * x.rounds * 1e9
	switch kind {
	case "", "time":
		return x.time, nil
	case "skew":
		last := slices.Max(x.ends)
		return float64(last-slices.Min(x.ends)) / float64(max(1, last)), nil
	case "end":
		rank, err := strconv.Atoi(cause)
		if err != nil || rank < 0 || rank >= len(x.ends) {
			return 0, fmt.Errorf("no rank %q", cause)
		}
		return float64(x.ends[rank]) / 1e9, nil
	case "overlap":
		return float64(x.all.Overlapped) / float64(max(1, x.all.Communication)), nil
	case "communication":
		return float64(x.all.Communication) / float64(max(1, x.all.Total)), nil
	case "collectives":
		return float64(x.all.Communication) / per, nil
	case "compute":
		return float64(x.all.Compute) / per, nil
	case "mark":
		return x.marks.value(cause)
	case "sent":
		return x.sent, nil
	case "bus":
		return x.wire / x.time, nil
	case "tiles":
		return x.tiles, nil
	case "waves":
		return map[string]float64{
			"first": x.waves.First, "second": x.waves.Second, "stream": x.waves.Apart,
			"fine": x.waves.Together, "whole": math.Ceil(x.waves.Together),
		}[cause], nil
	case "traffic", "read", "written":
		var sum float64
		for _, m := range x.moved {
			but, all := strings.CutPrefix(cause, "-")
			if byCause && strings.HasPrefix(m.Cause, but) == all {
				continue
			}
			if kind != "written" {
				sum += m.Read
			}
			if kind != "read" {
				sum += m.Written
			}
		}
		return sum, nil
	}
	return 0, fmt.Errorf("unknown measure %q", name)
}
