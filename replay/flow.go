package replay

import "github.com/overlapse/overlapse/replay/fluid"

// Flows
//
// Everything that proceeds at a rate is a flow: phases of workgroups, copies and
// puts alike. Package fluid shares the machine's resources among them. Here is what
// a flow takes and what bounds it.

// boundless is the rate, in bytes a nanosecond, of what nothing bounds.
const boundless = fluid.Boundless

// A classKey is what bounds a flow. Flows with equal keys are one class.
type classKey struct {
	path   int32   // or none: work that touches no memory
	gpu    int32   // where it comes from
	cu     int32   // of work that touches no memory; else none
	launch int32   // whose own work does not slow it; none: all work does
	limit  float64 // bytes a nanosecond of one member alone; 1 for work that touches no memory
	slow   float64 // divides limit for the load of its CU; at least 1
	onset  float64 // the part of the co-run slowdown that any matrix work is enough for
	coRun  float64 // co-run slowdown at full interference: divides limit; at least 1
	weight float64 // of a member's share in others' where they contend
}

// flows are the resources of the machine, the paths through them, and the classes of
// what flows on the paths.
type flows struct {
	*fluid.System
	fabric
	routes
	uncontended []uncontended // by path
	index       map[classKey]int32
	classes     []flowClass // by class of the System
	coRun       [][]int32   // by GPU: classes that go slower alongside other work
	shares      []float64   // by GPU: of its memory that communication is sure of
}

// A flowClass is what replay knows of a class.
type flowClass struct {
	key     classKey
	coRunAt int32 // place in flows.alongside
}

func (s *sim) newFlows() {
	f := &s.flows
	f.System = fluid.New(s)
	f.index = map[classKey]int32{}
	f.coRun = make([][]int32, len(s.program.GPUs))
	f.shares = make([]float64, len(s.program.GPUs))
	for g := range f.shares {
		f.shares[g] = s.program.Arbiter.CommShare()
	}
	f.fabric = newFabric(s.machine, s.program)
	f.routes.between = make([][]int32, len(s.program.GPUs))
	for id, capacity := range f.capacities {
		f.NewResource(capacity, f.sides != none && int32(id) >= f.sides)
	}
}

// classOf returns the class of a key, making it if it is new.
func (f *flows) classOf(k *classKey) (id int32, isNew bool) {
	if id, ok := f.index[*k]; ok {
		return id, false
	}
	id = f.NewClass(k.path, k.weight, k.limit)
	for int(id) >= len(f.classes) {
		f.classes = append(f.classes, flowClass{})
	}
	f.index[*k] = id
	f.classes[id].key = *k
	if k.coRun > 1 {
		f.classes[id].coRunAt = int32(len(f.coRun[k.gpu]))
		f.coRun[k.gpu] = append(f.coRun[k.gpu], id)
	}
	return id, true
}

// Dropped forgets a class.
func (s *sim) Dropped(id int32) {
	f := &s.flows
	c := &f.classes[id]
	delete(f.index, c.key)
	if c.key.coRun > 1 {
		b := f.coRun[c.key.gpu]
		last := b[len(b)-1]
		b[c.coRunAt], f.classes[last].coRunAt = last, c.coRunAt
		f.coRun[c.key.gpu] = b[:len(b)-1]
	}
}

// Schedule wakes the flows' System.
func (s *sim) Schedule(at int64, t fluid.Timer) {
	s.events.Set(at, actor{dueFlow, int32(t)}.number())
}

// MemberOf is the membership of an actor's flow.
func (s *sim) MemberOf(id int64) *fluid.Member {
	who := actorOf(id)
	switch who.kind {
	case dueWorkgroup:
		return &s.wgs.at(who.id).Member
	case dueStream:
		return &s.streams[who.id].Member
	}
	return &s.channel(who.id).Member
}

// Split moves a workgroup's flow to the class of its own limit.
func (s *sim) Split(id int64) {
	who := actorOf(id)
	s.rejoin(who.id, s.wgs.at(who.id))
}
