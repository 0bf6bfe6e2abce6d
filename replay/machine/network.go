package machine

// A Network joins the nodes of a machine through their network cards (NICs).
// The zero value is none: the machine is one node.
type Network struct {
	Node     Quantity // GPUs of a node
	NICs     Quantity // of a node; each serves equally many of its GPUs
	Topology Topology // of the nodes
	Egress   Quantity // bytes a second out of one NIC
	Ingress  Quantity // bytes a second into one NIC
	Pair     Quantity // bytes a second between two nodes, on a ring or torus between neighbours, one way
	Latency  Quantity // seconds, a put becoming visible on another node, over one link
	Hop      Quantity // seconds more for each further link
	Message  Quantity // seconds that a message takes a NIC at least: it sends no more than one in that time
}

// PerNode is how many GPUs a node has; the last may have fewer.
func (m *Machine) PerNode() int {
	if n := int(m.Network.Node.Value); n > 0 {
		return n
	}
	return max(1, m.GPUs)
}

// Node is the node that a rank's GPU is in, from 0. Ranks fill one node after another.
func (m *Machine) Node(rank int) int { return rank / m.PerNode() }

// Nodes is how many nodes the machine has.
func (m *Machine) Nodes() int { return (max(1, m.GPUs) + m.PerNode() - 1) / m.PerNode() }

// NIC is the network card that serves a rank's GPU, counted over all nodes (rule N4).
func (m *Machine) NIC(rank int) int {
	per, nics := m.PerNode(), max(1, int(m.Network.NICs.Value))
	return m.Node(rank)*nics + rank%per*nics/per
}

// Latency is how many seconds after it was written a rank sees what another
// wrote to it: the latency of the first link and of each further one.
func (m *Machine) Latency(from, to int) float64 {
	f, n, per := &m.Fabric, &m.Network, m.PerNode()
	if a, b := m.Node(from), m.Node(to); a != b {
		return n.Latency.Value + float64(n.Topology.Hops(m.Nodes(), a, b)-1)*n.Hop.Value
	}
	if from == to {
		return 0
	}
	return f.Latency.Value + float64(f.Topology.Hops(min(per, m.GPUs), from%per, to%per)-1)*f.Hop.Value
}
