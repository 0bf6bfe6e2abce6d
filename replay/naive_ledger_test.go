package replay

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/program"
)

// An nledger is what a naive simulation adds up: bytes by cause, the time of
// workgroups, and how much of resources and CUs was in use.
type nledger struct {
	bytes   map[traffic]float64 // by GPU, resource and name; Written 1 stands for what is written
	moved   map[string]float64  // by resource
	working map[int]float64     // by GPU: CUs times nanoseconds
}

func newNledger() nledger {
	return nledger{
		map[traffic]float64{}, map[string]float64{}, map[int]float64{},
	}
}

func (l *nledger) add(gpu int, r Resource, name string, bytes float64) {
	l.bytes[traffic{GPU: gpu, Resource: r, Name: name}] += bytes
}

func (l *nledger) write(gpu int, name string, bytes float64) {
	l.add(gpu, Memory, name, bytes)
	l.bytes[traffic{GPU: gpu, Resource: Memory, Name: name, Written: 1}] += bytes
}

// charge counts bytes that go from one memory to another, or to those of all others of the node.
func (n *naive) charge(name string, from, to int, bytes, read float64) {
	l := &n.ledger
	l.add(from, Memory, name, read)
	switch {
	case to == int(program.Everyone):
		l.add(from, Egress, name, bytes)
		for g := range n.gpus {
			if g != from && n.node(g) == n.node(from) {
				l.add(g, ingress, name, bytes)
				l.write(g, name, bytes)
			}
		}
		return
	case from == to:
	case n.node(from) != n.node(to):
		l.add(from, NICEgress, name, bytes)
		l.add(to, nicIngress, name, bytes)
	default:
		l.add(from, Egress, name, bytes)
		l.add(to, ingress, name, bytes)
	}
	l.write(to, name, bytes)
}

// chargePhase counts the bytes of a Work or Store phase.
func (n *naive) chargePhase(w *nactor, p *program.Phase) {
	name := w.kernel.k.Name
	switch {
	case p.Op == program.Work:
		n.ledger.add(w.gpu, Memory, name, p.Read*(1-p.Hit))
		n.ledger.write(w.gpu, name, p.Write)
		if n.m.GPU.CacheRate.Value > 0 {
			n.ledger.add(w.gpu, Cache, name, p.Read+p.Write)
		}
	case p.Bytes > 0:
		n.ledger.write(w.gpu, name, p.Write)
		n.charge(name, w.gpu, int(p.Peer), p.Bytes, p.Read)
	}
}

// pass lets time pass for what is as it is.
func (n *naive) pass(dt program.Time) {
	used := map[string]float64{}
	for _, a := range n.actors {
		if a.flow != nil {
			for resource, w := range n.cross(&a.flow.key) {
				used[resource] += w * a.flow.rate
			}
		}
	}
	for resource, u := range used {
		n.ledger.moved[resource] += u * float64(dt)
	}
	for g := range n.gpus {
		for _, c := range n.gpus[g].cus {
			works := func(w *nactor) bool { return w.flow != nil }
			if slices.ContainsFunc(c.wgs, works) {
				n.ledger.working[g] += float64(dt)
			}
		}
	}
}

// poolOf names a GPU's resource of a resource.
func (n *naive) poolOf(gpu int, r Resource) string {
	return map[Resource]string{
		Memory: fmt.Sprint("m", gpu), Egress: fmt.Sprint("e[", gpu, "]"), ingress: fmt.Sprint("i[", gpu, "]"),
		Cache: fmt.Sprint("c", gpu), NICEgress: "o" + n.nic(gpu), nicIngress: "j" + n.nic(gpu),
	}[r]
}

// differs says in what a result's sums are not those of the naive simulation, or "".
func (n *naive) differs(r *Result) string {
	like := func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*(1+math.Abs(a)) }
	bytes := maps.Clone(n.ledger.bytes)
	for _, x := range r.Traffic {
		key := traffic{GPU: x.GPU, Resource: x.Resource, Name: x.Name}
		all := bytes[key]
		delete(bytes, key)
		key.Written = 1
		if !like(x.Bytes, all) || !like(x.Written, bytes[key]) {
			return fmt.Sprintf("traffic %+v, want %g of which %g written", x, all, bytes[key])
		}
		delete(bytes, key)
	}
	for key, b := range bytes {
		if b != 0 {
			return fmt.Sprintf("no traffic %+v, want %g", key, b)
		}
	}
	makespan := max(1, float64(n.end))
	for key, use := range used(r) {
		if key.of == MemoryOfComputation || key.of == memoryOfCommunication {
			continue
		}
		want := n.ledger.working[key.gpu] / float64(len(n.gpus[key.gpu].cus))
		for res := range numResources {
			if resource := n.poolOf(key.gpu, res); res.String() == key.of {
				want = n.ledger.moved[resource] / n.capacity(resource)
			}
		}
		if want /= makespan; !like(use, want) {
			return fmt.Sprintf("use of %v %g, want %g", key, use, want)
		}
	}
	return ""
}
