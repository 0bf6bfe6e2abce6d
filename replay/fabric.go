package replay

import (
	"math"

	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

// A pathKey identifies a path.
type pathKey struct {
	from, to int32   // GPUs
	side     side    // of their memories, if the arbiter distinguishes sides
	read     float64 // bytes of memory traffic at from, per byte of the flow
	write    float64 // bytes of memory traffic at to, per byte
	cache    float64 // bytes of the last-level cache at from, per byte
}

// routes are the paths by key.
type routes struct {
	keys     []pathKey // by path
	siblings []int32   // by path: the next path between the same GPUs, a circular list
	between  [][]int32 // by source and destination (or Everyone): the path found last; nil if there is none
}

// pathTo returns the path of a key. The search starts at the path found last between the
// same GPUs.
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
	id := f.NewPath(f.fold.crossings(f.route(k)))
	f.keys = append(f.keys, k)
	f.siblings = append(f.siblings, id)
	f.uncontended = append(f.uncontended, uncontended{})
	f.sole = append(f.sole, none)
	return id
}

// A crossing is a resource of a path and the amount that one byte uses.
type crossing = fluid.Crossing

// A fabric maps routes to resources. Resource indices are ordered: memory, egress and
// ingress of each GPU; links inside the nodes; egress and ingress of each NIC; links
// between nodes; last-level caches; memory sides of an arbiter. A resource of capacity 0
// is not modelled and is not part of a route.
//
//	GPU 0 ─ egress ─ links of the node ─ ingress ─ GPU 1        in one node
//	GPU 0 ─ NIC out ─ links of the network ─ NIC in ─ GPU 9     between nodes
type fabric struct {
	capacities []float64 // by resource, bytes per nanosecond
	homes      []home    // by GPU
	inner      level     // the GPUs of a node; the links of all nodes follow each other
	outer      level     // the nodes
	nics       int
	caches     int32        // first resource of the last-level caches, or none
	sides      int32        // first resource of the memory sides, or none
	update     float64      // memory bytes that one byte of an update uses
	message    program.Time // minimum time of a message on a NIC
	flag       program.Time // minimum time of a flag to a GPU of the same node
	steps      []machine.Step
	way        []crossing
}

// A home is the location of a GPU.
type home struct {
	node, at int32 // at: index in the node
	nic      int32 // index over all nodes; none with a single node
	card     int32 // first resource of the NIC
}

// A level is a set of members joined by links: the GPUs of a node, or the nodes.
type level struct {
	topology     machine.Topology
	layout       machine.Layout // of the members
	members      int
	ports        int          // per member
	links        int32        // first resource
	limited      bool         // links have their own capacity
	latency, hop program.Time // of the first link; of each further one
}

const (
	resourcesPerGPU = 3 // Memory, Egress, Ingress
	resourcesPerNIC = 2 // NICEgress, NICIngress
)

func newFabric(m *machine.Machine, p *program.Program) fabric {
	all := m.Resize(max(len(p.GPUs), m.GPUs))
	nodes, per, nics := all.Nodes(), min(all.PerNode(), max(1, all.GPUs)), max(1, int(m.Network.NICs.Value))
	f := fabric{
		message: nanoseconds(m.Network.Message.Value), flag: nanoseconds(m.Fabric.Message.Value), homes: make([]home, all.GPUs),
		caches: none, sides: none, update: m.GPU.UpdateCost(),
	}
	add := func(count int, rate machine.Quantity) int32 {
		at := int32(len(f.capacities))
		for range count {
			f.capacities = append(f.capacities, perNanosecond(rate.Value))
		}
		return at
	}
	for range f.homes {
		f.capacities = append(f.capacities, perNanosecond(m.GPU.Memory.Value))
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
			f.capacities = append(f.capacities, perNanosecond(m.GPU.CacheRate.Value))
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

// resource returns the resource of a GPU, or of its NIC; none if it is not modelled.
func (f *fabric) resource(gpu int, r Resource) int32 {
	switch {
	case r <= ingress:
		return int32(resourcesPerGPU*gpu + int(r))
	case r == Cache && f.caches != none:
		return f.caches + int32(gpu)
	case (r == NICEgress || r == nicIngress) && f.homes[gpu].nic != none:
		return f.homes[gpu].card + int32(r-NICEgress)
	}
	return none
}

// apart reports whether the GPUs are on different nodes.
func (f *fabric) apart(from, to int32) bool {
	return to != program.Everyone && f.homes[from].node != f.homes[to].node
}

// latency is the time from a write of one GPU until another GPU sees it (rules F2 and F3).
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

// route returns the resources that a byte crosses on the path (rule R1). The slice is
// valid until the next call.
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
		s = f.cross(s, f.resource(to, nicIngress), 1)
	} else {
		s = f.cross(s, f.resource(from, Egress), 1)
		s = f.links(s, &f.inner, a.node, a.at, b.at)
		s = f.cross(s, f.resource(to, ingress), 1)
	}
	f.way = f.memory(s, to, k.side, k.write)
	return f.way
}

// replicated appends the resources of a replicated store, behind the source's memory: its
// bytes leave once and reach every other GPU of the node (rule R1).
func (f *fabric) replicated(s []crossing, k pathKey) []crossing {
	from := int(k.from)
	s = f.cross(s, f.resource(from, Egress), 1)
	for to := range f.homes {
		if to != from && !f.apart(k.from, int32(to)) {
			s = f.cross(s, f.resource(to, ingress), 1)
			s = f.memory(s, to, k.side, k.write)
		}
	}
	return s
}

// memory appends a GPU's memory and the arbiter's side of it. A side may have capacity 0
// for a while.
func (f *fabric) memory(s []crossing, gpu int, of side, cost float64) []crossing {
	s = f.cross(s, f.resource(gpu, Memory), cost)
	if f.sides != none && cost > 0 {
		s = append(s, crossing{Resource: f.sideOf(gpu, of), Cost: cost})
	}
	return s
}

// written is the memory traffic of bytes written or added in place.
func (f *fabric) written(update bool) float64 {
	if update {
		return f.update
	}
	return 1
}

// links appends the links between two members of one group of the level.
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
