package engines

import (
	"slices"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// ideal is the bound that T3 compares with (section 5.3), for whole runs: compute
// and communication side by side, each as fast as alone.
var ideal = Engine{
	Name:    "ideal",
	From:    "T3",
	Summary: "max(compute, communication) of an iteration: no schedule of the same operations takes less",
	Detail: "Each stream's kernels, collectives and copies run back to back, apart from each other, in the times they take " +
		"alone. Nothing holds slots or bandwidth, and nothing waits for a launch, for the host or for other streams' data. " +
		"An iteration begins when the one before has ended on all ranks. A strategy that takes less has removed work, as stores " +
		"of intermediate results, or made it cheaper; the replay says which. variant=gemm-rs is T3's Ideal-GEMM-RS-Overlap: of an all-reduce only the " +
		"reduce-scatter runs beside the GEMM, and its all-gather follows both. variant=rs-nmc is Ideal-RS+NMC: the same " +
		"where memory adds what arrives, which saves the reduce-scatter's last step, in which nothing is sent and the last sum is formed.",
	Params: []Param{
		{Name: "variant", Default: "whole", Choices: []string{"whole", "gemm-rs", "rs-nmc"}, Doc: "what runs beside compute: the whole communication, or of each pair its reduce-scatter, or that with near-memory sums"},
	},
	Bound: true,
	plan: func(pl *planner, v Values) (emitter, error) {
		variant := v["variant"]
		if variant == "whole" {
			return nil, pl.boundByLanes()
		}
		pl.take(func(p *workload.Pair) bool { return p.Collective >= 0 && reduced(pl.w, p) })
		if len(pl.pairs) == 0 {
			return nil, &NotApplicable{"ideal", "no kernel followed by a reduce-scatter or an all-reduce was found (variant=whole bounds any run)"}
		}
		gathers := map[int]*workload.Collective{} // by index of pair
		return func(r *rank, p *pair) {
			if gathers[p.index] == nil {
				gathers[p.index] = gatherOf(p.coll)
			}
			r.besideReduction(p, gathers[p.index], variant == "rs-nmc")
		}, nil
	},
}

// reduced reports whether a pair is a kernel and the sum of its output over ranks.
func reduced(w *workload.Workload, p *workload.Pair) bool {
	op := w.Collectives[p.Collective].Op
	return p.Direction == workload.ComputeThenCollective && (op == trace.AllReduce || op == trace.ReduceScatter)
}

// alone is an operation that takes its own time and holds nothing.
func (pl *planner) alone(op *workload.Op) replay.Command {
	switch {
	case op.Kind == trace.Copy:
		return pl.copyOf(op)
	case op.Collective >= 0:
		c := &pl.w.Collectives[op.Collective]
		return launchOf(op, pl.gangFor(op, c, pl.chunks(c, 1, 0, nil).alone))
	}
	return launchOf(op, pl.measuredKernel(op, pl.paced(op, op.DurAlone())))
}

// besideReduction writes a kernel and the reduce-scatter of its output side by
// side, and behind both, where they were an all-reduce, its all-gather.
func (r *rank) besideReduction(p *pair, gather *workload.Collective, nmc bool) {
	compute, comm := r.ops(p)
	onCompute, onComm := r.stream(compute.Queue), r.commStream(compute, comm)
	reduce, rest := r.pl.halves(p.coll)
	if nmc {
		reduce -= r.pl.lastSum(p.coll, reduce)
	}
	r.enter(p)
	begun := r.pl.p.NewFlag(compute.Name + " next on its stream")
	gap := r.ready(onCompute, compute, slices.Concat(r.before(p, compute), comm.After), r.within(p)...)
	onCompute.delay(gap, replay.LaunchGap, compute.Name)
	onCompute.post(begun, 1)
	for _, op := range r.within(p) {
		if op != comm {
			onCompute.launch(0, r.pl.alone(op))
			r.finished(onCompute, op)
		}
	}
	onComm.wait(begun, 1, compute.Name)
	onComm.launch(0, launchOf(comm, r.pl.gangFor(comm, p.coll, reduce)))
	if rest > 0 {
		onComm.wait(r.pl.done[compute.ID], 1, compute.Name)
		onComm.launch(0, launchOf(comm, r.pl.gangFor(comm, gather, rest)))
	}
	r.finished(onComm, comm)
	r.leave(p)
}

// gatherOf is the all-gather that is the second half of an all-reduce.
func gatherOf(c *workload.Collective) *workload.Collective {
	g := *c
	g.Op = trace.AllGather
	return &g
}

// halves is how long the reduce-scatter of a captured collective takes and how
// long the all-gather behind it: an all-reduce's time in the ratio of the
// library's for either; all and nothing of a reduce-scatter.
func (pl *planner) halves(c *workload.Collective) (reduce, gather trace.Time) {
	if c.Op != trace.AllReduce {
		return c.TransferAlone(), 0
	}
	lib, n, channels := &pl.m.Library, len(c.Members), pl.channels(c)
	for _, op := range []trace.CollectiveOp{trace.ReduceScatter, trace.AllGather} {
		pl.m.Asked.Add(machine.Question{Kind: machine.AboutCollective, Op: op, Bytes: c.Bytes, Ranks: n, Channels: channels})
	}
	a, b := lib.Time(trace.ReduceScatter, c.Bytes, n, channels), lib.Time(trace.AllGather, c.Bytes, n, channels)
	if a+b <= 0 {
		a, b = 1, 1
	}
	gather = trace.Time(float64(c.TransferAlone()) * b / (a + b))
	return c.TransferAlone() - gather, gather
}

// lastSum is the part of a reduce-scatter's time in which nothing is sent: its
// last step adds the last chunk that came in to the rank's own.
func (pl *planner) lastSum(c *workload.Collective, reduce trace.Time) trace.Time {
	lib, n, channels := &pl.m.Library, len(c.Members), pl.channels(c)
	whole := lib.Time(trace.ReduceScatter, c.Bytes, n, channels)
	step := float64(c.Bytes) / float64(n*channels) / lib.ReduceScatter.Receive.Value
	if whole <= 0 || lib.ReduceScatter.Receive.Value <= 0 {
		return 0
	}
	return trace.Time(float64(reduce) * min(1, step/whole))
}
