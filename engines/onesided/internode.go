package onesided

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
func (t *operator) gatherNodes(r *plan.Rank, p *plan.Pair, b *state, c plan.Cluster, placed program.Flag) *program.Kernel {
	_, comm := r.Split(p)
	me, forwards := plan.Place(b.ranks, r.ID), t.forwards(p, c)
	shard := float64(p.Coll.Bytes) / float64(len(b.ranks))
	recipe := func(wg int, buf []program.Phase) []program.Phase {
		buf = append(buf, program.Phase{Op: program.PostTo, Flag: placed, Count: 1})
		if d := wg + 1; d < c.Nodes {
			to, from := c.At(c.Nodes-d, 0), c.At(d, 0)
			return append(buf,
				program.Phase{Op: program.WaitFor, Flag: b.free[to], Count: 1},
				program.Phase{Op: program.Put, Peer: b.ranks[to], Bytes: shard, Flag: b.arrived[to][me], Count: int64(b.posts), Mark: "put"},
				program.Phase{Op: program.WaitFor, Flag: b.arrived[me][from], Count: int64(b.posts)})
		}
		bytes := shard / float64(forwards)
		for d := range c.Nodes {
			which := c.At(d, 0)
			if d > 0 {
				buf = append(buf, program.Phase{Op: program.WaitFor, Flag: b.arrived[me][which], Count: int64(b.posts)})
			}
			for i := 1; i < c.Per; i++ {
				buf = t.storeTo(b, c.At(0, i), t.store(p, b.ranks[c.At(0, i)], false, bytes), b.arrived[c.At(0, i)][which], buf)
			}
		}
		return buf
	}
	return t.pl.CommKernel(comm, plan.Piece{Coll: p.Coll, Of: 1}, comm.Name, c.Nodes-1+forwards, plan.SweepFootprint, recipe)
}

// A relay is the additional data that the ranks of a scatter between nodes share.
type relay struct {
	partial [][]program.Flag // by place, node: partial results of the node's shard that ranks of its own node have brought
	sums    []program.Flag   // by rank index: number of node sums that have arrived
}

func (t *operator) relay(p *plan.Pair, b *state, c plan.Cluster) *relay {
	return t.relays.Of(p.Index, func() *relay {
		return &relay{sums: t.pl.FlagOfEach(b.ranks, "sums of nodes on rank %d"), partial: t.pl.FlagsAbout(b.ranks, c.Nodes, 1, c.Per, func(rank int32, q int) string {
			return fmt.Sprintf("partial results for node %d on rank %d", q, rank)
		})}
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
func (t *operator) scatterNodes(r *plan.Rank, p *plan.Pair, b *state, c plan.Cluster, s *plan.Stream, seq *sequence) {
	compute, comm := r.Split(p)
	me, y, l := plan.Place(b.ranks, r.ID), t.relay(p, b, c), t.pl.Machine.Launch
	shard := float64(p.Coll.Bytes) / float64(len(b.ranks))
	a := r.CommStream(compute, comm)
	onB := r.Added("sums between nodes")
	onB.Priority = 1
	launch := func(s *plan.Stream, k *program.Kernel) {
		t.issue(r, s, k.Name)
		s.Launch(plan.Duration(l.Hop.Value), plan.Standing(comm, k))
	}
	for d := 1; d <= c.Nodes; d++ {
		target := (c.Node + d) % c.Nodes
		for i := 1; i <= c.Per; i++ {
			which, to := c.At(d, i), c.At(0, i)
			a.Wait(b.free[to], 1, "buffer")
			a.Wait(b.done[me][which], seq.count(which, 0), "computed")
			t.move(r, a, comm, b.ranks[me], b.ranks[to], shard, y.partial[to][target])
		}
		onB.Wait(y.partial[me][target], int64(c.Per), "partial results")
		name := fmt.Sprintf("sum of %d partial results", c.Per)
		switch {
		case c.Per == 1:
		case d < c.Nodes:
			launch(onB, t.pl.SweepOn(name, t.reducersFor(shard, c), shard*float64(c.Per), shard, 0))
		default: // the GEMM is over: all compute units
			launch(onB, t.pl.Sweep(name, shard*float64(c.Per), shard))
		}
		if d == c.Nodes {
			onB.Post(y.sums[me], 1)
			break
		}
		launch(onB, t.sender(p, comm, b.ranks[c.At(d, 0)], shard, y.sums[c.At(d, 0)]))
	}
	s.Wait(y.sums[me], int64(c.Nodes), "sums of nodes")
	name := fmt.Sprintf("sum of %d nodes", c.Nodes)
	launch(s, t.pl.Sweep(name, shard*float64(c.Nodes), shard))
}

// sender is one workgroup that writes a shard to another node and ends when it has left.
func (t *operator) sender(p *plan.Pair, comm *workload.Op, to int32, bytes float64, done program.Flag) *program.Kernel {
	piece := plan.Piece{Coll: p.Coll, Of: len(p.Coll.Members)}
	return t.pl.CommKernel(comm, piece, "send to node", 1, plan.SweepFootprint, func(_ int, buf []program.Phase) []program.Phase {
		return append(buf,
			program.Phase{Op: program.Store, Peer: to, Bytes: bytes, Read: bytes},
			program.Phase{Op: program.PostTo, Flag: done, Count: 1, Mark: "sum sent"})
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
func (t *operator) spares(p *plan.Pair, b *state) int {
	c, ok := t.pl.Cluster(b.ranks, 0)
	switch {
	case addsRows(p.Pair) && t.pl.Workload.Ops[p.First[0]].Tiling.Persistent:
		return t.blocksOf(p.Pair) // whose workgroups would never find a free compute unit, or keep the GEMM's from theirs
	case !ok || c.Nodes == 1:
		return 0
	case p.Direction == workload.CollectiveThenCompute:
		return c.Nodes - 1 + t.forwards(p, c)
	case c.Per == 1:
		return 1
	}
	return t.reducersFor(float64(p.Coll.Bytes)/float64(len(b.ranks)), c) + 1
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
		return fmt.Sprintf("the %s has not equally many ranks of each node", coll.Op)
	case coll.Op == trace.AllToAll:
		return "an all-to-all between nodes is for impl=ll"
	case addsRows(p):
		return "sums over the experts of a token are stored within a node"
	case t.impl != "auto" && t.impl != "push" || t.gemm == "chunks":
		return "between nodes shards are put: impl=push, gemm=whole"
	}
	return ""
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
