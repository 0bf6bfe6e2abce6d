package onesided

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// oneShot writes a kernel and the all-reduce behind it as a copy into the buffer
// that peers share and one kernel that stores the whole vector to every peer and
// adds what arrives: N-1 times the vector over the links, in one step where a
// ring takes 2(N-1) (rule O11).
func (t *operator) oneShot(r *plan.Rank, p *plan.Pair) {
	compute, comm := r.Ops(p)
	s, l := r.Stream(compute.Queue), t.pl.Machine.Launch
	bytes := float64(p.Coll.Bytes)

	r.BeginPair(p)
	r.WriteOp(p, compute, 0, 0)
	for _, id := range p.Between[r.ID] {
		r.WriteOp(p, &t.pl.Workload.Ops[id], 0, 0)
	}
	within := r.ReplacedOps(p)
	s.Launch(r.WaitUntilReady(s, compute, r.Dependencies(p, comm), within...), program.Command{
		Op: program.Launch, Name: "copy to symmetric memory", Origin: comm.ID, Kernel: t.pl.Sweep("copy to symmetric memory", bytes, bytes),
	})
	s.Wait(r.HostIssued, r.Issue(l.Host.Value, "one-shot all-reduce"), "host")
	s.Launch(plan.Duration(l.Gap.Value), program.Command{Op: program.Launch, Name: comm.Name, Origin: comm.ID, Kernel: t.oneShotKernel(r, p)})
	r.Written(s, comm)
	r.EndPair(p)
}

// oneShotKernel begins with a barrier and ends with an exchange of flags: no rank
// stores into a buffer that its owner may still read.
func (t *operator) oneShotKernel(r *plan.Rank, p *plan.Pair) *program.Kernel {
	b := t.stateOf(p)
	me, n := b.place(r), len(b.ranks)
	bytes := float64(p.Coll.Bytes)
	k := t.pl.Sweep(fmt.Sprintf("one-shot %s", p.Coll.Op), bytes*float64(n), bytes)
	part := bytes / float64(k.WGs)
	store := plan.Duration(part / t.pl.Machine.Fabric.StoreCU.Or(t.pl.Machine.Fabric.Egress.Value))
	barrier := plan.Duration(t.pl.Machine.Launch.Barrier.Value)
	reduce := k.Recipe
	k.Kind = trace.Collective
	k.Recipe = func(wg int, buf []program.Phase) []program.Phase {
		all := int64(n * k.WGs)
		buf = append(buf,
			program.Phase{Op: program.PostTo, Flag: b.there, Count: 1},
			program.Phase{Op: program.WaitFor, Flag: b.there, Count: all},
			program.Phase{Op: program.Sleep, Time: barrier})
		for i := 1; i < n; i++ {
			buf = append(buf, program.Phase{Op: program.Store, Peer: b.ranks[(me+i)%n], Bytes: part, Read: part, Time: store})
		}
		for i := 1; i < n; i++ {
			buf = append(buf, program.Phase{Op: program.PostTo, Flag: b.arrived[(me+i)%n][me], Count: 1})
		}
		for i := 1; i < n; i++ {
			buf = append(buf, program.Phase{Op: program.WaitFor, Flag: b.arrived[me][(me+i)%n], Count: int64(k.WGs)})
		}
		buf = reduce(wg, buf)
		return append(buf,
			program.Phase{Op: program.PostTo, Flag: b.there, Count: 1},
			program.Phase{Op: program.WaitFor, Flag: b.there, Count: 2 * all})
	}
	return k
}
