package replay

import "github.com/overlapse/overlapse/replay/fluid"

// Flows
//
// Phases of workgroups, copies and puts proceed at rates: each is a flow. Package fluid
// shares the machine's resources among flows. This file says which resources a flow uses
// and what limits its rate.

// boundless is the rate of a flow without a limit, in bytes per nanosecond.
const boundless = fluid.Boundless

// A classKey identifies a class: flows with equal keys have the same path and limits.
type classKey struct {
	path     int32   // none: work that touches no memory
	gpu      int32   // source GPU
	cu       int32   // set for work that touches no memory; else none
	launch   int32   // launch whose own work does not slow this flow; none: all work does
	limit    float64 // bytes per nanosecond of one member alone; 1 for work that touches no memory
	slow     float64 // divides limit: slowdown by the load of the CU; at least 1
	onset    float64 // share of the co-run slowdown that any matrix work causes
	coRun    float64 // co-run slowdown at full interference: divides limit; at least 1
	channels bool    // coRun is that alongside channels that move bytes
	fed      float64 // Kernel.Fed
	weight   float64 // of a member in max-min fair sharing
}

// coRuns reports whether the limit of the class depends on what runs alongside.
func (k *classKey) coRuns() bool { return k.coRun > 1 || k.channels }

// flows are the machine's resources, the paths through them, and the classes of the flows
// on them.
type flows struct {
	*fluid.System
	fabric
	routes
	uncontended []uncontended      // by path
	sole        []int32            // by path: one of its classes, or none; most paths have only one at a time
	index       map[classKey]int32 // the other classes
	classes     []flowClass        // by class of the System
	coRun       [][]int32          // by GPU: classes with a co-run slowdown
	fold        *fold              // nil: none
	shares      []float64          // by GPU: share of its memory guaranteed to communication
}

// A flowClass is the data of a class that package fluid does not need.
type flowClass struct {
	key     classKey
	coRunAt int32 // index in flows.coRun
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

// classOf returns the class of a key and creates it if needed.
func (f *flows) classOf(k *classKey) (id int32, isNew bool) {
	if k.path != none {
		if id = f.sole[k.path]; id != none && f.classes[id].key == *k {
			return id, false
		}
	}
	if len(f.index) > 0 {
		if id, ok := f.index[*k]; ok {
			return id, false
		}
	}
	id = f.NewClass(k.path, k.weight, k.limit)
	for int(id) >= len(f.classes) {
		f.classes = append(f.classes, flowClass{})
	}
	if k.path != none && f.sole[k.path] == none {
		f.sole[k.path] = id
	} else {
		f.index[*k] = id
	}
	f.classes[id].key = *k
	if k.coRuns() {
		f.classes[id].coRunAt = int32(len(f.coRun[k.gpu]))
		f.coRun[k.gpu] = append(f.coRun[k.gpu], id)
	}
	return id, true
}

// Dropped removes a class that package fluid has discarded.
func (s *sim) Dropped(id int32) {
	f := &s.flows
	c := &f.classes[id]
	if path := c.key.path; path != none && f.sole[path] == id {
		f.sole[path] = none
	} else {
		delete(f.index, c.key)
	}
	if c.key.coRuns() {
		b := f.coRun[c.key.gpu]
		last := b[len(b)-1]
		b[c.coRunAt], f.classes[last].coRunAt = last, c.coRunAt
		f.coRun[c.key.gpu] = b[:len(b)-1]
	}
	c.key.gpu = none // no key is equal
}

// Schedule sets the timer of the flows' System.
func (s *sim) Schedule(at int64, t fluid.Timer) {
	s.events.set(at, actor{dueFlow, int32(t)}.number())
}

// MemberOf returns the class membership of an actor's flow.
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
