package machine

import (
	"fmt"
	"math"
)

// A Topology is how the members of a fabric or of a network are joined.
type Topology string

// The topologies. On a Switch one pair can use a member's whole rate. On a Mesh each pair
// has its own link. On a Ring and on a torus neighbours have a link, and bytes for other
// members pass through them (rule N1).
const (
	Switch  Topology = "switch"
	Mesh    Topology = "mesh"
	Ring    Topology = "ring"
	Torus2D Topology = "torus2d"
	Torus3D Topology = "torus3d"
)

// topologies are the words of a profile.
var topologies = []string{string(Switch), string(Mesh), string(Ring), string(Torus2D), string(Torus3D)}

// Known reports whether the topology is one of Topologies.
func (t Topology) Known() bool {
	switch t {
	case Switch, Mesh, Ring, Torus2D, Torus3D:
		return true
	}
	return false
}

// axes is the number of rings through a member; 0 if every pair is joined directly.
func (t Topology) axes() int {
	switch t {
	case Ring:
		return 1
	case Torus2D:
		return 2
	case Torus3D:
		return 3
	}
	return 0
}

// Passes reports whether members pass on bytes for others: each has links to its neighbours only.
func (t Topology) Passes() bool { return t.axes() > 0 }

// Distance is the distance in ranks to the i-th of n-1 other members, where all members send to
// the same distance at a time: 1, 2, 3 over a switch or mesh. On a ring or torus equal distances
// use the links of one direction only; there successive distances lie far apart, so that few of
// them use all links (rule N7). The steps are by the golden ratio, which spreads any number of
// multiples evenly (Knuth, The Art of Computer Programming, volume 3, section 6.4).
func (t Topology) Distance(i, n int) int {
	others := n - 1
	if t.axes() == 0 || others < 2 {
		return 1 + i
	}
	step := int(float64(others)/math.Phi + 0.5)
	for GCD(step, others) > 1 {
		step--
	}
	return 1 + i*step%others
}

// GCD is the greatest common divisor.
func GCD(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// Shape is the number of members of a ring or torus along each axis, longest first: the
// factors nearest to each other, so that 128 is 16 by 8 and 8 by 4 by 4. Members are
// numbered along the first axis first (rule N2).
func (t Topology) Shape(members int) [3]int {
	shape := [3]int{1, 1, 1}
	for axis := t.axes() - 1; axis > 0; axis-- {
		shape[axis] = factor(members, axis+1)
		members /= shape[axis]
	}
	shape[0] = members
	return shape
}

// factor is the largest divisor of n whose power does not exceed n.
func factor(n, power int) int {
	best := 1
	for d := 2; ; d++ {
		p := 1
		for range power {
			p *= d
		}
		if p > n {
			return best
		}
		if n%d == 0 {
			best = d
		}
	}
}

// Ports is the number of links out of a member: on a Switch or Mesh port p leads to member
// p; on a ring or torus ports 2·a and 2·a+1 lead up and down axis a.
func (t Topology) Ports(members int) int {
	if axes := t.axes(); axes > 0 {
		return 2 * axes
	}
	return members
}

// A Step is one link of a route: out of a member through one of its ports.
type Step struct{ From, Port int }

// A Layout is the positions of the members of a topology, from which routes follow.
type Layout struct {
	axes  int
	shape [3]int
}

// Layout assigns positions to members.
func (t Topology) Layout(members int) Layout { return Layout{t.axes(), t.Shape(members)} }

// Route appends to buf the links from one member to another in the order in which bytes
// cross them: along the first axis to the end, then the second, then the third (dimension
// order), in the shorter direction of each ring. If both directions are equally long,
// members at even positions go up and those at odd positions go down, so that an
// all-to-all loads both alike (rule N2).
func (l *Layout) Route(from, to int, buf []Step) []Step {
	if from == to {
		return buf
	}
	if l.axes == 0 {
		return append(buf, Step{from, to})
	}
	stride := 1
	for axis, size := range l.shape[:l.axes] {
		at, end := from/stride%size, to/stride%size
		hops, down := ringDistance(at, end, size)
		for range hops {
			buf = append(buf, Step{from, 2*axis + down})
			next := at + 1 - 2*down
			switch next {
			case size:
				next = 0
			case -1:
				next = size - 1
			}
			from += (next - at) * stride
			at = next
		}
		stride *= size
	}
	return buf
}

// Hops is the number of links of the route.
func (l *Layout) Hops(from, to int) int {
	if from == to {
		return 0
	}
	if l.axes == 0 {
		return 1
	}
	sum, stride := 0, 1
	for _, size := range l.shape[:l.axes] {
		hops, _ := ringDistance(from/stride%size, to/stride%size, size)
		sum += hops
		stride *= size
	}
	return sum
}

// ringDistance is the number of links between two positions of a ring, and 1 if the
// shorter direction is down.
func ringDistance(at, end, size int) (hops, down int) {
	up := (end - at + size) % size
	if 2*up > size || 2*up == size && at%2 == 1 {
		return size - up, 1
	}
	return up, 0
}

// LinkRate is an upper bound of the rate at which each of n GPUs sends in a collective of
// theirs, in bytes per second: that of its links or, on a mesh, of those that lead to the
// others, and of the NICs of its node if n GPUs fill more than one. 0: unknown.
func (m *Machine) LinkRate(n int) float64 {
	rate := m.Fabric.Egress.Or(math.Inf(1))
	if m.Fabric.Topology == Mesh {
		rate = min(rate, float64(min(n, m.PerNode())-1)*m.Fabric.Pair.Or(math.Inf(1)))
	}
	if n > m.PerNode() {
		rate = min(rate, m.Network.NICs.Value*m.Network.Egress.Value)
	}
	if math.IsInf(rate, 1) {
		return 0
	}
	return rate
}

// A Network joins the nodes of a machine through their NICs. The zero value means a single
// node.
type Network struct {
	Node     Quantity // GPUs per node
	NICs     Quantity // per node; each serves an equal number of GPUs
	Topology Topology // of the nodes
	Egress   Quantity // bytes per second out of one NIC
	Ingress  Quantity // bytes per second into one NIC
	Pair     Quantity // bytes per second between two nodes (on a ring or torus, neighbours), one direction
	Latency  Quantity // seconds until a put is visible on another node, over one link
	Hop      Quantity // additional seconds per further link
	Message  Quantity // minimum seconds between two messages of a NIC
}

// PerNode is the number of GPUs per node; the last node may have fewer.
func (m *Machine) PerNode() int {
	if n := int(m.Network.Node.Value); n > 0 {
		return n
	}
	return max(1, m.GPUs)
}

// Node is the node of a rank's GPU, from 0. Ranks fill one node after another.
func (m *Machine) Node(rank int) int { return rank / m.PerNode() }

// Nodes is the number of nodes.
func (m *Machine) Nodes() int { return (max(1, m.GPUs) + m.PerNode() - 1) / m.PerNode() }

// NIC is the NIC that serves a rank's GPU, numbered over all nodes (rule N4).
func (m *Machine) NIC(rank int) int {
	per, nics := m.PerNode(), max(1, int(m.Network.NICs.Value))
	return m.Node(rank)*nics + rank%per*nics/per
}

// LibraryFor is the library for a collective of the given ranks, which need not fill nodes
// one after another: a group of one rank a node crosses the network (rule N4).
func (m *Machine) LibraryFor(ranks []int) *Library {
	if m.Nodes() == 1 || m.Library.Network.Node.Value == 0 {
		return &m.Library
	}
	on := map[int]bool{}
	for _, r := range ranks {
		on[m.Node(r)] = true
	}
	l := m.Library
	l.Nodes = len(on)
	return &l
}

// MaxGPUs is the maximum number of GPUs of a machine.
const MaxGPUs = 1 << 12

// Sized is the machine with a number of GPUs. A number beyond the fabric's maximum means
// several nodes, joined by the profile's network or, without one, by an assumed one. It
// returns an error beyond the maximum of a ring or torus (rule N6).
func (m Machine) Sized(gpus int) (Machine, error) {
	most := int(m.Most.Value)
	name := NameOf(m.Profile, gpus)
	switch {
	case gpus < 1 || gpus > MaxGPUs:
		return m, fmt.Errorf("%s: %d GPUs (want 1 to %d)", name, gpus, MaxGPUs)
	case gpus <= most:
	case m.outermost().axes() > 0:
		return m, fmt.Errorf("%s: %d GPUs: the %s of %s has at most %d (%s to %s); a machine file with base: %s and gpus: N gives it more",
			name, gpus, m.outermost(), m.Profile, most, NameOf(m.Profile, 1), NameOf(m.Profile, most), m.Profile)
	case m.Network.Node.Value == 0:
		m.Network = assumedNetwork(m.Most.Value)
		m.Library.Network = m.Network
	}
	return m.Resize(gpus), nil
}

// outermost is the topology that more GPUs extend: that of the nodes, if there are
// several.
func (m *Machine) outermost() Topology {
	if m.Network.Node.Value > 0 {
		return m.Network.Topology
	}
	return m.Fabric.Topology
}

// AssumedNetwork reports whether the network between the machine's nodes is assumed.
func (m *Machine) AssumedNetwork() bool {
	n := &m.Network
	return m.Nodes() > 1 && n.NICs.Mark == Assumed && n.Egress.Mark == Assumed && n.Pair.Mark == Assumed
}

// assumedNetwork joins nodes by one NIC of 400 Gb/s per GPU through switches without
// contention.
func assumedNetwork(node float64) Network {
	assume := func(number float64, unit, why string) Quantity {
		return Quantity{Value: number * ScaleOf(unit), Unit: unit, Source: why, Mark: Assumed}
	}
	const nic = "a 400 Gb/s NIC a GPU is usual; this machine's network is not known"
	return Network{
		Node:     assume(node, "", "as many GPUs as the fabric joins"),
		NICs:     assume(node, "", nic),
		Topology: Switch,
		Egress:   assume(50, "GB/s", nic),
		Ingress:  assume(50, "GB/s", nic),
		Pair:     assume(50*node, "GB/s", "a network that no pair of nodes can saturate"),
		Latency:  assume(2, "us", "secondary sources: 1 to 5 us for InfiniBand and RoCE"),
		Hop:      assume(0, "s", "switches of a fat tree count as one"),
		Message:  assume(0.1, "us", "no rate was found; between 1.7 million messages a second through a host proxy and 180 million from GPU threads"),
	}
}
