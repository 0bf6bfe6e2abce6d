package replay

import "github.com/overlapse/overlapse/replay/program"

// A usage is the share of one of a GPU's resources that was in use over time.
type usage struct {
	GPU    int
	Of     string       // "compute units", "memory", "egress", ...
	Width  program.Time // of one part, ns; the parts begin at 0
	Shares []float64    // by part, 0 to 1: of compute units those that work or store, of a bandwidth the share of its capacity
}

// The Of of a GPU's compute units and, under an arbiter, of each side of its memory.
const (
	ComputeUnits          = "compute units"
	MemoryOfComputation   = "memory by computation"
	memoryOfCommunication = "memory by communication"
)

// A meter records what is in use over time, for Usage and Limits.
type meter struct {
	moved []parts // by resource, bytes
	full  []parts // by resource, time at its capacity
	units []parts // by GPU, CU·ns
}

func (s *sim) newMeter(o Options) *meter {
	if !o.Usage && !o.Limits {
		return nil
	}
	n := len(s.flows.capacities)
	m := &meter{make([]parts, n), make([]parts, n), make([]parts, len(s.gpus))}
	s.flows.Meter = func(resource int32, amount float64, full bool, from, to int64) {
		if s.flows.capacities[resource] == 0 {
			return // not modelled
		}
		m.moved[resource].spread(program.Time(from), program.Time(to), amount/float64(to-from))
		if full {
			m.full[resource].add(program.Time(from), program.Time(to))
		}
	}
	for g := range s.gpus {
		s.gpus[g].busy.parts = &m.units[g]
	}
	return m
}

// close meters the use until the end, and returns the width of all parts.
func (m *meter) close(s *sim) (width program.Time) {
	for id := range s.flows.capacities {
		s.flows.Used(int32(id), int64(s.now))
	}
	for g := range s.gpus {
		s.gpus[g].busy.add(0, s.now)
	}
	width = 1
	for width*maxParts < s.now { // posts may arrive after the makespan
		width *= 2
	}
	return width
}

// usages lists what was in use, by GPU and resource; resources without capacity have none.
func (s *sim) usages(width program.Time) []usage {
	var all []usage
	add := func(gpu int, of string, p *parts, capacity float64) {
		u := usage{GPU: gpu, Of: of, Width: width}
		for at := program.Time(0); at < s.makespan; at += width {
			u.Shares = append(u.Shares, p.amount(int(at/width), width)/(capacity*float64(min(width, s.makespan-at))))
		}
		all = append(all, u)
	}
	for g := range s.gpus {
		add(g, ComputeUnits, &s.meter.units[g], float64(len(s.gpus[g].cus)))
		for r := range numResources {
			if id := s.flows.resource(g, r); id != none && s.flows.capacities[id] > 0 {
				add(g, r.String(), &s.meter.moved[id], s.flows.capacities[id])
			}
		}
		if s.flows.sides == none {
			continue
		}
		for side, of := range []string{MemoryOfComputation, memoryOfCommunication} { // shares of the whole memory, whatever the arbiter leaves each
			id := s.flows.sides + int32(numSides*g+side)
			add(g, of, &s.meter.moved[id], s.flows.capacities[s.flows.resource(g, Memory)])
		}
	}
	return all
}
