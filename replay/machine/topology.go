package machine

import "math"

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
