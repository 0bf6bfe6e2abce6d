package replay

import (
	"cmp"
	"fmt"
	"math"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

func (n *naive) perNode() int {
	per := len(n.gpus)
	if node := int(n.m.Network.Node.Value); node > 0 {
		per = min(per, node)
	}
	return per
}

func (n *naive) node(gpu int) int { return gpu / n.perNode() }

func (n *naive) nodes() int { return n.node(len(n.gpus)-1) + 1 }

// nic names the one that serves a GPU: with half as many as GPUs, each serves two neighbours.
func (n *naive) nic(gpu int) string {
	at := gpu % n.perNode() * max(1, int(n.m.Network.NICs.Value)) / n.perNode()
	return fmt.Sprint("node ", n.node(gpu), " NIC ", at)
}

func (n *naive) latency(from, to int) program.Time {
	if from == to {
		return 0
	}
	f, w := n.m.Fabric, n.m.Network
	if to == int(program.Everyone) {
		return nanoseconds(f.Latency.Value)
	}
	if a, b := n.node(from), n.node(to); a != b {
		further := max(1, len(n.links(w.Topology, n.nodes(), a, b))) - 1
		return nanoseconds(w.Latency.Value) + program.Time(further)*nanoseconds(w.Hop.Value)
	}
	further := max(1, len(n.links(f.Topology, n.perNode(), from%n.perNode(), to%n.perNode()))) - 1
	return nanoseconds(f.Latency.Value) + program.Time(further)*nanoseconds(f.Hop.Value)
}

// naiveShapes are the sides of rings and tori of a few members.
var naiveShapes = map[machine.Topology]map[int][]int{
	machine.Torus2D: {1: {1, 1}, 2: {2, 1}, 3: {3, 1}, 4: {2, 2}, 5: {5, 1}, 6: {3, 2}, 7: {7, 1}, 8: {4, 2}, 9: {3, 3}},
	machine.Torus3D: {1: {1, 1, 1}, 2: {2, 1, 1}, 3: {3, 1, 1}, 4: {2, 2, 1}, 5: {5, 1, 1}, 6: {3, 2, 1}, 7: {7, 1, 1}, 8: {2, 2, 2}, 9: {3, 3, 1}},
}

// links names those between two members: on a ring or torus, from neighbour to
// neighbour, axis after axis, walking the way that gets there first.
func (n *naive) links(t machine.Topology, members, from, to int) []string {
	shape := naiveShapes[t][members]
	switch t {
	case machine.Ring:
		shape = []int{members}
	case machine.Torus2D, machine.Torus3D:
	default:
		return []string{fmt.Sprint(" pair ", from, " to ", to)}
	}
	var names []string
	below := 1 // members in a line of the axes so far
	for axis, size := range shape {
		place := func(m int) int { return m / below % size }
		walk := func(by int) (names []string) {
			for at := from; place(at) != place(to); {
				next := at - place(at)*below + (place(at)+by+size)%size*below
				names = append(names, fmt.Sprint(" from ", at, " axis ", axis, " by ", by))
				at = next
			}
			return names
		}
		up, down := walk(1), walk(-1)
		if len(up) < len(down) || len(up) == len(down) && place(from)%2 == 0 {
			names = append(names, up...)
		} else {
			names = append(names, down...)
		}
		from += (place(to) - place(from)) * below
		below *= size
	}
	return names
}

func (n *naive) written(update bool) float64 {
	if update {
		return n.m.GPU.UpdateCost()
	}
	return 1
}

// memory adds a GPU's memory to what is crossed, and its side where there are sides.
func (n *naive) memory(x map[string]float64, k *nkey, gpu int32, weight float64) map[string]float64 {
	if weight == 0 {
		return x
	}
	x[fmt.Sprint("m", gpu)] = weight
	if n.p.Arbiter.Policy != program.Fair && n.m.GPU.Memory.Value > 0 {
		x[fmt.Sprint("s", gpu, k.side)] = weight
	}
	return x
}

// sides is what each side of each memory may take: what the other could not
// send even if it had the machine to itself, and its share in any case.
func (n *naive) sides(flows []*nflow, limit map[*nflow]float64) map[string]float64 {
	capacity := map[string]float64{}
	if n.p.Arbiter.Policy == program.Fair || n.m.GPU.Memory.Value == 0 {
		return capacity
	}
	type way struct {
		from, to           int32
		side               string
		read, write, cache float64
	}
	sends := map[way]float64{}
	ways := map[way]map[string]float64{}
	for _, f := range flows {
		k := &f.key
		if k.timed() {
			continue
		}
		w := way{k.from, k.to, k.side, k.read, k.write, k.cache}
		sends[w] += limit[f]
		ways[w] = n.cross(k)
	}
	asks := map[string]float64{}
	for w, all := range sends {
		for resource, weight := range ways[w] {
			if resource[0] != 's' {
				all = min(all, n.capacity(resource)/weight)
			}
		}
		for resource, weight := range ways[w] {
			asks[resource] += weight * all
		}
	}
	rate := perNanosecond(n.m.GPU.Memory.Value)
	for g, gpu := range n.gpus {
		share := .5
		if n.p.Arbiter.Policy == program.ComputeFirst {
			share = cmp.Or(gpu.commShare, n.p.Arbiter.Share)
		}
		compute, comm := fmt.Sprint("s", g, "computation"), fmt.Sprint("s", g, "communication")
		capacity[compute] = math.Max((1-share)*rate, rate-asks[comm])
		capacity[comm] = math.Max(share*rate, rate-asks[compute])
	}
	return capacity
}

func (n *naive) putArrived(a *nactor) {
	p := a.puts[0]
	a.puts = a.puts[1:]
	n.end = max(n.end, n.now)
	n.postLater(n.latency(a.gpu, a.peer), p.Flag, p.Count, a.from[0], a.gpu)
	a.from = a.from[1:]
	n.freeEngine(a)
	n.putNext(a)
}

func (n *naive) putNext(a *nactor) {
	a.sent = false
	if len(a.puts) == 0 {
		return
	}
	if engines, g := int(n.m.Engines.Count.Value), n.gpus[a.gpu]; a.puts[0].DMA && !a.engine {
		if engines > 0 && g.taken == engines {
			g.wants = append(g.wants, a)
			a.wants, a.lastEnd = true, -1
			return
		}
		g.taken++
		a.engine = true
	}
	if n.m.Network.Message.Value > 0 && n.node(a.gpu) != n.node(a.peer) {
		messages := program.Time(1)
		if a.puts[0].Bytes > 0 && a.puts[0].Flag != program.NoFlag {
			messages = 2
		}
		nic := n.nic(a.gpu)
		if n.nics[nic] >= n.now {
			a.lastEnd = -1 // what is left of the nanosecond is lost
		}
		start := max(n.now, n.nics[nic])
		n.nics[nic] = start + messages*nanoseconds(n.m.Network.Message.Value)
		if start > n.now {
			a.at = start
			return
		}
	}
	n.putSend(a)
}

func (n *naive) putSend(a *nactor) {
	a.sent = true
	p := a.puts[0]
	least := p.Time
	if n.node(a.gpu) != n.node(a.peer) {
		least = max(least, nanoseconds(n.m.Network.Message.Value))
	}
	limit := boundless
	if least > 0 && p.Bytes > 0 {
		limit = p.Bytes / float64(least)
	}
	n.flow(a, nkey{from: int32(a.gpu), to: int32(a.peer), cu: none, launch: none, side: "communication", limit: limit, read: readByPut(&p), write: n.written(p.Update), beside: 1, slow: 1, weight: n.nicsFirst(int32(a.gpu), int32(a.peer))}, p.Bytes)
}

// readByPut is the bytes that a put reads from its own GPU's memory, for each that it sends.
func readByPut(p *program.Phase) float64 {
	if p.Held {
		return 0
	}
	return 1
}

// nicsFirst is the weight of what crosses a NIC: kernels hold it up no more than they must.
func (n *naive) nicsFirst(from, to int32) float64 {
	if n.node(int(from)) != n.node(int(to)) {
		return 64
	}
	return 1
}
