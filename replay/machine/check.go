package machine

import (
	"cmp"

	"github.com/goccy/go-yaml/ast"
)

// maxCUs bounds gpu.cus of a profile: the simulator keeps a state for each CU.
const maxCUs = 1 << 16

// checkGroups refuses groups that the GPU cannot have. Invariant of a machine
// that Parse returns: gpu.groups is unknown, or its groups make up gpu.cus and
// the largest one has room for each cluster of the profile, one workgroup a CU.
func (p *profile) checkGroups(m *Machine) {
	g := &m.GPU
	if g.CUs.Value > maxCUs {
		p.Fail(p.first("gpu.cus", "gpu"), "", "gpu.cus: %g CUs; at most %d", g.CUs.Value, maxCUs)
		return
	}
	if !g.Groups.Known() {
		return
	}
	if left := g.Ungrouped(); left != 0 {
		cure := "rows are [CUs of a group, groups of that size]; to leave the groups unknown, write groups: []"
		p.Fail(p.first("gpu.groups", "gpu.cus", "base"), cure, "gpu.groups: groups make up %g CUs, not the %g of gpu.cus",
			g.CUs.Value-left, g.CUs.Value)
		return
	}
	largest := int(g.Groups.Rows[len(g.Groups.Rows)-1][0])
	for i, c := range m.Matmul.Clusters.Rows {
		if p.checkCluster(c[2]*c[3], largest, p.row("matmul.clusters", i),
			"matmul.clusters: tiles of %gx%g in clusters of %gx%g", c[0], c[1], c[2], c[3]) {
			break // the others have the same cure
		}
	}
	if c := m.Library.Cluster; c.Known() {
		p.checkCluster(c.Value, largest, p.nodes["library.cluster"], "library.cluster: clusters of %g channels", c.Value)
	}
}

// checkLimits refuses numbers that only scaling makes absurd.
func (p *profile) checkLimits(m *Machine) {
	for _, e := range Entries(m) {
		var err error
		if e.Quantity != nil {
			err = e.Dims[0].Check(e.Quantity.Value)
		} else {
			for _, row := range e.Table.Rows {
				for i, cell := range row {
					err = cmp.Or(err, e.Dims[i].Check(cell))
				}
			}
		}
		if err != nil {
			p.Fail(p.first(e.Key, "scale", "base"), "scale by less", "%s: %v", e.Key, err)
		}
	}
}

// checkCluster refuses a cluster for which the largest group has no room. n is
// what states the cluster, nil where the base profile does.
func (p *profile) checkCluster(size float64, largest int, n ast.Node, what string, args ...any) (refused bool) {
	if size <= float64(largest) {
		return false
	}
	if n == nil {
		n = p.first("gpu.groups", "gpu.cus", "base")
	}
	cure := "give larger gpu.groups or smaller clusters; to leave the groups unknown, write groups: []"
	p.Fail(n, cure, what+" do not fit: the largest of gpu.groups has %d CUs", append(args, largest)...)
	return true
}

// checkFabric refuses a switch that gives a pair less than a GPU's rate. Who
// raises egress and ingress alone would make stores slower: the bytes of a store
// count relative to the egress, and the pair's rate would stay.
func (p *profile) checkFabric(m *Machine) {
	f := &m.Fabric
	least := min(f.Egress.Value, f.Ingress.Value)
	if f.Topology != Switch || f.Pair.Value >= least {
		return
	}
	cure := "raise fabric.pair too; to ask what faster links would change, use replay --what-if links=2"
	p.Fail(p.first("fabric.pair", "fabric.egress", "fabric.ingress", "fabric"), cure,
		"fabric.pair: %v is less than the %s out of and into a GPU, but through a switch one pair takes all of it",
		f.Pair, formatCell(least, Rate))
}

// checkLibrary refuses a GPU on whose CUs no channel of the collective library fits.
func (p *profile) checkLibrary(m *Machine) {
	g, l := &m.GPU, &m.Library
	for _, c := range []struct {
		key, of   string
		need, has float64
	}{
		{"library.threads", "gpu.threads", l.Threads.Value, g.Threads.Value},
		{"library.registers", "gpu.registers", l.Threads.Value * l.Registers.Value, g.Registers.Value},
		{"library.shared", "gpu.shared", l.Shared.Value + g.SharedSpare.Value, g.Shared.Value},
	} {
		if c.need > c.has {
			p.Fail(p.first(c.key, c.of, "base"), "give less of it, or more of "+c.of,
				"%s: a channel's workgroup needs %g, %s has %g", c.key, c.need, c.of, c.has)
		}
	}
}

// first is the node of the first of the keys that the file has, or nil.
func (p *profile) first(keys ...string) ast.Node {
	for _, key := range keys {
		if n := p.nodes[key]; n != nil {
			return n
		}
		if n := p.sections[key]; n != nil {
			return n
		}
	}
	return nil
}

// row is the node of a table's row, or nil where the file has no such table.
func (p *profile) row(key string, i int) ast.Node {
	n := p.nodes[key]
	for _, v := range Pairs(n) {
		if Key(v) == "rows" {
			n = v.Value
		}
	}
	if list, ok := n.(*ast.SequenceNode); ok && i < len(list.Values) {
		return list.Values[i]
	}
	return nil
}
