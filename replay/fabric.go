package replay

import (
	"math"

	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

// A pathKey is what makes a path.
type pathKey struct {
	from, to int32   // GPUs
	side     side    // of their memories, where an arbiter tells sides apart
	read     float64 // bytes of memory at from, read or written, for each byte that goes its way
	write    float64 // bytes of memory at to for each
	cache    float64 // bytes of the last-level cache at from for each
}

// routes are the paths by key.
type routes struct {
	keys     []pathKey // by path
	siblings []int32   // by path: the next path between the same GPUs, in a ring
	between  [][]int32 // by GPU and GPU or Everyone: the path last found, and one; nil where there are none
}

// pathTo returns the path of a key. Those between the same GPUs lie in a ring,
// which is entered where the last one was found.
func (f *flows) pathTo(k pathKey) int32 {
	if f.between[k.from] == nil {
		f.between[k.from] = make([]int32, len(f.between)+1)
	}
	to := int(k.to)
	if k.to == program.Everyone {
		to = len(f.between)
	}
	last := &f.between[k.from][to]
	first := *last - 1
	for id := first; id != none; {
		if f.keys[id] == k {
			*last = id + 1
			return id
		}
		if id = f.siblings[id]; id == first {
			break
		}
	}
	id := f.newPath(k)
	if first != none {
		f.siblings[id], f.siblings[first] = f.siblings[first], id
	}
	*last = id + 1
	return id
}

func (f *flows) newPath(k pathKey) int32 {
	id := f.NewPath(f.route(k))
	f.keys = append(f.keys, k)
	f.siblings = append(f.siblings, id)
	f.uncontended = append(f.uncontended, uncontended{})
	return id
}

// crossing is that a path takes so much of a resource for a byte.
type crossing = fluid.Crossing

// A fabric says which resources bytes cross. Resources lie in a row: memory, egress
// and ingress of each GPU, then the links inside the nodes, then egress and
// ingress of each NIC, the links between nodes, last-level caches, and the
// sides of memories that an arbiter tells apart. A resource whose
// capacity the machine does not give (0) holds nothing back and is no part of
// a route.
//
//	GPU 0 ─ egress ─ links of the node ─ ingress ─ GPU 1        in one node
//	GPU 0 ─ NIC out ─ links of the network ─ NIC in ─ GPU 9     between nodes
type fabric struct {
	capacities []float64 // of resources, bytes a nanosecond
	homes      []home    // by GPU
	inner      level     // of the GPUs of a node; one node's links after another's
	outer      level     // of the nodes
	nics       int
	caches     int32        // first resource of the last-level caches, or none
	sides      int32        // first resource of the sides of memories, or none
	update     float64      // memory that a byte takes that is added to what is there
	message    program.Time // that a message takes a NIC at least
	flag       program.Time // that a flag to a GPU of the node takes at least
	steps      []machine.Step
	way        []crossing
}

// A home is where a GPU is.
type home struct {
	node, at int32 // in the node
	nic      int32 // counted over all nodes; none where there is one node
	card     int32 // its first resource
}

// A level is members joined by links.
type level struct {
	topology     machine.Topology
	layout       machine.Layout // of the members
	members      int
	ports        int          // of a member
	links        int32        // first resource
	limited      bool         // links have a capacity of their own
	latency, hop program.Time // of the first link, and of each further one
}

const (
	resourcesPerGPU = 3 // Memory, Egress, Ingress
	resourcesPerNIC = 2 // NICEgress, NICIngress
)

func newFabric(m *machine.Machine, p *program.Program) fabric {
	factor := 1.0
	if p.Links > 0 {
		factor = p.Links
	}
	all := m.Resize(max(len(p.GPUs), m.GPUs))
	nodes, per, nics := all.Nodes(), min(all.PerNode(), max(1, all.GPUs)), max(1, int(m.Network.NICs.Value))
	f := fabric{
		message: nanoseconds(m.Network.Message.Value), flag: nanoseconds(m.Fabric.Message.Value), homes: make([]home, all.GPUs),
		caches: none, sides: none, update: m.GPU.Update.Value,
	}
	if f.update == 0 {
		f.update = 1
	}
	add := func(count int, rate machine.Quantity) int32 {
		at := int32(len(f.capacities))
		for range count {
			f.capacities = append(f.capacities, factor*program.PerNanosecond(rate.Value))
		}
		return at
	}
	for range f.homes {
		f.capacities = append(f.capacities, program.PerNanosecond(m.GPU.Memory.Value))
		add(1, m.Fabric.Egress)
		add(1, m.Fabric.Ingress)
	}
	join := func(l level, times int, pair machine.Quantity) level {
		l.layout, l.ports = l.topology.Layout(l.members), l.topology.Ports(l.members)
		if l.limited = pair.Value > 0; l.limited {
			l.links = add(times*l.members*l.ports, pair)
		}
		return l
	}
	f.inner = join(level{
		topology: m.Fabric.Topology, members: per,
		latency: nanoseconds(m.Fabric.Latency.Value), hop: nanoseconds(m.Fabric.Hop.Value),
	}, nodes, m.Fabric.Pair)
	cards := int32(len(f.capacities))
	if nodes > 1 {
		f.nics = nodes * nics
		for range f.nics {
			add(1, m.Network.Egress)
			add(1, m.Network.Ingress)
		}
		f.outer = join(level{
			topology: m.Network.Topology, members: nodes,
			latency: nanoseconds(m.Network.Latency.Value), hop: nanoseconds(m.Network.Hop.Value),
		}, 1, m.Network.Pair)
	}
	for g := range f.homes {
		h := home{node: int32(all.Node(g)), at: int32(g % per), nic: none}
		if nodes > 1 {
			h.nic = int32(all.NIC(g))
			h.card = cards + resourcesPerNIC*h.nic
		}
		f.homes[g] = h
	}
	if m.GPU.CacheRate.Value > 0 {
		f.caches = int32(len(f.capacities))
		for range f.homes {
			f.capacities = append(f.capacities, program.PerNanosecond(m.GPU.CacheRate.Value))
		}
	}
	if p.Arbiter.Policy != program.Fair && m.GPU.Memory.Value > 0 {
		f.sides = int32(len(f.capacities))
		for g := range f.homes {
			for range numSides {
				f.capacities = append(f.capacities, f.capacities[f.resource(g, Memory)])
			}
		}
	}
	return f
}

func nanoseconds(seconds float64) program.Time { return program.Time(math.Round(seconds * 1e9)) }

// resource is that of a GPU, or of the NIC that serves it; none where there is none.
func (f *fabric) resource(gpu int, r Resource) int32 {
	switch {
	case r <= Ingress:
		return int32(resourcesPerGPU*gpu + int(r))
	case r == Cache && f.caches != none:
		return f.caches + int32(gpu)
	case (r == NICEgress || r == NICIngress) && f.homes[gpu].nic != none:
		return f.homes[gpu].card + int32(r-NICEgress)
	}
	return none
}

// apart reports whether bytes between the GPUs go through the network.
func (f *fabric) apart(from, to int32) bool {
	return to != program.Everyone && f.homes[from].node != f.homes[to].node
}

// latency is how long after it was written one GPU sees what another wrote to it (rules F2 and F3).
func (f *fabric) latency(from, to int32) program.Time {
	switch to {
	case from:
		return 0
	case program.Everyone:
		return f.inner.latency
	}
	a, b := &f.homes[from], &f.homes[to]
	switch {
	case a.node != b.node:
		return f.outer.delay(a.node, b.node)
	}
	return f.inner.delay(a.at, b.at)
}

func (l *level) delay(from, to int32) program.Time {
	if l.hop == 0 {
		return l.latency
	}
	return l.latency + program.Time(l.layout.Hops(int(from), int(to))-1)*l.hop
}

// route is the resources that a byte crosses on the path (rule R1), valid until the
// next call.
func (f *fabric) route(k pathKey) []crossing {
	from, to := int(k.from), int(k.to)
	if from == to {
		s := f.memory(f.way[:0], from, k.side, k.read+k.write)
		if f.caches != none {
			s = f.cross(s, f.resource(from, Cache), k.cache)
		}
		f.way = s
		return s
	}
	s := f.memory(f.way[:0], from, k.side, k.read)
	if k.to == program.Everyone {
		f.way = f.replicated(s, k)
		return f.way
	}
	a, b := &f.homes[from], &f.homes[to]
	if a.node != b.node {
		s = f.cross(s, f.resource(from, NICEgress), 1)
		s = f.links(s, &f.outer, 0, a.node, b.node)
		s = f.cross(s, f.resource(to, NICIngress), 1)
	} else {
		s = f.cross(s, f.resource(from, Egress), 1)
		s = f.links(s, &f.inner, a.node, a.at, b.at)
		s = f.cross(s, f.resource(to, Ingress), 1)
	}
	f.way = f.memory(s, to, k.side, k.write)
	return f.way
}

// replicated appends the way behind the source's memory of bytes that leave once
// and reach every other GPU of the node (rule R7).
func (f *fabric) replicated(s []crossing, k pathKey) []crossing {
	from := int(k.from)
	s = f.cross(s, f.resource(from, Egress), 1)
	for to := range f.homes {
		if to != from && !f.apart(k.from, int32(to)) {
			s = f.cross(s, f.resource(to, Ingress), 1)
			s = f.memory(s, to, k.side, k.write)
		}
	}
	return s
}

// memory appends that of a GPU, and the side of it. A side may have no capacity at
// present.
func (f *fabric) memory(s []crossing, gpu int, of side, cost float64) []crossing {
	s = f.cross(s, f.resource(gpu, Memory), cost)
	if f.sides != none && cost > 0 {
		s = append(s, crossing{Resource: f.sideOf(gpu, of), Cost: cost})
	}
	return s
}

// written is the memory that a byte takes which is written, or added to what is there.
func (f *fabric) written(update bool) float64 {
	if update {
		return f.update
	}
	return 1
}

// links appends those of the way between two members of the level, in one of its groups.
func (f *fabric) links(s []crossing, l *level, group, from, to int32) []crossing {
	if !l.limited {
		return s
	}
	f.steps = l.layout.Route(int(from), int(to), f.steps[:0])
	for _, step := range f.steps {
		at := (int(group)*l.members+step.From)*l.ports + step.Port
		s = f.cross(s, l.links+int32(at), 1)
	}
	return s
}

func (f *fabric) cross(s []crossing, resource int32, cost float64) []crossing {
	if f.capacities[resource] == 0 || cost == 0 {
		return s
	}
	return append(s, crossing{Resource: resource, Cost: cost})
}
