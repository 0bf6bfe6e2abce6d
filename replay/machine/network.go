package machine

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
