package plan

import (
	"fmt"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// What strategies that replace pairs by kernels and copies of their own have in common: which
// pairs they serve, what the ranks of a pair share, and kernels of collectives.

// Serve takes the pairs for which ok is true. If there are none it returns the reason of a pair that ok refused, else none.
func (pl *Planner) Serve(none string, ok func(*workload.Pair) (serves bool, why string)) string {
	pl.Take(func(p *workload.Pair) bool {
		serves, why := ok(p)
		if why != "" {
			none = why
		}
		return serves
	})
	if len(pl.Pairs) == 0 {
		return none
	}
	return ""
}

// FlagOfEach is a flag of each of some ranks.
func (pl *Planner) FlagOfEach(ranks []int32, name string) []program.Flag {
	return pl.Program.NewFlagsOf(&program.Owners{GPUs: ranks, Each: 1}, len(ranks),
		func(i int) string { return fmt.Sprintf(name, ranks[i]) })
}

// FlagsAbout are n flags for each of some ranks; name is that of the i-th flag of a rank. A rank's flags may be about the
// ranks: so many about the first of them, or the first group, then as many about the next; 0: they are not.
func (pl *Planner) FlagsAbout(ranks []int32, n, about, group int, name func(rank int32, i int) string) [][]program.Flag {
	all := pl.Program.NewFlagsOf(&program.Owners{GPUs: ranks, Each: n, About: about, Group: group}, len(ranks)*n,
		func(i int) string { return name(ranks[i/n], i%n) })
	flags := make([][]program.Flag, len(ranks))
	for k := range flags {
		flags[k] = all[k*n : (k+1)*n : (k+1)*n]
	}
	return flags
}

// StoreTo is a workgroup's store of so many bytes into a peer's memory (rule R8). pattern is which
// peers the stores of all GPUs go to at one time.
func (pl *Planner) StoreTo(peer int32, bytes float64, pattern machine.Pattern) program.Phase {
	f := &pl.Machine.Fabric
	return program.Phase{
		Op: program.Store, Peer: peer, Bytes: bytes * f.StoreCost(pattern), Time: Duration(bytes / f.StoreCU.Or(f.Egress.Value)),
	}
}

// CommKernel is one rank's kernel of so many workgroups in place of a piece of a collective.
func (pl *Planner) CommKernel(
	op *workload.Op, p Piece, name string, wgs int, f program.Footprint, recipe func(wg int, buf []program.Phase) []program.Phase,
) *program.Kernel {
	k := &program.Kernel{Name: name, Kind: trace.Collective, WGs: wgs, Footprint: f, Recipe: recipe}
	pl.describe(k, op, p)
	k.Setup.Grid = [3]int32{int32(wgs), 1, 1}
	return k
}

// Standing launches a kernel of the strategy's that stands for an operation.
func Standing(op *workload.Op, k *program.Kernel) program.Command {
	return program.Command{Op: program.Launch, Name: k.Name, Origin: op.ID, Kernel: k}
}

// IssueOne makes a stream wait for the host to have issued one operation that was not captured, at a
// cost of so many seconds.
func (r *Rank) IssueOne(s *Stream, seconds float64, name string) {
	s.Wait(r.HostIssued, r.issue(seconds, name), "host")
}
