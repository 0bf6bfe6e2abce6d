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
		column, power := p.of(e.Key)
		if p.matrix() && power == 0 {
			column, power = flops.of(e.Key)
		}
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
