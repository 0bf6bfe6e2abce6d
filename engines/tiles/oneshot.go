package tiles

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// PyTorch's all-reduces in symmetric memory (torch/csrc/distributed/c10d/symm_mem/
// CUDASymmetricMemoryOps.cu) read the peers' buffers with loads of 16 bytes a thread, from
// all peers at once, one load a thread in flight. The GEMM before writes to the buffer.
//
//	one-shot  |flags|read all of every peer, add, ...|flags|
//	two-shot  |flags|read own share of every peer, add, store it to every peer, ...|fence|flags|copy|
//	multimem  |flags|read own share, added by the switch, store it once for all, ...|fence|flags|
//
// The one-shot and two-shot kernels of vLLM, SGLang (custom_all_reduce.cuh), aiter and quick reduce
// on AMD have the same rounds.
const (
	bytesPerThread = 16
	mostBlocks     = 24
	oneShotThreads = 512
	twoShotThreads = 1024
)

// An allReduce replaces the library's all-reduces by one kernel that reads peers' buffers
// (rule O11).
type allReduce struct {
	pl     *plan.Planner
	impl   trace.Shots
	shares bool // two-shot: every rank adds a share and stores it to the others
	inside bool // multimem: the switch adds and replicates
	any    bool // of any size: a program calls PyTorch's operators itself
	flags  cost.Memo[*workload.Collective, []program.Flag]
}

// largest is the most bytes that serving engines give such a kernel; larger all-reduces they leave to the
// library. PyTorch's operators take any. One-shot ends where vLLM, SGLang (custom_all_reduce.cuh) and PyTorch
// (intra_node_comm.cu) take two-shot;
// two-shot ends with the buffer of vLLM and SGLang (custom_all_reduce.py), or aiter's on AMD; multimem where vLLM
// measured that it loses (SYMM_MEM_ALL_REDUCE_MAX_SIZES of all_reduce_utils.py).
func largest(impl trace.Shots, gpu string, ranks int) int64 {
	amd := plan.VendorOf(gpu) == plan.AMD
	switch {
	case impl == trace.OneShot && ranks > 4:
		return 256 << 10
	case impl == trace.OneShot && ranks > 2:
		return 512 << 10
	case impl == trace.Multimem && ranks > 2 && ranks <= 4:
		return 32 << 20
	case impl == trace.Multimem, amd:
		return 64 << 20
	}
	return 8 << 20
}

// planAllReduce serves all-reduces of known and guessed size (rule V10), in pairs or not.
func planAllReduce(pl *plan.Planner, v plan.Values) (emit plan.Emitter, why string) {
	if why := noMultimem(&pl.Machine); why != "" && v["impl"] == "multimem" {
		return nil, why
	}
	if v["norm"] == "inside" && !slices.ContainsFunc(pl.Workload.Collectives, func(c workload.Collective) bool {
		return c.Op == trace.AllReduce && normBehind(pl.Workload, c.Members[0]) >= 0
	}) {
		return nil, "norm=inside: no norm is right behind an all-reduce"
	}
	t := &allReduce{
		pl: pl, impl: trace.Shots(v["impl"]), shares: v["impl"] != "oneshot", inside: v["impl"] == "multimem",
		any: lift.RecorderOf(pl.Workload.Run).Engine == "", flags: cost.Memo[*workload.Collective, []program.Flag]{},
	}
	if t.shares && !t.inside {
		pl.CollectiveTail = func(op *workload.Op) *program.Kernel {
			c := &pl.Workload.Collectives[op.Collective]
			if !t.serves(c) {
				return nil
			}
			bytes := float64(c.Bytes)
			return pl.Sweep("copy from symmetric memory", bytes, bytes)
		}
	}
	emit, why = replaceCollectives(pl, v, "all-reduce", t.serves, t.kernel, func(p *workload.Pair) bool {
		return p.Direction == workload.ComputeThenCollective && !pl.Workload.Ops[p.Second[0]].Graph
	})
	if slices.ContainsFunc(pl.Workload.Collectives, func(c workload.Collective) bool { return t.serves(&c) && t.besideCompute(&c) }) {
		pl.NeverRun("all-reduces of symmetric memory were run behind the kernel whose output they sum, not beside others as here")
	}
	if above := t.above(); why == "" && above != "" {
		pl.Note("%s", above)
	} else if above != "" {
		why = above
	}
	return emit, why
}

// besideCompute reports whether kernels ran beside most of an all-reduce's transfer in the capture, as beside that of gradients.
// Two-shot kernels in place of NCCL's all-reduces of DDP, with copies into and out of their memory, took 1.5 and 0.9 % more
// where 2.2 % less was predicted (two H200, 2026-11-30).
func (t *allReduce) besideCompute(c *workload.Collective) bool {
	w, id := t.pl.Workload, c.Members[0]
	if w.Isolation == nil || int(w.Ops[id].Collective) >= len(w.Isolation.CoRunners) {
		return false
	}
	var beside trace.Time
	for _, x := range w.Isolation.CoRunners[w.Ops[id].Collective] {
		if w.Ops[x.Op].Rank == w.Ops[id].Rank {
			beside += x.Time
		}
	}
	return 2*beside > c.Transfer()
}

// above says which all-reduces are too large for the kernel and stay the library's; "": none is.
func (t *allReduce) above() string {
	n, all, most, size := 0, 0, int64(0), int64(0)
	for i := range t.pl.Workload.Collectives {
		if c := &t.pl.Workload.Collectives[i]; c.Op == trace.AllReduce && len(c.Members) > 1 {
			if all++; c.Bytes > t.most(c) {
				n, most, size = n+1, t.most(c), max(size, c.Bytes)
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("impl=%s: %d of %d all-reduces (of up to %s) are above the %s up to which engines use such a kernel: left to %s",
		t.impl, n, all, trace.Bytes(size), trace.Bytes(most), plan.LibraryOf(t.pl.Machine.GPU.Name))
}

func (t *allReduce) most(c *workload.Collective) int64 {
	if t.any {
		return math.MaxInt64
	}
	return largest(t.impl, t.pl.Machine.GPU.Name, len(c.Members))
}

// replaceCollectives plans a kernel in place of every collective that is served, in pairs or not.
// Operations around it stay as captured.
func replaceCollectives(pl *plan.Planner, v plan.Values, ops string, serves func(*workload.Collective) bool,
	kernel func(*workload.Op, *workload.Collective) *program.Kernel, pairs func(*workload.Pair) bool,
) (emit plan.Emitter, why string) {
	pl.ChangesOnly = func(c *workload.Collective) bool {
		return serves(c) || v["norm"] == "inside" && c.Op == trace.AllReduce && c.Foreign && normBehind(pl.Workload, c.Members[0]) >= 0
	}
	found := slices.ContainsFunc(pl.Workload.Collectives, func(c workload.Collective) bool { return pl.ChangesOnly(&c) })
	before := len(pl.Pairs)
	pl.Take(func(p *workload.Pair) bool {
		return p.Collective >= 0 && serves(&pl.Workload.Collectives[p.Collective]) && pairs(p)
	})
	if !found || pl.Only != nil && len(pl.Pairs) == before {
		return nil, cmp.Or(asCaptured(pl.Workload, v["impl"]), fmt.Sprintf("impl=%s: no %s was found", v["impl"], ops))
	}
	for i := range pl.Workload.Collectives { // kernels read what peers have put into symmetric memory
		if c := &pl.Workload.Collectives[i]; serves(c) {
			pl.Stage(c)
		}
	}
	pl.Graph = v["graph"] == "on"
	pl.CollectiveKernel = func(op *workload.Op) *program.Kernel {
		if c := &pl.Workload.Collectives[op.Collective]; serves(c) {
			return kernel(op, c)
		}
		return nil
	}
	return nil, ""
}

// asCaptured says that captured all-reduces work in the asked way already; "": none does.
func asCaptured(w *workload.Workload, impl string) string {
	for i := range w.Collectives {
		switch name := w.Ops[w.Collectives[i].Members[0]].Name; {
		case w.Collectives[i].Op != trace.AllReduce:
		case string(trace.ShotsOf(name)) == impl:
			return fmt.Sprintf("impl=%s: the captured all-reduces work that way already: %s", impl, trace.Short(name))
		case trace.WithNorm(name):
			return fmt.Sprintf("the captured all-reduces compute the norm behind them too, which another kernel would leave out: %s",
				trace.Short(name))
		}
	}
	return ""
}

// withNorms has the norm behind every all-reduce in the kernel of the all-reduce: it takes an empty
// kernel's time less (rule O19).
func withNorms(w *workload.Workload, m machine.Machine, v plan.Values) *workload.Workload {
	if v["norm"] != "inside" {
		return w
	}
	fused := w.Copy()
	saved := plan.Duration(m.Launch.Graph.Or(0))
	for i := range w.Collectives {
		for _, id := range w.Collectives[i].Members {
			if norm := normBehind(w, id); norm >= 0 && w.Collectives[i].Op == trace.AllReduce {
				op := &fused.Ops[norm]
				op.Alone = max(1, op.DurAlone()-saved)
			}
		}
	}
	return fused
}

// normBehind is the norm that is next on the stream behind a collective, or -1.
func normBehind(w *workload.Workload, id int32) int32 {
	op := &w.Ops[id]
	ids := w.Ranks[op.Rank]
	for _, next := range ids[id-ids[0]+1:] {
		if n := &w.Ops[next]; n.Queue == op.Queue || slices.ContainsFunc(n.After, func(d workload.Dep) bool { return d.Op == id }) {
			if n.Kind == trace.Compute && workload.NameHas(n.Name, "norm") {
				return next
			}
			return -1
		}
	}
	return -1
}

// serves reports whether an all-reduce is replaced: one that engines give to the kernel, and not one whose captured
// kernel works that way or computes the norm behind it too.
func (t *allReduce) serves(c *workload.Collective) bool {
	name := t.pl.Workload.Ops[c.Members[0]].Name
	return c.Op == trace.AllReduce && len(c.Members) > 1 && trace.ShotsOf(name) != t.impl && !trace.WithNorm(name) &&
		c.Bytes > 0 && c.Bytes <= t.most(c)
}

// kernel is one rank's kernel. It begins as PyTorch's barrier kernel, reads in rounds of
// as many bytes as its threads load at once, each a round trip, and ends with an exchange
// of flags, another round trip. A store of the two-shot kernel is acknowledged before its
// flag is set.
func (t *allReduce) kernel(op *workload.Op, c *workload.Collective) *program.Kernel {
	n, f, whole := len(c.Members), &t.pl.Machine.Fabric, float64(c.Bytes)
	me, ranks := slices.Index(c.Members, op.ID), t.pl.RanksOf(c)
	threads, share, name := oneShotThreads, whole, "one-shot all-reduce"
	if t.shares {
		threads, share, name = twoShotThreads, whole/float64(n), "two-shot all-reduce"
	}
	if t.inside {
		name = "multimem all-reduce"
	}
	if c.Guessed {
		name += fmt.Sprintf(" of about %s (guessed)", trace.Bytes(int64(whole)))
	}
	blocks := min(mostBlocks, max(1, machine.CeilDiv(machine.CeilDiv(int(share), bytesPerThread), threads)))
	rounds := machine.CeilDiv(int(share), blocks*threads*bytesPerThread)
	barrier := max(0, t.pl.Machine.Launch.Barrier.Value-f.Latency.Value) // the flags take the rest
	part := share / float64(blocks)                                      // of a workgroup, from each peer
	sent := part
	switch {
	case t.inside: // a rank's buffer is read once in all, and its share is stored once
		sent = part * float64(n+1) / float64(n-1)
	case t.shares:
		sent *= 2 // read by a peer, and stored to it
	}
	flags := t.flags.Of(c, func() []program.Flag { // workgroups that have arrived, and that have read
		call := fmt.Sprintf("%s %d", c.Op, c.Seq)
		return []program.Flag{t.pl.CommonFlag(ranks, "workgroups in "+call), t.pl.CommonFlag(ranks, "workgroups that have read in "+call)}
	})
	trip := plan.Pause(2 * f.Latency.Value)
	last := trip
	if t.shares {
		last.Time += t.pl.Fence().Time
	}
	footprint := program.Footprint{Threads: threads, Registers: 32}
	return t.pl.CommKernel(op, plan.Piece{Coll: c, Of: 1}, name, blocks, footprint, func(_ int, buf []program.Phase) []program.Phase {
		buf = append(buf, plan.Signal(flags[0], ""), plan.Await(flags[0], int64(n*blocks)), plan.Pause(barrier))
		for i := range n - 1 { // the next one first
			load := plan.StoreAt(ranks[(me+1+i)%n], sent)
			load.Read, load.Time = part, shareOf(trip.Time*trace.Time(rounds), i, n-1)
			buf = append(buf, load)
		}
		return append(buf, plan.Signal(flags[1], ""), plan.Await(flags[1], int64(n*blocks)), last)
	})
}
