package replay

import (
	"cmp"
	"iter"
	"slices"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// What limits a GPU over time
//
// The run is divided into at most maxParts equal parts, which widen as the run grows. Each
// part sums the time for which each resource was saturated. A part is limited by the
// resource that was saturated for most of it, if that is at least half; else by computing
// or communicating, if that took at least half; else by the cause of the streams' idle
// time.
//
//	memory   |.##...####......|
//	egress   |..........####..|       full
//	kernels  |ccccccccccmmmm..|
//	limit    |c|mem|c|m...|egr|...

// maxParts is the maximum number of parts of a run; even.
const maxParts = 512

// A limit is the main limit of a GPU in an interval.
type limit struct {
	GPU        int
	Start, End program.Time
	By         string // "memory", "egress", "compute", "launch", ...
}

// parts sums time, or an amount, by part.
type parts struct {
	width program.Time // of one part; 1 at first
	sum   []float64
}

// add adds an interval. Intervals may come in any order.
func (p *parts) add(start, end program.Time) { p.spread(start, end, 1) }

// spread adds a rate over an interval.
func (p *parts) spread(start, end program.Time, rate float64) {
	p.width = cmp.Or(p.width, 1)
	for end > p.width*maxParts {
		p.widen()
	}
	for i := start / p.width; i*p.width < end; i++ {
		if need := int(i) + 1 - len(p.sum); need > 0 {
			p.sum = append(p.sum, make([]float64, need)...)
		}
		p.sum[i] += rate * float64(min(end, (i+1)*p.width)-max(start, i*p.width))
	}
}

// widen merges pairs of parts.
func (p *parts) widen() {
	for i := range (len(p.sum) + 1) / 2 {
		sum := p.sum[2*i]
		if 2*i+1 < len(p.sum) {
			sum += p.sum[2*i+1]
		}
		p.sum[i] = sum
	}
	p.sum = p.sum[:(len(p.sum)+1)/2]
	p.width *= 2
}

// at is the time in a part of the given width, which is at least p.width.
func (p *parts) at(i int, width program.Time) program.Time { return program.Time(p.amount(i, width)) }

// amount is what a part of the given width, which is at least p.width, holds.
func (p *parts) amount(i int, width program.Time) float64 {
	sum := 0.0
	if p.width == 0 {
		return 0
	}
	n := int(width / p.width)
	for k := i * n; k < min((i+1)*n, len(p.sum)); k++ {
		sum += p.sum[k]
	}
	return sum
}

// The limits of a part in which no resource is saturated.
const (
	computing     = "compute"
	communicating = "communication" // below the capacity of every resource: latencies, few channels, peers
	copying       = "copies"
)

// limitsOf lists the limits by GPU and start.
func (s *sim) limitsOf(idle []Idle, width program.Time) []limit {
	full, busy := s.fullByGPU(), s.busyByGPU()
	var all []limit
	for g := range s.gpus {
		sums := full[g]
		sums = append(sums, busy[g][:]...)
		still := map[string]*parts{}
		for _, i := range idle {
			if i.Rank == g && i.Cause != program.NoWork {
				name := i.Cause.String()
				if still[name] == nil {
					still[name] = &parts{}
					sums = append(sums, named{name, still[name], true})
				}
				still[name].add(i.Start, i.End)
			}
		}
		first := len(all)
		for i := 0; program.Time(i)*width < s.makespan; i++ {
			start, end := program.Time(i)*width, min(program.Time(i+1)*width, s.makespan)
			by := mostOf(sums, i, width, end-start)
			if n := len(all) - 1; n >= first && all[n].By == by {
				all[n].End = end
				continue
			}
			all = append(all, limit{g, start, end, by})
		}
	}
	return all
}

// A named is the time of one limit. Entries with last count only if no other entry takes
// half of a part.
type named struct {
	name string
	*parts
	last bool
}

// mostOf is the first limit that took half of a part, else the longest of the last
// entries.
func mostOf(sums []named, i int, width, length program.Time) string {
	by, most := program.NoWork.String(), program.Time(0)
	for _, x := range sums {
		t := x.at(i, width)
		if !x.last && 2*t >= length {
			return x.name
		}
		if x.last && t > most {
			by, most = x.name, t
		}
	}
	return by
}

// fullByGPU lists, by GPU, the resources that were saturated at some time: memory, ports,
// outgoing links and NICs.
func (s *sim) fullByGPU() [][]named {
	all := make([][]named, len(s.gpus))
	add := func(gpu int, resource int32, name string) {
		if full := &s.meter.full[resource]; len(full.sum) > 0 {
			all[gpu] = append(all[gpu], named{name, full, false})
		}
	}
	f := &s.flows.fabric
	for g := range s.gpus {
		for _, r := range [...]Resource{Egress, ingress, NICEgress, nicIngress, Cache} {
			if id := f.resource(g, r); id != none {
				add(g, id, r.String())
			}
		}
		if in := &f.inner; in.limited {
			h := &f.homes[g]
			for port := range in.ports {
				add(g, in.links+(h.node*int32(in.members)+h.at)*int32(in.ports)+int32(port), "link")
			}
		}
		add(g, f.resource(g, Memory), Memory.String())
		if f.sides != none {
			for side := range int32(numSides) {
				add(g, f.sides+int32(numSides*g)+side, Memory.String())
			}
		}
	}
	return all
}

// busyByGPU sums the time in which each GPU computed, communicated and copied.
func (s *sim) busyByGPU() [][3]named {
	all := make([][3]named, len(s.gpus))
	for g := range all {
		all[g] = [...]named{{computing, &parts{}, false}, {communicating, &parts{}, false}, {copying, &parts{}, false}}
	}
	until := make([][3]program.Time, len(s.gpus))
	for x := range s.ran() {
		g, what := s.record.LaneOf(x.Lane).Rank, slices.Index(ranKinds[:], x.Kind)
		if at := &until[g][what]; x.End > *at {
			all[g][what].add(max(x.Start, *at), x.End)
			*at = x.End
		}
	}
	return all
}

var ranKinds = [...]trace.Kind{trace.Compute, trace.Collective, trace.Copy}

// ran lists the kernels and copies that took time, by start.
func (s *sim) ran() iter.Seq[*trace.Span] {
	return func(yield func(*trace.Span) bool) {
		for id := range s.record.Len() {
			if x := s.record.Span(trace.SpanID(id)); slices.Contains(ranKinds[:], x.Kind) && x.End > x.Start && !yield(x) {
				return
			}
		}
	}
}

// recordLimits adds a lane with the limits of each GPU, from its first kernel or copy on.
func (s *sim) recordLimits(all []limit) {
	first := s.makespan
	for x := range s.ran() {
		first = x.Start
		break
	}
	for _, l := range all {
		if l.Start = max(l.Start, first); l.Start >= l.End {
			continue
		}
		s.record.Add(trace.Span{
			Start: l.Start, End: l.End, Kind: trace.Marker, Name: s.record.Intern(l.By), Parent: trace.None, Attr: trace.None,
			Lane: s.record.lane(trace.Lane{Kind: trace.Annotation, Rank: int32(l.GPU), Name: "limited by"}),
		})
	}
}

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
		// shares of the whole memory, whatever the arbiter leaves each
		for side, of := range []string{MemoryOfComputation, memoryOfCommunication} {
			id := s.flows.sides + int32(numSides*g+side)
			add(g, of, &s.meter.moved[id], s.flows.capacities[s.flows.resource(g, Memory)])
		}
	}
	return all
}
