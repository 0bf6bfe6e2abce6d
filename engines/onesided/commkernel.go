package onesided

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
)

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
// begins with another peer.
func (x *side) commKernel(seq *sequence, placed program.Flag) *program.Kernel {
	blocks := x.blocksOf(x.Pair.Pair)
	bytes := float64(x.Pair.Coll.Bytes) / float64(x.n*x.cuts*blocks)
	return x.pl.CommKernel(x.Comm, plan.Piece{Coll: x.Pair.Coll, Of: 1}, x.Comm.Name, blocks, footprintOf(x.Pair), func(wg int, buf []program.Phase) []program.Phase {
		buf = append(buf, plan.Signal(placed, ""))
		computed := func(unit int) program.Phase { return plan.Await(x.done[x.Me][unit], seq.counts[unit]) }
		for c := range x.cuts {
			for i := range x.n - 1 {
				if x.swizzle == "mesh" {
					i = (i + wg) % (x.n - 1)
				}
				to := (x.Me + 1 + i) % x.n
				buf = x.storeTo(to, bytes, x.Me, append(buf, computed(to*x.cuts+c)))
			}
		}
		for c := range x.cuts {
			buf = append(buf, computed(x.Me*x.cuts+c), x.store(x.Me, bytes))
		}
		return buf
	})
}

// storeTo stores a part of a shard into a peer's buffer once that is free, and signals behind a fence.
func (x *side) storeTo(to int, bytes float64, shard int, buf []program.Phase) []program.Phase {
	return append(buf, plan.Await(x.free[to], 1), x.store(to, bytes), x.pl.Fence(), plan.Signal(x.arrived[to][shard], ""))
}
