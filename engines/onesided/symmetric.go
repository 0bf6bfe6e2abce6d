package onesided

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// operator plans the copies and signals of all pairs of the one-sided strategies.
type operator struct {
	pl      *plan.Planner
	impl    string                 // as given by the user; see implOf
	swizzle string                 // never auto
	ordered bool                   // the user gave the swizzle
	gemm    string                 // as given by the user; see inChunks
	blocks  int                    // workgroups of the communication kernel, as given by the user; see blocksOf
	relays  cost.Memo[int, *relay] // by index of pair
	states  cost.Memo[int, *state] // by index of pair
}

func newOperator(pl *plan.Planner, v plan.Values) *operator {
	t := &operator{
		pl: pl, impl: v["impl"], swizzle: v["swizzle"], gemm: v["gemm"], ordered: v["swizzle"] != "auto",
		blocks: v.Int("blocks"), relays: cost.Memo[int, *relay]{}, states: cost.Memo[int, *state]{},
	}
	if t.swizzle == "auto" {
		t.swizzle = "switch"
		if pl.Machine.Fabric.Topology == machine.Mesh {
			t.swizzle = "mesh"
		}
	}
	return t
}

// contradiction is the reason why settings cannot be combined; "" if they can.
func (t *operator) contradiction() string {
	if t.gemm == "chunks" && t.impl != "auto" && t.impl != "pull" {
		return "gemm=chunks is for copy engines that read: impl=pull"
	}
	return ""
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
	case top == machine.Ring && gather && p.Coll.Op == trace.AllGather:
		return "ring"
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
	return t.pl.Workload.Run.Estimated == "" && !t.ordered && (t.impl == "auto" || t.impl == "pull") && slices.Contains(chunksOps, p.Coll.Op) && p.Experts <= 1 &&
		cluster.Nodes == 1
}

// pieceRows is the height of the pieces in which a mesh's shards travel (rule O8).
const pieceRows = 256

// A state is the data that the ranks of one pair share.
type state struct {
	impl     string
	ranks    []int32          // in the group's order
	cuts     int              // number of pieces per shard
	there    program.Flag     // ranks whose buffers hold what peers may read
	over     program.Flag     // ranks whose transfers are over
	free     []program.Flag   // by rank: its buffer may be written
	sent     []program.Flag   // by rank: copies that it has finished
	arrived  [][]program.Flag // by destination, source: pieces that have arrived, times posts
	done     [][]program.Flag // by source, destination·cuts + piece: tiles of a scatter that are computed
	barriers []program.Flag   // barriers of the pipelines that launch a GEMM a shard
	across   bool             // the ranks are of several nodes
	posts    int              // by which a piece's arrival counts: one, or one a workgroup that stores
}

func (t *operator) stateOf(p *plan.Pair) *state {
	return t.states.Of(p.Index, func() *state { return t.newState(p) })
}

func (t *operator) newState(p *plan.Pair) *state {
	pl := t.pl
	b := &state{
		impl: t.implOf(p), ranks: pl.RanksOf(p.Coll), cuts: 1, posts: 1,
	}
	b.there, b.over = pl.CommonFlag(b.ranks, "all ranks at the barrier"), pl.CommonFlag(b.ranks, "all ranks at the barrier behind the transfers")
	n := len(b.ranks)
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
	if c, _ := t.pl.Cluster(b.ranks, 0); c.Nodes > 1 {
		b.impl, b.cuts, b.posts, b.across = "push", 1, max(1, t.forwards(p, c)), true
	}
	b.free, b.sent = pl.FlagOfEach(b.ranks, "rank %d's buffer free"), pl.FlagOfEach(b.ranks, "copies of rank %d finished")
	b.arrived = pl.FlagsAbout(b.ranks, n, 1, 1, func(rank int32, i int) string { return fmt.Sprintf("shard of rank %d on rank %d", b.ranks[i], rank) })
	b.done = pl.FlagsAbout(b.ranks, n*b.cuts, b.cuts, 1, func(rank int32, i int) string {
		return fmt.Sprintf("rank %d's piece %d for rank %d computed", rank, i%b.cuts, b.ranks[i/b.cuts])
	})
	return b
}

// A unit is one piece of one shard, in the order in which a GEMM computes them.
type unit struct{ shard, piece int }

// arrival lists the shards in the order in which they should reach a rank, its
// own first (rule O1): read from the next rank first, or written by the
// rank before first.
func (t *operator) arrival(b *state, me int) []int {
	n := len(b.ranks)
	var order []int
	for i := range n {
		switch {
		case b.impl == "ring", b.impl == "push" && t.swizzle != "mesh":
			order = append(order, (me-i+n)%n)
		default:
			order = append(order, (me+i)%n)
		}
	}
	return order
}

// units lists the pieces of all shards in the order in which a GEMM takes
// them. Where shards travel in pieces, the first pieces of all ranks come before
// the second ones.
func (t *operator) units(b *state, me int, gather bool) []unit {
	n := len(b.ranks)
	var shards []int
	switch {
	case b.across:
		c, _ := t.pl.Cluster(b.ranks, me)
		shards = order(c, gather)
	case gather:
		shards = t.arrival(b, me)
	default:
		for i := range n {
			shards = append(shards, (me+1+i)%n)
		}
	}
	var units []unit
	for piece := range b.cuts {
		for _, s := range shards {
			units = append(units, unit{s, piece})
		}
	}
	return units
}

// lane is the stream of the copies to or from the i-th peer: one for all, or, with
// the swizzle for a mesh, one each.
func (t *operator) lane(r *plan.Rank, compute, comm *workload.Op, i int) *plan.Stream {
	if t.swizzle != "mesh" || i == 1 {
		return r.CommStream(compute, comm)
	}
	return r.Added(fmt.Sprintf("copies of peer %d", i))
}

// issue makes a stream wait for the host to have enqueued one more command.
func (t *operator) issue(r *plan.Rank, s *plan.Stream, name string) {
	if !t.pl.Graph {
		r.IssueOne(s, t.pl.Machine.Launch.Host.Value, name)
	}
}

// waitComputed makes a stream of copies wait for tiles. The wait is a command of its own (rule O18).
func (t *operator) waitComputed(s *plan.Stream, f program.Flag, tiles int64) {
	s.Wait(f, tiles, "computed")
	s.Delay(plan.Duration(t.pl.Machine.Engines.Command.Value), program.LaunchGap, "wait")
}

// signalBytes is the size of a copy that only sets a signal.
const signalBytes = 4

// move copies one piece between this rank and another, and signals. The signal is
// the write of a value behind the copy; on a mesh a small copy, because the
// driver's writes disturb the GEMM (rule O8).
func (t *operator) move(r *plan.Rank, s *plan.Stream, comm *workload.Op, from, to int32, bytes float64, done ...program.Flag) {
	t.issue(r, s, "copy")
	s.Launch(0, plan.CopyTo(comm, "copy", from, to, bytes))
	switch {
	case from == to || len(done) == 0: // barriers tell
	case t.swizzle == "mesh":
		t.issue(r, s, "signal")
		s.Launch(0, plan.CopyTo(comm, "signal", from, to, signalBytes))
	default:
		signal := t.pl.Machine.Engines.Command.Value
		if int(to) != r.ID { // into another GPU's memory
			signal += t.pl.Machine.Fabric.Latency.Value
		}
		s.Delay(plan.Duration(signal), program.LaunchGap, "signal")
	}
	for _, f := range done {
		s.Post(f, 1)
	}
}
