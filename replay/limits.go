package replay

import (
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
	if p.width == 0 {
		p.width = 1
	}
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
