package replay

import (
	"fmt"

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
