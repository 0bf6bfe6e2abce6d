package machine

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// A WhatIf changes properties of a machine to ask what a faster or slower one would do; nil
// changes nothing (rule Z7).
type WhatIf []Factor

// A Factor multiplies one Property.
type Factor struct {
	Name string // of a Property
	By   float64
}

// A Property is what one factor multiplies. It changes nothing else.
type Property struct {
	Name  string
	Doc   string
	Least float64 // smallest factor
	apply func(m *Machine, by float64)
}

// Balanced is the name of a Factor that changes no property: every rank computes as fast as
// the median rank (ByMedian), or as the fastest one (ByFastest).
const (
	Balanced  = "balanced"
	ByMedian  = 1
	ByFastest = 0
)

// mostFactor is the largest factor of a WhatIf.
const mostFactor = 100

// Properties are the properties that a WhatIf can change. Of one factor over 1 (below 1 for
// latency) no law of the machine gets slower.
var Properties = []Property{
	{"links", "rate of the links and peer copies inside a node", 0.01, (*Machine).scaleLinks},
	{"nics", "rate of the network between nodes", 0.01, (*Machine).scaleNICs},
	{"memory", "rate of the GPU's memory", 0.01, (*Machine).scaleMemory},
	{"cus", "number of compute units, and with it the rate of matrix and vector work", 0.01, (*Machine).scaleCUs},
	{"clock", "clock of the compute units: the rate of matrix and vector work", 0.01, (*Machine).scaleClock},
	{"latency", "latencies of device and fabric: starts, gaps, hops, flags; not the host", 0, (*Machine).scaleLatency},
}

// PropertyNames lists the names of the properties.
func PropertyNames() (names []string) {
	for _, p := range Properties {
		names = append(names, p.Name)
	}
	return names
}

// ParseWhatIf reads factors such as "links=2,memory=1.2"; "" changes nothing.
func ParseWhatIf(s string) (x WhatIf, err error) {
	if s == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		i := slices.IndexFunc(Properties, func(p Property) bool { return p.Name == name })
		switch {
		case slices.ContainsFunc(x, func(f Factor) bool { return f.Name == name }):
			return nil, fmt.Errorf("%q: %s is given twice", s, name)
		case name == Balanced && (value == "" || value == "median"):
			x = append(x, Factor{Balanced, ByMedian})
			continue
		case name == Balanced && value == "fastest":
			x = append(x, Factor{Balanced, ByFastest})
			continue
		case name == Balanced:
			return nil, fmt.Errorf("%q: balanced is by median or fastest, not %q", s, value)
		case i < 0:
			return nil, fmt.Errorf("%q: %q is none of %s, %s (example: links=2,memory=1.2)", s, name, strings.Join(PropertyNames(), ", "), Balanced)
		}
		by, err := strconv.ParseFloat(value, 64)
		if least := Properties[i].Least; err != nil || !(by >= least && by <= mostFactor) {
			return nil, fmt.Errorf("%q: %s takes a factor from %g to %d, not %q", s, name, least, mostFactor, value)
		}
		x = append(x, Factor{name, by})
	}
	return x, nil
}

func (x WhatIf) String() string {
	var parts []string
	for _, f := range x {
		switch {
		case f.Name != Balanced:
			parts = append(parts, fmt.Sprintf("%s=%g", f.Name, f.By))
		case f.By == ByFastest:
			parts = append(parts, Balanced+"=fastest")
		default:
			parts = append(parts, Balanced)
		}
	}
	return strings.Join(parts, ",")
}

// Of is the changed machine. Recorded times (matmul.shapes and the library's) change by the
// ratio of the law's times on both machines.
func (x WhatIf) Of(m Machine) Machine {
	if len(x) == 0 {
		return m
	}
	before := m
	m.Name += " with " + x.String()
	for _, f := range x {
		for _, p := range Properties {
			if p.Name == f.Name && f.By != 1 {
				p.apply(&m, f.By)
			}
		}
	}
	m.rescaleShapes(&before)
	m.Library.rescaleTimes(&before.Library)
	return m
}

// multiply scales quantities; a rate of 0 stays "not modelled".
func multiply(by float64, all ...*Quantity) {
	for _, q := range all {
		q.Value *= by
	}
}

// scaleColumn returns a table with one column scaled.
func (t Table) scaleColumn(column int, by float64) Table {
	t = t.Copy()
	for _, r := range t.Rows {
		r[column] *= by
	}
	return t
}

func (l *Library) each() []*Collective {
	return []*Collective{&l.AllReduce, &l.AllGather, &l.ReduceScatter, &l.AllToAll}
}

// scaleLinks leaves what one channel, and one compute unit, sends: its loads in flight limit
// that, not the link.
func (m *Machine) scaleLinks(by float64) {
	f := &m.Fabric
	multiply(by, &f.Egress, &f.Ingress, &f.Pair, &f.StoreRing, &f.StoreSpread, &f.StoreIncast, &m.Engines.Rate)
	for _, c := range m.Library.each() {
		multiply(by, &c.Link)
	}
}

func (m *Machine) scaleNICs(by float64) {
	for _, n := range []*Network{&m.Network, &m.Library.Network} {
		multiply(by, &n.Egress, &n.Ingress, &n.Pair)
	}
}

func (m *Machine) scaleMemory(by float64) {
	g := &m.GPU
	multiply(by, &g.Memory, &g.Read)
	for _, t := range []*Table{&g.Stream, &g.Gather, &g.GatherFused, &g.Sum} {
		*t = t.scaleColumn(1, by)
	}
}

// scaleCUs keeps the rate of one compute unit: all matrix rates grow with their number. The
// rate of n workgroups that stream or gather stays, since the loads that they have in
// flight limit it; where it is not recorded it becomes a curve of one point. Compute units
// that are added form one more group; if some are removed, or groups would not fit, the
// groups are unknown.
func (m *Machine) scaleCUs(by float64) {
	g := &m.GPU
	before := g.CUs.Value
	g.CUs.Value = max(1, math.Round(before*by))
	if g.CUs.Value == before {
		return
	}
	m.scaleWork(g.CUs.Value / before)
	for _, t := range []*Table{&g.Stream, &g.Gather, &g.GatherFused} {
		if !t.Known() && g.Memory.Value > 0 {
			*t = Table{Rows: [][]float64{{before, g.Memory.Value}}, Source: t.Source, Mark: Assumed}
		}
	}
	if g.Groups.Known() {
		more := g.CUs.Value - before
		if more < 0 {
			g.Groups = Table{Mark: Unknown, Source: "another number of compute units"}
			return
		}
		g.Groups = g.Groups.with(more)
	}
}

// with is a table of groups and one more group.
func (t Table) with(size float64) Table {
	t = t.Copy()
	for _, r := range t.Rows {
		if r[0] == size {
			r[1]++
			return t
		}
	}
	t.Rows = append(t.Rows, []float64{size, 1})
	slices.SortFunc(t.Rows, slices.Compare)
	return t
}

// scaleWork scales the matrix rates.
func (m *Machine) scaleWork(by float64) {
	multiply(by, &m.GPU.Flops, &m.Matmul.Rate, &m.Matmul.Compiled, &m.Matmul.Lone)
}

// scaleClock scales a tile's work outside of its main loop, too. Collectives keep their
// times: links limit them.
func (m *Machine) scaleClock(by float64) {
	m.scaleWork(by)
	multiply(1/by, &m.Matmul.TileStart)
	m.GPU.Clock.Value = clockOr(m.GPU.Clock) * by
	m.GPU.Clock.Mark = Assumed
}

// relativeClock stands for the clock of a profile that gives none.
const relativeClock = 1

// VectorRatio is the rate of vector work on another GPU relative to this one: compute units
// times clock. Where the clock of one is unknown only the compute units count.
func (g *GPU) VectorRatio(to *GPU) float64 {
	from, clock := clockOr(g.Clock), clockOr(to.Clock)
	if (from >= slowestClock) != (clock >= slowestClock) {
		from, clock = 1, 1
	}
	return to.CUs.Value / g.CUs.Value * clock / from
}

// slowestClock, in Hz, is between relative clocks and those of GPUs.
const slowestClock = 1e6

func clockOr(q Quantity) float64 {
	if q.Value > 0 {
		return q.Value
	}
	return relativeClock
}

// scaleLatency scales every latency of the device, the fabric, the network and the
// library. The host's times are Launch.Host, Compiled, Call, Profiled..., HostEvent and
// HostCollective.
func (m *Machine) scaleLatency(by float64) {
	f, n, l := &m.Fabric, &m.Network, &m.Launch
	multiply(by, &f.Latency, &f.Hop, &f.Fence, &f.Message, &n.Latency, &n.Hop, &n.Message, &m.Engines.Latency, &m.Engines.Queued, &m.Engines.Command,
		&l.Gap, &l.MemsetGap, &l.Event, &l.Hop, &l.Graph, &l.GraphGap, &l.GraphComm, &l.NetworkCall, &l.Barrier,
		&m.GPU.Post, &m.GPU.Poll, &m.Matmul.Reduce, &m.Library.Network.Latency, &m.Library.Network.Hop, &m.Library.Network.Message)
	for _, c := range m.Library.each() {
		multiply(by, &c.Alpha, &c.Hop, &c.CoRunLatency)
	}
	m.Library.Sooner = 1 - (1-m.Library.Sooner)*by
}

// rescaleShapes scales recorded times of GEMMs by the law's times of the tile that the
// library takes before the change.
func (m *Machine) rescaleShapes(before *Machine) {
	shapes := m.Matmul.Shapes.Copy()
	for _, r := range shapes.Rows {
		M, N, K := int64(r[0]), int64(r[1]), int64(r[2])
		t := before.Tiling(M, N, K)
		from, to := before.LawWithTile(M, N, K, t.Rows, t.Columns, t.Splits), m.LawWithTile(M, N, K, t.Rows, t.Columns, t.Splits)
		if from.Seconds > 0 {
			r[3] *= to.Seconds / from.Seconds
		}
	}
	m.Matmul.Shapes = shapes
}

// rescaleTimes scales recorded times of collectives, so that Ratio stays as it was.
func (l *Library) rescaleTimes(before *Library) {
	ops := []trace.CollectiveOp{trace.AllReduce, trace.AllGather, trace.ReduceScatter, trace.AllToAll}
	from := before.each()
	for i, c := range l.each() {
		times := c.Times.Copy()
		for _, r := range times.Rows {
			r[3] *= c.Law(ops[i], r[0], r[1], r[2]) / from[i].Law(ops[i], r[0], r[1], r[2])
		}
		c.Times = times
	}
}
