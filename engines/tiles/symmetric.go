package tiles

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
)

// operator plans the copies and signals of all pairs of the one-sided strategies.
type operator struct {
	pl      *plan.Planner
	impl    string                 // as given by the user; see implOf
	swizzle string                 // never auto
	ordered bool                   // the user gave the swizzle
	gemm    string                 // as given by the user; see inChunks
	blocks  int                    // workgroups of the communication kernel, as given by the user; see blocksOf
	states  cost.Memo[int, *state] // by index of pair
}

func newOperator(pl *plan.Planner, v plan.Values) *operator {
	t := &operator{
		pl: pl, impl: v["impl"], swizzle: v["swizzle"], gemm: v["gemm"], ordered: v["swizzle"] != "auto",
		blocks: v.Int("blocks"), states: cost.Memo[int, *state]{},
	}
	if t.swizzle == "auto" {
		t.swizzle = "switch"
		if pl.Machine.Fabric.Topology == machine.Mesh {
			t.swizzle = "mesh"
		}
	}
	return t
}

// implOf is the implementation for a pair (rules O1, O5 and O8).
func (t *operator) implOf(p *plan.Pair) string {
	gather, top := p.Direction == workload.CollectiveThenCompute, t.pl.Machine.Fabric.Topology
	switch {
	case t.impl != "auto":
		return t.impl
	case addsRows(p.Pair):
		return "push"
	case t.inChunks(p):
		return "pull"
	case top == machine.Mesh && !gather:
		return "store"
	case top == machine.Switch && gather:
		return "pull"
	}
	return "push"
}

// inChunks reports whether a pair is written with a launch per shard. By default it is where
// PyTorch has the operator, whose runs on hardware this project has, and the kernels are captured
// ones: an all-gather before, or a reduce-scatter behind, one GEMM within a node. Workload files
// have the one kernel of Triton-distributed.
func (t *operator) inChunks(p *plan.Pair) bool {
	if t.gemm != "auto" || p.Coll == nil {
		return t.gemm == "chunks"
	}
	cluster, _ := t.pl.Cluster(t.pl.RanksOf(p.Coll), 0)
	return t.pl.Workload.Run.Estimated == "" && !t.ordered && (t.impl == "auto" || t.impl == "pull") &&
		slices.Contains(chunksOps, p.Coll.Op) && p.Experts <= 1 &&
		cluster.Nodes == 1
}

// pieceRows is the height of the pieces in which a mesh's shards travel (rule O8).
const pieceRows = 256

// A state is the data that the ranks of one pair share.
type state struct {
	*operator
	impl     string           // of the pair
	n        int              // number of ranks
	shard    float64          // bytes of a rank's share
	cuts     int              // number of pieces per shard
	free     []program.Flag   // by rank: its buffer may be written
	sent     []program.Flag   // by rank: copies that it has finished
	arrived  [][]program.Flag // by destination, source: pieces that have arrived, times posts
	done     [][]program.Flag // by source, unit: tiles of a scatter that are computed
	barriers []program.Flag   // ranks at each barrier, in order
	posts    int              // by which a piece's arrival counts: one, or one a workgroup that stores
	across   bool             // the ranks are of several nodes
	// then, of a scatter, by place, node: partial results of the node's shard that ranks of its own node have brought
	partial [][]program.Flag
	sums    []program.Flag // likewise by rank: number of node sums that have arrived
}

func (t *operator) newState(p *plan.Pair) *state {
	pl, ranks := t.pl, t.pl.RanksOf(p.Coll)
	n := len(ranks)
	b := &state{operator: t, impl: t.implOf(p), n: n, shard: float64(p.Coll.Bytes) / float64(n), cuts: 1, posts: 1}
	compute := &pl.Workload.Ops[p.First[0]]
	if p.Direction == workload.CollectiveThenCompute {
		compute = &pl.Workload.Ops[p.Second[0]]
	}
	if t.swizzle == "mesh" && !t.inChunks(p) {
		b.cuts = max(1, int(compute.Shape.M)/(n*pieceRows*int(max(1, p.Experts))))
	}
	if addsRows(p.Pair) {
		b.posts = t.blocksOf(p.Pair)
	}
	if c, _ := pl.Cluster(ranks, 0); c.Nodes > 1 {
		b.impl, b.cuts, b.posts, b.across = "push", 1, max(1, t.forwards(p, c)), true
		if p.Direction == workload.ComputeThenCollective {
			b.sums = pl.FlagOfEach(ranks, "sums of nodes on rank %d")
			b.partial = pl.FlagsAbout(ranks, c.Nodes, 1, c.Per,
				func(rank int32, q int) string { return fmt.Sprintf("partial results for node %d on rank %d", q, rank) })
		}
	}
	b.free, b.sent = pl.FlagOfEach(ranks, "rank %d's buffer free"), pl.FlagOfEach(ranks, "copies of rank %d finished")
	b.arrived = pl.FlagsAbout(ranks, n, 1, 1, func(rank int32, i int) string {
		return fmt.Sprintf("shard of rank %d on rank %d",
			ranks[i], rank)
	})
	b.done = pl.FlagsAbout(ranks, n*b.cuts, b.cuts, 1, func(rank int32, i int) string {
		return fmt.Sprintf("rank %d's piece %d for rank %d computed", rank, i%b.cuts, ranks[i/b.cuts])
	})
	return b
}

// A side is a pair on one of its ranks.
type side struct {
	*state
	plan.Side
	nodes  plan.Cluster // as the rank sees them
	passed int          // barriers so far
}

func (t *operator) side(r *plan.Rank, p *plan.Pair) *side {
	x := &side{state: t.states.Of(p.Index, func() *state { return t.newState(p) }), Side: r.SideOf(p)}
	x.nodes, _ = t.pl.Cluster(x.Ranks, x.Me)
	return x
}

// gathers reports whether the GEMM reads what arrives; else peers get what it makes.
func (x *side) gathers() bool { return x.Pair.Direction == workload.CollectiveThenCompute }

// units lists the pieces of all shards in the order in which a GEMM takes
// them. What it reads comes as it should reach the rank, its own first (rule O1): read
// from the next rank first, or written by the rank before first. Where shards travel in
// pieces, the first pieces of all ranks come before the second ones.
func (x *side) units() (units []int) {
	shards := plan.Around(x.n, x.Me+1, 1)
	switch {
	case x.across:
		shards = order(x.nodes, x.gathers())
	case x.gathers() && x.impl == "push" && x.swizzle != "mesh":
		shards = plan.Around(x.n, x.Me, -1)
	case x.gathers():
		shards = plan.Around(x.n, x.Me, 1)
	}
	for piece := range x.cuts {
		for _, s := range shards {
			units = append(units, s*x.cuts+piece)
		}
	}
	return units
}

// lane is the stream of the copies to or from the i-th peer: one for all, or, with
// the swizzle for a mesh, one each.
func (x *side) lane(i int) *plan.Stream {
	if x.swizzle != "mesh" || i == 1 {
		return x.CommStream(x.Compute, x.Comm)
	}
	return x.Added(fmt.Sprintf("copies of peer %d", i))
}

// barrier is the next one of all ranks; every rank has them in the same order.
func (x *side) barrier(s *plan.Stream) {
	if x.passed == len(x.barriers) {
		x.barriers = append(x.barriers, x.pl.CommonFlag(x.Ranks, fmt.Sprintf("all ranks at barrier %d", x.passed)))
	}
	barrier(x.Side.Rank, s, x.barriers[x.passed], x.n)
	x.passed++
}

// issue makes a stream wait for the host to have enqueued one more command, or as many as take it that long.
func (x *side) issue(on *plan.Stream, takes machine.Quantity, name string) {
	if !x.pl.Graph {
		x.IssueOne(on, takes.Or(x.pl.Machine.Launch.Host.Value), name)
	}
}

// launch launches a kernel of the strategy's own.
func (x *side) launch(on *plan.Stream, k *program.Kernel) {
	x.issue(on, x.pl.Machine.Launch.Host, k.Name)
	on.Launch(plan.Duration(x.pl.Machine.Launch.Hop.Value), plan.Standing(x.Comm, k))
}

// ends are the ranks between which the i-th copy goes: a push to the i-th next one, whose buffer has to be free, or a pull
// from the i-th in one of the directions.
func (x *side) ends(on *plan.Stream, i, direction int) (from, to int) {
	if x.impl != "push" {
		return (x.Me + direction*i + x.n) % x.n, x.Me
	}
	to = (x.Me + i) % x.n
	on.Wait(x.free[to], 1, "buffer")
	return x.Me, to
}

// waitComputed makes a stream of copies wait for the tiles of a unit. The wait is a command of its own (rule O18).
func (x *side) waitComputed(on *plan.Stream, from, unit int, seq *sequence) {
	on.Wait(x.done[from][unit], seq.counts[unit], "computed")
	on.Delay(plan.Duration(x.pl.Machine.Engines.Command.Value), program.LaunchGap, "wait")
}

// signalBytes is the size of a copy that only sets a signal.
const signalBytes = 4

// move copies one piece between this rank and another, and signals. The signal is
// the write of a value behind the copy; on a mesh a small copy, because the
// driver's writes disturb the GEMM (rule O8).
func (x *side) move(on *plan.Stream, from, to int, bytes float64, done ...program.Flag) {
	host := x.pl.Machine.Launch.Host
	x.issue(on, host, "copy")
	x.Copy(on, "copy", from, to, bytes)
	switch {
	case from == to:
	case x.swizzle == "mesh":
		x.issue(on, host, "signal")
		x.Copy(on, "signal", from, to, signalBytes)
	default:
		signal := x.pl.Machine.Engines.Command.Value
		if to != x.Me { // into another GPU's memory
			signal += x.pl.Machine.Fabric.Latency.Value
		}
		on.Delay(plan.Duration(signal), program.LaunchGap, "signal")
	}
	for _, f := range done {
		on.Post(f, 1)
	}
}
