package tiles

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// forwards is how many workgroups pass shards on within a node.
func (t *operator) forwards(p *plan.Pair, c plan.Cluster) int {
	if c.Per == 1 {
		return 0
	}
	return t.blocksOf(p.Pair)
}

// gatherNodes is the communication kernel of an all-gather between nodes (rule O14).
// A workgroup for each other node puts the own shard to this rank's counterpart
// there, and waits for the counterpart's; the others pass on to the node, first
// the own shard, then each that came from a counterpart.
//
//	send     |put to node q-1|                          wait for node q+1|
//	forward  |own to l+1|own to l+2|...|from q+1 to l+1|from q+1 to l+2|...
func (x *side) gatherNodes(placed program.Flag) *program.Kernel {
	c, forwards, posts := x.nodes, x.forwards(x.Pair, x.nodes), int64(x.posts)
	return x.pl.CommKernel(x.Comm, plan.Piece{Coll: x.Pair.Coll, Of: 1}, x.Comm.Name, c.Nodes-1+forwards, plan.SweepFootprint, func(wg int, buf []program.Phase) []program.Phase {
		buf = append(buf, plan.Signal(placed, ""))
		if d := wg + 1; d < c.Nodes {
			to, from := c.At(c.Nodes-d, 0), c.At(d, 0)
			put := plan.PutTo(x.Ranks[to], x.shard, x.arrived[to][x.Me])
			put.Count = posts
			return append(buf, plan.Await(x.free[to], 1), put, plan.Await(x.arrived[x.Me][from], posts))
		}
		for d := range c.Nodes {
			which := c.At(d, 0)
			if d > 0 {
				buf = append(buf, plan.Await(x.arrived[x.Me][which], posts))
			}
			for i := 1; i < c.Per; i++ {
				to := c.At(0, i)
				buf = x.storeTo(to, x.shard/float64(forwards), x.arrived[to][which], buf)
			}
		}
		return buf
	})
}

// scatterNodes writes a GEMM and the reduce-scatter behind it between nodes
// as a pipeline over the nodes that shards are for, the own one last (rule O15):
// copy engines scatter within the node, a few workgroups add what came, one
// sends the sum to the rank's counterpart; while that goes on the next node's
// shards are scattered.
//
//	GEMM  |for node q+1   |for node q     |
//	engine          |l+1|l+2|own|l+1|l+2|own|
//	stream B                    |add|send....|add|add sums of nodes|
//
// Sums over the experts of a token are scattered by the kernel that adds them, of so many workgroups (rule O21).
func (x *side) scatterNodes(seq *sequence) {
	c, me, shard, parts := x.nodes, x.Me, x.shard, int64(x.nodes.Per)
	a, onB := x.lane(1), x.Added("sums between nodes")
	onB.Priority = 1
	if addsRows(x.Pair.Pair) {
		parts *= int64(x.blocksOf(x.Pair.Pair))
	}
	for d := 1; d <= c.Nodes; d++ {
		target := (c.Node + d) % c.Nodes
		for i := 1; i <= c.Per && !addsRows(x.Pair.Pair); i++ {
			which, to := c.At(d, i), c.At(0, i)
			a.Wait(x.free[to], 1, "buffer")
			a.Wait(x.done[me][which], seq.counts[which], "computed")
			x.move(a, me, to, shard, x.partial[to][target])
		}
		onB.Wait(x.partial[me][target], parts, "partial results")
		name := fmt.Sprintf("sum of %d partial results", c.Per)
		switch {
		case c.Per == 1:
		case d < c.Nodes:
			x.launch(onB, x.pl.SweepOn(name, x.reducersFor(shard, c), shard*float64(c.Per), shard, 0))
		default: // the GEMM is over: all compute units
			x.launch(onB, x.pl.Sweep(name, shard*float64(c.Per), shard))
		}
		if d == c.Nodes {
			onB.Post(x.sums[me], 1)
			break
		}
		x.launch(onB, x.sender(c.At(d, 0)))
	}
	x.On.Wait(x.sums[me], int64(c.Nodes), "sums of nodes")
	x.launch(x.On, x.pl.Sweep(fmt.Sprintf("sum of %d nodes", c.Nodes), shard*float64(c.Nodes), shard))
}

// sender is one workgroup that writes a shard to another node and ends when it has left.
func (x *side) sender(to int) *program.Kernel {
	return x.pl.CommKernel(x.Comm, plan.Piece{Coll: x.Pair.Coll, Of: x.n}, "send to node", 1, plan.SweepFootprint, func(_ int, buf []program.Phase) []program.Phase {
		store := plan.StoreAt(x.Ranks[to], x.shard)
		store.Read = x.shard
		return append(buf, store, plan.Signal(x.sums[to], "sum sent"))
	})
}

// reducersFor is how many workgroups add the partial results of a node: as few as let adding and
// sending keep up with the scatter, at most a quarter of the compute units (rule O15).
func (t *operator) reducersFor(shard float64, c plan.Cluster) int {
	m := &t.pl.Machine
	most := max(1, int(m.GPU.CUs.Value)/4)
	left := float64(c.Per-1)*shard/m.Engines.Rate.Or(m.Fabric.Egress.Value) - shard/m.Network.Egress.Value
	for n := 1; n < most; n++ {
		if added := t.pl.Laws().Stream(shard*float64(c.Per+1)/float64(n), n); left > 0 && plan.Seconds(added) <= left {
			return n
		}
	}
	return most
}

// spares is how many compute units the GEMM leaves to the kernels alongside it.
func (x *side) spares() int {
	switch p, c := x.Pair, x.nodes; {
	case x.across && x.gathers():
		return c.Nodes - 1 + x.forwards(p, c)
	case x.across, addsRows(p.Pair) && x.pl.Workload.Ops[p.First[0]].Tiling.Persistent:
		return x.alongside(p.Pair, x.shard, c) // persistent workgroups would keep these kernels from compute units, or wait for them
	}
	return 0
}

// alongside is how many workgroups add rows of tokens, add partial results of a node and send sums while a GEMM runs.
func (t *operator) alongside(p *workload.Pair, shard float64, c plan.Cluster) (workgroups int) {
	if addsRows(p) {
		workgroups = t.blocksOf(p)
	}
	if c.Nodes > 1 {
		workgroups++
	}
	if c.Nodes > 1 && c.Per > 1 {
		workgroups += t.reducersFor(shard, c)
	}
	return workgroups
}

// acrossNodes is the reason why the strategy cannot serve a pair whose ranks are on
// several nodes; "" if it can, or if they are on one node.
func (t *operator) acrossNodes(p *workload.Pair) string {
	coll := &t.pl.Workload.Collectives[p.Collective]
	c, ok := t.pl.Cluster(t.pl.RanksOf(coll), 0)
	switch {
	case ok && c.Nodes == 1:
		return ""
	case !ok:
		return noCounterparts(coll.Op)
	case coll.Op == trace.AllToAll:
		return "an all-to-all between nodes is for impl=ll"
	case t.impl != "auto" && t.impl != "push" || t.gemm == "chunks":
		return "between nodes shards are put: impl=push, gemm=whole"
	}
	return ""
}

// noCounterparts is the reason why nothing that a node adds, or passes on, can be sent between nodes.
func noCounterparts(op trace.CollectiveOp) string {
	return fmt.Sprintf("the %s has not equally many ranks of each node, node by node: each needs a counterpart in every other one", op)
}

// order lists the shards as a GEMM between nodes takes them: of a gather
// the own node's first, then the next one's, in each the own rank's counterpart
// first and the others as they are passed on; of a scatter the next node's
// first, in each the next rank's first (rules O14 and O15).
func order(c plan.Cluster, gather bool) (shards []int) {
	for d := range c.Nodes {
		for i := range c.Per {
			if gather {
				shards = append(shards, c.At(d, c.Per-i))
			} else {
				shards = append(shards, c.At(d+1, i+1))
			}
		}
	}
	return shards
}
