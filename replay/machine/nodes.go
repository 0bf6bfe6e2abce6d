package machine

import "fmt"

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
