package engines

import (
	"fmt"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
)

// oneShot writes a kernel and the all-reduce behind it as a copy into the buffer
// that peers share and one kernel that stores the whole vector to every peer and
// adds what arrives: N-1 times the vector over the links, in one step where a
// ring takes 2(N-1).
func (t *transfers) oneShot(r *rank, p *pair) {
	compute, comm := r.ops(p)
	s, l := r.stream(compute.Queue), t.pl.m.Launch
	bytes := float64(p.coll.Bytes)

	r.enter(p)
	r.step(p, compute, 0, 0)
	for _, id := range p.mid[r.id] {
		r.step(p, &t.pl.w.Ops[id], 0, 0)
	}
	within := r.within(p)
	s.launch(r.ready(s, compute, r.before(p, comm), within...), replay.Command{
		Op: replay.Launch, Name: "copy to symmetric memory", Origin: comm.ID, Kernel: t.pl.sweep("copy to symmetric memory", bytes, bytes),
	})
	s.wait(r.issued, r.issue(l.Host.Value, "one-shot all-reduce"), "host")
	s.launch(duration(l.Gap.Value), replay.Command{Op: replay.Launch, Name: comm.Name, Origin: comm.ID, Kernel: t.oneShotKernel(r, p)})
	r.finished(s, comm)
	r.leave(p)
}

// oneShotKernel begins with a barrier and ends with an exchange of flags: no rank
// stores into a buffer that its owner may still read.
func (t *transfers) oneShotKernel(r *rank, p *pair) *replay.Kernel {
	b := t.board(p)
	me, n := b.place(r), len(b.ranks)
	bytes := float64(p.coll.Bytes)
	k := t.pl.sweep(fmt.Sprintf("one-shot %s", p.coll.Op), bytes*float64(n), bytes)
	part := bytes / float64(k.WGs)
	store := duration(part / t.pl.m.Fabric.StoreCU.Or(t.pl.m.Fabric.Egress.Value))
	barrier := duration(t.pl.m.Launch.Barrier.Value)
	reduce := k.Recipe
	k.Kind = trace.Collective
	k.Recipe = func(wg int, buf []replay.Phase) []replay.Phase {
		all := int64(n * k.WGs)
		buf = append(buf,
			replay.Phase{Op: replay.PostTo, Flag: b.there, Count: 1},
			replay.Phase{Op: replay.WaitFor, Flag: b.there, Count: all},
			replay.Phase{Op: replay.Sleep, Time: barrier})
		for i := 1; i < n; i++ {
			buf = append(buf, replay.Phase{Op: replay.Store, Peer: b.ranks[(me+i)%n], Bytes: part, Read: part, Time: store})
		}
		for i := 1; i < n; i++ {
			buf = append(buf, replay.Phase{Op: replay.PostTo, Flag: b.arrived[(me+i)%n][me], Count: 1})
		}
		for i := 1; i < n; i++ {
			buf = append(buf, replay.Phase{Op: replay.WaitFor, Flag: b.arrived[me][(me+i)%n], Count: int64(k.WGs)})
		}
		buf = reduce(wg, buf)
		return append(buf,
			replay.Phase{Op: replay.PostTo, Flag: b.there, Count: 1},
			replay.Phase{Op: replay.WaitFor, Flag: b.there, Count: 2 * all})
	}
	return k
}
