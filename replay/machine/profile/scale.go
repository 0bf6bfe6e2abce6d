package profile

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/replay/machine"
)

// A file with a base may scale what the base measures before its own numbers apply:
//
//	base: h200
//	scale: {memory: {value: 0.833, source: "data sheets: 4.0 over 4.8 TB/s"}, cus: 0.5909}
//
// The factors are flops (matrix units), memory, links (rates of the fabric), clock (what one
// CU does in a time) and cus (their number). Scaled numbers are assumed. What no factor can
// correct is dropped: the groups of CUs and the tiles that the matrix library takes for
// another number of CUs, and recorded collectives for other links.

// factorNames are the keys of scale.
var factorNames = []string{"flops", "memory", "links", "clock", "cus"}

// A scaling is how a factor applies to an entry.
type scaling struct {
	factor string
	column int // of a table
	power  int // 1, or -1 for times; 0 drops the entry where the factor is not 1
}

// scalings lists the factors that apply to an entry.
func scalings(key string) []scaling {
	section, name := sectionOf(key), key[strings.LastIndexByte(key, '.')+1:]
	collective := strings.HasPrefix(section, "library.")
	switch {
	case key == "gpu.flops", key == "matmul.rate", key == "matmul.compiled", key == "matmul.lone":
		return []scaling{{"flops", 0, 1}}
	case key == "matmul.shapes":
		return []scaling{{"cus", 0, 0}, {"flops", 3, -1}}
	case key == "gpu.memory", key == "gpu.read":
		return []scaling{{"memory", 0, 1}}
	case key == "gpu.stream", key == "gpu.gather", key == "gpu.gather_fused":
		return []scaling{{"cus", 0, 1}, {"memory", 1, 1}}
	case key == "gpu.sum":
		return []scaling{{"memory", 1, 1}}
	case key == "gpu.cus":
		return []scaling{{"cus", 0, 1}}
	case key == "gpu.groups", key == "matmul.taken":
		return []scaling{{"cus", 0, 0}}
	case key == "fabric.store_cu", collective && (name == "send" || name == "receive"):
		return []scaling{{"clock", 0, 1}}
	case key == "gpu.post", key == "gpu.poll", key == "matmul.tile_start":
		return []scaling{{"clock", 0, -1}}
	case key == "engines.rate", collective && name == "link", section == "fabric" && slices.Contains([]string{"egress", "ingress", "pair", "store_ring", "store_spread", "store_incast"}, name):
		return []scaling{{"links", 0, 1}}
	case collective && name == "times":
		return []scaling{{"links", 0, 0}}
	}
	return nil
}

// scale applies the factors of the file to its base.
func (p *profile) scale(m *machine.Machine) {
	factors := map[string]machine.Quantity{}
	for _, name := range factorNames {
		key := "scale." + name
		n, ok := p.nodes[key]
		if !ok {
			continue
		}
		p.taken[key] = true
		if p.base == "" {
			p.Fail(p.keys[key], "add base: NAME", "%s: there is no base to scale", key)
			continue
		}
		var q machine.Quantity
		e := Entry{Key: key, Dims: []machine.Dimension{machine.Ratio}, Quantity: &q, needed: true}
		body, source, _ := p.split(e, n)
		if body == nil && source != "" {
			p.Fail(n, "write "+e.form(), "%s has no value", key)
		}
		if q = p.quantity(e, body); q.Value > 0 {
			q.Source = source
			factors[name] = q
		}
	}
	if len(factors) == 0 {
		return
	}
	for _, e := range Entries(m) {
		for _, s := range scalings(e.Key) {
			if f, ok := factors[s.factor]; ok && f.Value != 1 {
				p.apply(e, s, f)
			}
		}
	}
}

// apply scales one entry, or drops it. Unknown entries stay unknown.
func (p *profile) apply(e Entry, s scaling, f machine.Quantity) {
	mark, why := e.mark()
	if mark == machine.Unknown {
		return
	}
	if s.power == 0 {
		*e.Table = machine.Table{Mark: machine.Unknown}
		if e.part == "" {
			e.Table.Source = "of " + p.base + ", with other " + s.factor
		}
		return
	}
	by := math.Pow(f.Value, float64(s.power))
	why = "as " + p.base + " times " + strconv.FormatFloat(machine.RoundTo(by, 4), 'g', -1, 64) + " (" + f.Source + "): " + strings.TrimPrefix(why, "as "+p.base+" ")
	if e.Quantity != nil {
		e.Quantity.Value = scaledBy(e.Quantity.Value, by, machine.ScaleOf(e.Quantity.Unit), e.Dims[0])
		e.Quantity.Source, e.Quantity.Mark = why, machine.Assumed
		return
	}
	rows := make([][]float64, 0, len(e.Table.Rows))
	for _, r := range e.Table.Copy().Rows {
		d := e.Dims[s.column]
		r[s.column] = scaledBy(r[s.column], by, machine.ScaleOf(machine.UsualUnit(d)), d)
		if n := len(rows); n > 0 && slices.Compare(rows[n-1], r) >= 0 {
			continue // counts that became equal
		}
		rows = append(rows, r)
	}
	*e.Table = machine.Table{Rows: rows, Source: why, Mark: machine.Assumed}
}

// scaledBy rounds to four digits in a unit; a count stays a whole number of at least 1.
func scaledBy(v, by, unit float64, d machine.Dimension) float64 {
	if d == machine.Count {
		return max(1, math.Round(v*by))
	}
	return machine.RoundTo(v*by/unit, 4) * unit
}
