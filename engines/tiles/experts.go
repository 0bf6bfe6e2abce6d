package tiles

import (
	"fmt"
	"math"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// The rows of a grouped GEMM are sorted by expert and, of each expert, by the rank that their
// tokens come from or go to. Tiles are computed by shard, then by expert: those of a shard's
// rows of all experts before those of the next shard (rule O20).
//
//	rows   |expert 0: rank 0 1 2 3|expert 1: rank 0 1 2 3|
//	tiles  |rank 1: 0 1|rank 2: 0 1|rank 3: 0 1|rank 0: 0 1|
//
// Behind the last GEMM of a layer a row that is sent is the sum of the rows of a token, which
// are all of one shard. A communication kernel waits for the tiles of a shard of all experts,
// adds the rows of each token, and stores the sums to their owner (rule O21).

// That kernel is as Triton-distributed launches it (moe_reduce_rs.py), unless the user gives
// another number of workgroups. In each iteration a workgroup loads 16 bytes a thread of each row
// of a token, adds them and stores the sum. An iteration takes 0.63 µs, the mean of eight with
// four rows a token on an idle H100 (2026-11-23).
const (
	expertBlocks  = 16
	expertThreads = 1024
	expertRound   = 630 // ns
)

// servesExperts reports whether the kernels between a pair's two can be part of its kernels:
// permutations in front of a GEMM that reads rows through an index, sums behind one.
func (t *operator) servesExperts(p *workload.Pair) (ok bool, why string) {
	scatters, coll := p.Direction == workload.ComputeThenCollective, &t.pl.Workload.Collectives[p.Collective]
	cluster, _ := t.pl.Cluster(t.pl.RanksOf(coll), 0)
	beside, cus := t.alongside(p, float64(coll.Bytes)/float64(len(p.First)), cluster), int(t.pl.Machine.GPU.CUs.Value)
	can := workload.MovesRows
	if scatters {
		can = workload.SumsRows
	}
	switch {
	case scatters && t.gemm == "chunks":
		return false, "gemm=chunks sends what a GEMM makes, not sums over the experts of a token"
	case scatters && t.impl != "auto" && t.impl != "push":
		return false, fmt.Sprintf("impl=%s sends what a GEMM makes; sums over the experts of a token are stored by the kernel that adds: impl=push", t.impl)
	case scatters && beside >= cus:
		return false, fmt.Sprintf("blocks=%d leaves the GEMM none of %d compute units: %d workgroups run alongside",
			t.blocksOf(p), cus, beside)
	case t.gemm == "chunks":
		can = func(*workload.Op) bool { return false }
	}
	why = nothingBetween(t.pl, p, can)
	return why == "", why
}

// addsRows reports whether what a pair sends are sums of the rows of a token.
func addsRows(p *workload.Pair) bool {
	return p.Experts > 1 && p.Direction == workload.ComputeThenCollective
}

// blocksOf is the number of workgroups of a pair's communication kernel.
func (t *operator) blocksOf(p *workload.Pair) int {
	f := t.pl.Machine.Fabric
	switch {
	case t.blocks > 0:
		return t.blocks
	case addsRows(p):
		return expertBlocks
	}
	return max(1, int(f.Egress.Value/f.StoreCU.Or(f.Egress.Value)+0.999))
}

// store is one workgroup's store of so many bytes to a rank. Sums of the rows of a token take
// rounds of loads (rule O21).
func (x *side) store(to int, bytes float64) program.Phase {
	s := plan.StoreAt(x.Ranks[to], bytes)
	if to != x.Me {
		s = x.pl.StoreTo(x.Ranks[to], bytes, x.pattern())
	}
	s.Read = bytes
	if addsRows(x.Pair.Pair) {
		s.Read *= float64(x.Pair.Experts)
		rounds := math.Ceil(bytes / (16 * expertThreads))
		s.Time = max(s.Time, trace.Time(rounds*expertRound))
	}
	return s
}

// beside launches a communication kernel alongside a pair's GEMM once ready is
// posted, and returns the flag of its end. The GEMM waits until all its workgroups are placed
// (rule O9).
func (x *side) beside(ready program.Flag, kernel func(placed program.Flag) *program.Kernel, compute func()) (end program.Flag) {
	lane := x.lane(1)
	placed := x.pl.Program.NewFlag(fmt.Sprintf("communication kernel of rank %d resident", x.ID))
	end = x.pl.Program.NewFlag(fmt.Sprintf("communication kernel of rank %d finished", x.ID))
	k := kernel(placed)
	x.issue(lane, x.pl.Machine.Launch.Host, "communication kernel")
	lane.Wait(ready, 1, "inputs")
	lane.Launch(plan.Duration(x.pl.Machine.Launch.Event.Value), plan.LaunchOf(x.Comm, k))
	lane.Post(end, 1)
	x.On.Wait(placed, int64(k.WGs), "communication kernel resident")
	compute()
	return end
}

// commKernel is the communication kernel that adds the rows of each token: its workgroups wait
// for every piece and store it to its peer together or, with the swizzle for a mesh, each
// begins with another peer. Between nodes the shards of a node go to the ranks of the own node that add them (rule O15).
func (x *side) commKernel(seq *sequence, placed program.Flag) *program.Kernel {
	blocks := x.blocksOf(x.Pair.Pair)
	bytes, footprint := float64(x.Pair.Coll.Bytes)/float64(x.n*x.cuts*blocks), plan.SweepFootprint
	footprint.Threads = expertThreads
	return x.pl.CommKernel(x.Comm, plan.Piece{Coll: x.Pair.Coll, Of: 1}, x.Comm.Name, blocks, footprint, func(wg int, buf []program.Phase) []program.Phase {
		buf = append(buf, plan.Signal(placed, ""))
		computed := func(unit int) program.Phase { return plan.Await(x.done[x.Me][unit], seq.counts[unit]) }
		if c := x.nodes; x.across {
			for d := 1; d <= c.Nodes; d++ {
				target := (c.Node + d) % c.Nodes
				for i := range c.Per - 1 {
					i = 1 + x.begin(i, wg, c.Per-1)
					to := c.At(0, i)
					buf = x.storeTo(to, bytes, x.partial[to][target], append(buf, computed(c.At(d, i))))
				}
				buf = append(buf, computed(c.At(d, 0)), x.store(x.Me, bytes), plan.Signal(x.partial[x.Me][target], ""))
			}
			return buf
		}
		for c := range x.cuts {
			for i := range x.n - 1 {
				to := (x.Me + 1 + x.begin(i, wg, x.n-1)) % x.n
				buf = x.storeTo(to, bytes, x.arrived[to][x.Me], append(buf, computed(to*x.cuts+c)))
			}
		}
		for c := range x.cuts {
			buf = append(buf, computed(x.Me*x.cuts+c), x.store(x.Me, bytes))
		}
		return buf
	})
}

// begin is the place among so many peers of the i-th that a workgroup stores to.
func (t *operator) begin(i, wg, peers int) int {
	if t.swizzle == "mesh" {
		return (i + wg) % peers
	}
	return i
}

// storeTo stores a part of a shard into a peer's buffer once that is free, and signals behind a fence.
func (x *side) storeTo(to int, bytes float64, arrived program.Flag, buf []program.Phase) []program.Phase {
	return append(buf, plan.Await(x.free[to], 1), x.store(to, bytes), x.pl.Fence(), plan.Signal(arrived, ""))
}
