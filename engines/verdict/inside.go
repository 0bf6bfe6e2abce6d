package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// mostFused is how many names of kernels that communicate inside are told.
const mostFused = 2

// InsideText says what communication is inside kernels, by their workgroups, else by their names (trace.Fused), and what the fusion
// hides by the laws of a machine (rule V35), nil: unknown. "" without such kernels.
func InsideText(w *workload.Workload, on *machine.Machine) string {
	if said := insideText(w.Run); said != "" {
		return said
	}
	says, ops := map[string]string{}, map[string][]int32{}
	var names []string
	for i := range w.Ops {
		op := &w.Ops[i]
		if said := trace.Memo(says, op.Name, func() string {
			_, _, said := trace.Fused(op.Name)
			return said
		}); said == "" || op.Kind != trace.Compute || w.Copies[op.Rank] {
			continue
		}
		if len(ops[op.Name]) == 0 {
			names = append(names, op.Name)
		}
		ops[op.Name] = append(ops[op.Name], op.ID)
	}
	if names == nil {
		return ""
	}
	all, of := trace.Time(0), map[string]trace.Time{}
	for i := range w.Ops {
		if op := &w.Ops[i]; op.Kind != trace.Copy && !w.Copies[op.Rank] {
			all, of[op.Name] = all+op.Dur(), of[op.Name]+op.Dur()
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(of[b], of[a]) })
	var list []string
	for i, name := range names {
		if i == mostFused {
			list = append(list, fmt.Sprintf("%d more", len(names)-i))
			break
		}
		share := 100 * float64(of[name]) / float64(max(1, all))
		inside := says[name] + hiddenText(w, on, ops[name])
		if w.Ops[ops[name][0]].Unfused.Kind == workload.NoShape {
			inside += "; sizes unknown: --dataflow"
		}
		list = append(list, fmt.Sprintf("%.1f %% of the kernels' time is %s (%s)", share, trace.Short(name), inside))
	}
	return "the communication is inside kernels: " + strings.Join(list, ", ")
}

// A move is a collective of a kernel that communicates inside, as it would be alone.
type move struct {
	op    trace.CollectiveOp
	bytes int64
}

// apart is what a kernel that communicates inside would be without: GEMMs and collectives over n ranks, one after another; no GEMM: not
// known. A layer of experts (all-to-alls on both sides) has two GEMMs, and sends two bytes an element to where the tokens came from.
func apart(op *workload.Op, n int64) (gemms []workload.Shape, moves []move) {
	reads, sends, _ := trace.Fused(op.Name)
	first := op.Unfused
	elem := int64(first.ElemSize)
	if first.Kind != workload.GEMM || elem < 1 || elem > 2 {
		return nil, nil
	}
	switch {
	case reads == trace.AllToAll && sends == reads:
		second := first
		second.N, second.K = first.K, first.N/2
		return []workload.Shape{first, second}, []move{{reads, first.M * first.K * elem}, {sends, first.M * first.K * 2}}
	case reads == trace.UnknownOp && sends != reads:
		return []workload.Shape{first}, []move{{sends, first.M * first.N * 2}}
	case sends != trace.UnknownOp || reads != trace.AllGather && reads != trace.AllToAll:
		return nil, nil
	case reads == trace.AllGather:
		first.M *= n
	}
	return []workload.Shape{first}, []move{{reads, first.M * first.K * elem}}
}

// hiddenText says how much of its communication a kernel hides that multiplies and communicates at once, of GEMMs and collectives
// that take as long apart as the machine's laws say; "" if a size or the machine is unknown. The laws are of elements of two bytes:
// with those of one byte, GEMMs multiply at their rate to twice of it.
func hiddenText(w *workload.Workload, on *machine.Machine, ids []int32) string {
	op := w.Ops[ids[0]]
	gemms, moves := apart(&op, int64(w.World))
	if on == nil || gemms == nil || w.World < 2 {
		return ""
	}
	var c workload.Collective
	took := map[int][]trace.Time{} // by rank
	for _, id := range ids {
		rank := w.Ops[id].Rank
		took[rank] = append(took[rank], w.Ops[id].Dur())
	}
	for rank := range w.World {
		c.Members = append(c.Members, w.Ranks[rank][0])
	}
	var shortest []trace.Time // of each round, that of the rank that waits least
	for i := range took[op.Rank] {
		least := trace.Infinity
		for _, of := range took {
			if i < len(of) {
				least = min(least, of[i])
			}
		}
		shortest = append(shortest, least)
	}
	k := *op.Kernel
	op.Kernel, k.Tiling = &k, workload.Tiling{WGs: max(1, k.Tiling.WGs)} // tiles as the library would take
	laws := cost.Laws{Machine: on, Workload: w}
	var multiply [2]float64 // at twice the rate where elements have one byte, and at the law's
	for _, s := range gemms {
		op.Read, op.Write = s.Traffic()
		if strings.Contains(op.Name, "fp4") {
			op.Read -= float64(s.Groups*s.N*s.K) / 2 // of weights
		}
		for i, elem := range [...]int{s.ElemSize, 2} {
			k.Shape = s
			k.Shape.K, k.Shape.ElemSize = s.K*int64(elem)/2, 2
			seconds, _, _ := laws.Unseen(&op)
			multiply[i] += seconds
		}
	}
	moving := 0.0
	for _, x := range moves {
		c.Op = x.op
		moving += laws.Time(&c, x.op, x.bytes, 0)
	}
	fused := float64(overlap.Median(shortest)) / 1e9
	if multiply[0] <= 0 || moving <= 0 {
		return ""
	}
	ns := func(seconds float64) string { return trace.Micros(trace.Time(seconds * 1e9)) }
	share := func(i int) float64 { return 100 * max(0, min(1, (multiply[i]+moving-fused)/moving)) }
	its, takes, hides, name := "its GEMM takes", ns(multiply[0]), fmt.Sprintf("%.0f %%", share(0)), moves[0].op.String()
	if len(gemms) > 1 {
		its, name = "its GEMMs take", "dispatch and combine"
	}
	if multiply[1] > multiply[0] {
		takes += " to " + ns(multiply[1]) + " (8 bits at twice to once the rate of 16)"
		hides = fmt.Sprintf("%.0f to %.0f %%", share(0), share(1))
	}
	said := fmt.Sprintf("; by the laws of %s %s %s and the %s over %d ranks %s, fused they take %s: ",
		on.Name, its, takes, name, w.World, ns(moving), ns(fused))
	switch {
	case fused < max(multiply[0], moving):
		return said + "less than the longer alone, so that the laws do not tell what the fusion hides"
	case share(1) > 0:
		return said + fmt.Sprintf("the fusion hides %s of the %s", hides, name)
	}
	return said + "the fusion hides nothing"
}

// insideText says what the workgroups of a run spend the time of their kernels on, if they store to other ranks: communication inside
// kernels. The whole is the workgroups' places, of the processors or of a persistent kernel, times the length of each rank's kernels:
// what is left of it is between workgroups, and the tail, in which some places have none any more. "" without such workgroups.
func insideText(run *trace.Run) string {
	type place struct {
		kernel trace.SpanID
		lane   trace.LaneID
	}
	ends, of := map[place]trace.Time{}, map[string]trace.Time{}
	stores := 0
	for i := range run.Spans {
		s := &run.Spans[i]
		wg := s
		if s.Kind > trace.Workgroup && s.Kind <= trace.PhaseWait && s.Parent != trace.None {
			wg = &run.Spans[s.Parent]
		}
		at := run.Workgroup(*wg)
		if wg.Kind != trace.Workgroup || at == nil || wg.Parent == trace.None || run.Spans[wg.Parent].Kind != trace.Compute {
			continue
		}
		away := at.Peer != trace.None && int(at.Peer) != run.RankID(run.Lanes[wg.Lane].Rank)
		switch s.Kind {
		case trace.Workgroup:
			p := place{wg.Parent, wg.Lane}
			ends[p] = max(ends[p], s.End)
			if away {
				stores++
			}
		case trace.PhaseCompute:
			if away {
				of["compute for peers"] += s.Dur()
			} else {
				of["compute for the own rank"] += s.Dur()
			}
		case trace.PhaseWait:
			of["waiting"] += s.Dur()
		default:
			of["stores"] += s.Dur()
		}
	}
	if stores == 0 {
		return ""
	}
	var whole, phases trace.Time
	for p, end := range ends {
		k := &run.Spans[p.kernel]
		whole += k.Dur()
		of["tail"] += max(0, k.End-end)
	}
	for _, t := range of {
		phases += t
	}
	of["between workgroups"] = max(0, whole-phases)
	type share struct {
		name string
		time trace.Time
	}
	var list []share
	for name, t := range of {
		list = append(list, share{name, t})
	}
	slices.SortFunc(list, func(a, b share) int { return cmp.Or(cmp.Compare(b.time, a.time), strings.Compare(a.name, b.name)) })
	var said []string
	for _, x := range list {
		if percent := fmt.Sprintf("%.0f %%", 100*float64(x.time)/float64(max(1, whole))); percent != "0 %" {
			said = append(said, x.name+" "+percent)
		}
	}
	return fmt.Sprintf("the communication is inside kernels: %d workgroups or tiles store to other ranks; of their places' time: %s",
		stores, strings.Join(said, ", "))
}
