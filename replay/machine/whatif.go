package machine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A WhatIf changes properties of a machine to ask what a faster or slower one would do; nil
// changes nothing (rule Z7).
type WhatIf []Factor

// A Factor multiplies one Property.
type Factor struct {
	Name string // of a Property
	By   float64
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

// ParseWhatIf reads factors such as "links=2,memory=1.2"; "" changes nothing.
func ParseWhatIf(s string) (x WhatIf, err error) {
	if s == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		i := slices.IndexFunc(Properties, func(p property) bool { return p.Name == name })
		switch {
		case slices.ContainsFunc(x, func(f Factor) bool { return f.Name == name }):
			return nil, fmt.Errorf("%q: %s is given twice", s, name)
		case name == Balanced:
			by, ok := map[string]float64{"": ByMedian, "median": ByMedian, "fastest": ByFastest}[value]
			if !ok {
				return nil, fmt.Errorf("%q: balanced is by median or fastest, not %q", s, value)
			}
			x = append(x, Factor{Balanced, by})
			continue
		case i < 0:
			return nil, fmt.Errorf("%q: %q is none of %s, %s (example: links=2,memory=1.2)", s, name,
				strings.Join(PropertyNames(), ", "), Balanced)
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
		for i := range Properties {
			if p := &Properties[i]; p.Name == f.Name && f.By != 1 {
				p.change(&m, f.By)
			}
		}
	}
	m.Library.Network = m.Network
	rescaleShapes(&m, &before)
	for _, op := range RecordedOps {
		c, was := m.Library.Of(op), before.Library.Of(op)
		c.Times = c.Times.Copy()
		for _, r := range c.Times.Rows { // so that Ratio stays as it was
			r[3] *= c.Law(op, r[0], r[1], r[2]) / was.Law(op, r[0], r[1], r[2])
		}
	}
	return m
}

// change multiplies the property. A rate of 0 stays "not modelled". Of tables it changes rates:
// n workgroups stream or gather as fast as before on more compute units, since the loads that
// they have in flight limit that.
func (p *property) change(m *Machine, by float64) {
	switch p.Name {
	case "cus":
		if by = changeCUs(m, by); by == 1 {
			return
		}
	case "clock":
		m.GPU.Clock.Value, m.GPU.Clock.Mark = cmp.Or(m.GPU.Clock.Value, 1), Assumed // relative where it is unknown
	case "latency":
		m.Library.Sooner = 1 - (1-m.Library.Sooner)*by
	}
	for _, e := range Entries(m) {
		column, power := p.of(e.Key, true)
		f := by
		if power < 0 {
			f = 1 / by
		}
		switch {
		case power == 0 || e.Key == "gpu.cus":
		case e.Quantity != nil:
			e.Quantity.Value *= f
		case column == 1:
			*e.Table = e.Table.Copy()
			for _, r := range e.Table.Rows {
				r[column] *= f
			}
		}
	}
}

// changeCUs sets the number of compute units and returns by how much it changed. The rate of
// workgroups that stream or gather becomes a curve of one point where it is not recorded.
// Compute units that are added form one more group; if some are removed, or groups would not
// fit, the groups are unknown.
func changeCUs(m *Machine, by float64) float64 {
	g := &m.GPU
	before := g.CUs.Value
	g.CUs.Value = max(1, math.Round(before*by))
	more := g.CUs.Value - before
	if more == 0 {
		return 1
	}
	for _, t := range []*Table{&g.Stream, &g.Gather, &g.GatherFused} {
		if !t.Known() && g.Memory.Value > 0 {
			*t = Table{Rows: [][]float64{{before, g.Memory.Value}}, Source: t.Source, Mark: Assumed}
		}
	}
	switch {
	case !g.Groups.Known():
	case more < 0:
		g.Groups = Table{Mark: Unknown, Source: "another number of compute units"}
	default:
		g.Groups = withGroup(g.Groups, more)
	}
	return g.CUs.Value / before
}

// withGroup is a table of groups and one more group.
func withGroup(t Table, size float64) Table {
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

// rescaleShapes scales recorded times of GEMMs by the law's times of the tile that the
// library takes before the change.
func rescaleShapes(m, before *Machine) {
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

// A property is what limits some numbers of a machine. A factor on it multiplies rates and
// divides times: scale: of a machine file describes another GPU in that way, a WhatIf changes
// the machine as it is. Both go by the keys here, where * is any collective of the library and
// @N the column of a table.
type property struct {
	Name  string
	Least float64 // smallest factor of a WhatIf
	rates string  // keys of what is in proportion to it
	times string  // keys of what is in inverse proportion
	drops string  // keys of what scale: cannot correct and drops
}

// Properties are those that a WhatIf can change. Of one factor over 1 (below 1 for latency) no
// law of the machine gets slower. What one channel, and one compute unit, sends is limited by
// its loads in flight and its clock, not by the links.
var Properties = []property{
	{
		Name: "links", Least: 0.01, // rate of the links and peer copies inside a node
		rates: "fabric.egress fabric.ingress fabric.pair fabric.store_ring fabric.store_spread fabric.store_incast " +
			"engines.rate engines.host library.*.link",
		drops: "library.*.times",
	},
	{
		Name: "nics", Least: 0.01, // rate of the network between nodes
		rates: "network.egress network.ingress network.pair",
	},
	{
		Name: "memory", Least: 0.01, // rate of the GPU's memory
		rates: "gpu.memory gpu.read gpu.stream@1 gpu.gather@1 gpu.gather_fused@1 gpu.sum@1 library.*.sum",
	},
	{
		Name: "cus", Least: 0.01, // number of compute units, and with it the rate of matrix and vector work
		rates: "gpu.cus gpu.stream@0 gpu.gather@0 gpu.gather_fused@0",
		drops: "gpu.groups matmul.taken matmul.shapes",
	},
	{
		Name: "clock", Least: 0.01, // clock of the compute units: matrix and vector work, what a channel or a compute unit sends, flags
		rates: "gpu.clock fabric.store_cu library.*.send library.*.receive",
		times: "gpu.post gpu.poll matmul.tile_start",
	},
	{
		Name: "latency", // latencies of device and fabric: starts, gaps, hops, flags; not the host
		rates: "fabric.latency fabric.hop fabric.fence fabric.message network.latency network.hop network.message engines.latency " +
			"engines.queued engines.command launch.gap launch.memset_gap launch.blocked launch.event launch.hop launch.graph launch.graph_gap " +
			"launch.graph_collective launch.network_call launch.barrier gpu.post gpu.poll matmul.reduce library.*.alpha library.*.hop " +
			"library.*.beside_latency",
	},
}

// flops is the rate of all matrix units, which a factor on the compute units or on the clock
// changes too. Data sheets state it: scale: may give it instead.
var flops = property{Name: "flops", rates: "gpu.flops matmul.rate matmul.compiled matmul.lone", times: "matmul.shapes@3"}

// PropertyNames lists the names of the properties.
func PropertyNames() (names []string) {
	for _, p := range Properties {
		names = append(names, p.Name)
	}
	return names
}

// of is how the property applies to an entry: the column of a table, and the power of the
// factor, 0 if it does not. The rate of matrix work, if it is not given, follows some of them.
func (p *property) of(key string, matrix bool) (column, power int) {
	for _, list := range []struct {
		keys  string
		power int
	}{{p.rates, 1}, {p.times, -1}} {
		for k := range strings.FieldsSeq(list.keys) {
			if k, at, _ := strings.Cut(k, "@"); k == anyOp(key) {
				column, _ = strconv.Atoi(at)
				return column, list.power
			}
		}
	}
	if matrix && (p.Name == "cus" || p.Name == "clock") {
		return flops.of(key, false)
	}
	return 0, 0
}

// anyOp is a key with * for the collective.
func anyOp(key string) string {
	if parts := strings.Split(key, "."); len(parts) == 3 {
		return parts[0] + ".*." + parts[2]
	}
	return key
}

// A file with a base may scale what the base measures before its own numbers apply:
//
//	base: h200
//	scale: {memory: {value: 0.833, source: "data sheets: 4.0 over 4.8 TB/s"}, cus: 0.5909}
//
// Scaled numbers are assumed. Dropped are the groups of CUs and the tiles that the matrix
// library takes for another number of CUs, and recorded collectives for other links. A curve
// over workgroups is that of the same shares of the CUs.

// factors lists what scale: may have.
var factors = append(slices.Clone(Properties), flops)

// scale applies the factors of the file to its base.
func (p *profile) scale(m *Machine) {
	given := map[string]Quantity{}
	for _, f := range factors {
		key := "scale." + f.Name
		n, ok := p.nodes[key]
		if !ok {
			continue
		}
		p.taken[key] = true
		if p.base == "" {
			p.Fail(p.keys[key], "add base: NAME", "%s: there is no base to scale", key)
			continue
		}
		var q Quantity
		e := Entry{Key: key, Dims: []Dimension{Ratio}, Quantity: &q, needed: true}
		body, source, _ := p.split(e, n)
		if body == nil && source != "" {
			p.Fail(n, "write "+e.form(), "%s has no value", key)
		}
		if q = p.quantity(e, body); q.Value > 0 {
			q.Source = source
			given[f.Name] = q
		}
	}
	_, total := given[flops.Name]
	for _, e := range Entries(m) {
		for _, f := range slices.Backward(factors) {
			q, ok := given[f.Name]
			if !ok || q.Value == 1 {
				continue
			}
			if slices.Contains(strings.Fields(f.drops), anyOp(e.Key)) {
				p.dropScaled(e, f.Name)
				continue
			}
			if column, power := f.of(e.Key, !total); power != 0 {
				p.apply(e, column, math.Pow(q.Value, float64(power)), q.Source)
			}
		}
	}
}

// dropScaled drops a table that no factor can correct.
func (p *profile) dropScaled(e Entry, property string) {
	if mark, _ := e.mark(); mark == Unknown {
		return
	}
	*e.Table = Table{Mark: Unknown}
	if e.part == "" {
		e.Table.Source = "of " + p.base + ", with other " + property
	}
}

// apply scales one entry. Unknown entries stay unknown.
func (p *profile) apply(e Entry, column int, by float64, source string) {
	mark, why := e.mark()
	if mark == Unknown {
		return
	}
	why = "as " + p.base + " times " + strconv.FormatFloat(RoundTo(by, 4), 'g', -1, 64) + " (" + source + "): " +
		strings.TrimPrefix(why, "as "+p.base+" ")
	if e.Quantity != nil {
		e.Quantity.Value = scaledBy(e.Quantity.Value, by, ScaleOf(e.Quantity.Unit), e.Dims[0])
		e.Quantity.Source, e.Quantity.Mark = why, Assumed
		return
	}
	rows := make([][]float64, 0, len(e.Table.Rows))
	for _, r := range e.Table.Copy().Rows {
		d := e.Dims[column]
		r[column] = scaledBy(r[column], by, ScaleOf(UsualUnit(d)), d)
		if n := len(rows); n > 0 && slices.Compare(rows[n-1], r) >= 0 {
			continue // counts that became equal
		}
		rows = append(rows, r)
	}
	*e.Table = Table{Rows: rows, Source: why, Mark: Assumed}
}

// scaledBy rounds to four digits in a unit; a count stays a whole number of at least 1.
func scaledBy(v, by, unit float64, d Dimension) float64 {
	if d == Count {
		return max(1, math.Round(v*by))
	}
	return RoundTo(v*by/unit, 4) * unit
}
