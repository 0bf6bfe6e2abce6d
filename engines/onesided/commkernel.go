package onesided

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
)

// launchCommKernel launches a communication kernel alongside a pair's GEMM once ready is
// posted, and returns the flag of its end. The GEMM waits until all its workgroups are placed
// (rule O9).
func (t *operator) launchCommKernel(r *plan.Rank, p *plan.Pair, s *plan.Stream, ready program.Flag, kernel func(placed program.Flag) *program.Kernel, writeGEMM func()) (end program.Flag) {
	compute, comm := r.Split(p)
	lane, l := r.CommStream(compute, comm), t.pl.Machine.Launch
	placed := t.pl.Program.NewFlag(fmt.Sprintf("communication kernel of rank %d resident", r.ID))
	end = t.pl.Program.NewFlag(fmt.Sprintf("communication kernel of rank %d finished", r.ID))
	k := kernel(placed)
	t.issue(r, lane, "communication kernel")
	lane.Wait(ready, 1, "inputs")
	lane.Launch(plan.Duration(l.Event.Value), plan.LaunchOf(comm, k))
	lane.Post(end, 1)
	s.Wait(placed, int64(k.WGs), "communication kernel resident")
	writeGEMM()
	return end
}

// commKernel is the communication kernel that adds the rows of each token: its workgroups wait
// for every piece and store it to its peer together or, with the swizzle for a mesh, each
// begins with another peer.
func (t *operator) commKernel(p *plan.Pair, comm *workload.Op, b *state, seq *sequence, me int, placed program.Flag) *program.Kernel {
	n, blocks := len(b.ranks), t.blocksOf(p.Pair)
	bytes := float64(p.Coll.Bytes) / float64(n*b.cuts*blocks)
	recipe := func(wg int, buf []program.Phase) []program.Phase {
		buf = append(buf, program.Phase{Op: program.PostTo, Flag: placed, Count: 1})
		computed := func(shard, piece int) {
			buf = append(buf, program.Phase{Op: program.WaitFor, Flag: b.done[me][shard*b.cuts+piece], Count: seq.count(shard, piece)})
		}
		for c := range b.cuts {
			for i := range n - 1 {
				if t.swizzle == "mesh" {
					i = (i + wg) % (n - 1)
				}
				to := (me + 1 + i) % n
				computed(to, c)
				buf = t.storeTo(b, to, t.store(p, b.ranks[to], false, bytes), b.arrived[to][me], buf)
			}
		}
		for c := range b.cuts {
			computed(me, c)
			buf = append(buf, t.store(p, b.ranks[me], true, bytes))
		}
		return buf
	}
	return t.pl.CommKernel(comm, plan.Piece{Coll: p.Coll, Of: 1}, comm.Name, blocks, footprintOf(p), recipe)
}

// storeTo stores into a peer's buffer once that is free, and signals behind a fence.
func (t *operator) storeTo(b *state, to int, store program.Phase, done program.Flag, buf []program.Phase) []program.Phase {
	return append(buf,
		program.Phase{Op: program.WaitFor, Flag: b.free[to], Count: 1},
		store,
		t.pl.Fence(),
		program.Phase{Op: program.PostTo, Flag: done, Count: 1})
}
