package machine

import (
	"math"
	"strings"
	"testing"
)

// Factors apply to what the base measures, by what limits it; the file's own numbers come after.
func TestScale(t *testing.T) {
	base := mustLoad(t, "h200")
	m := mustParse(t, `
base: h200
scale:
  cus: 0.5
  flops: {value: 0.25, source: "data sheets: 250 over 1000"}
  memory: 2
  links: 3
  clock: {value: 1.25, assumed: "clocks"}
gpu: {read: 1 TB/s}
`)
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"cus", m.GPU.CUs.Value, base.GPU.CUs.Value / 2},
		{"flops", m.GPU.Flops.Value, base.GPU.Flops.Value / 4},
		{"matmul.rate", m.Matmul.Rate.Value, base.Matmul.Rate.Value / 4},
		{"tile_start", m.Matmul.TileStart.Value, base.Matmul.TileStart.Value / 1.25},
		{"memory", m.GPU.Memory.Value, 2 * base.GPU.Memory.Value},
		{"read", m.GPU.Read.Value, 1e12},
		{"egress", m.Fabric.Egress.Value, 3 * base.Fabric.Egress.Value},
		{"engines", m.Engines.Rate.Value, 3 * base.Engines.Rate.Value},
		{"send", m.Library.AllGather.Send.Value, 1.25 * base.Library.AllGather.Send.Value},
		{"link", m.Library.AllToAll.Link.Value, 3 * base.Library.AllToAll.Link.Value},
		{"NIC", m.Network.Egress.Value, base.Network.Egress.Value},
		{"latency", m.Fabric.Latency.Value, base.Fabric.Latency.Value},
	} {
		if offBy(c.got, c.want) > 1e-3 {
			t.Errorf("%s: %g, want %g", c.what, c.got, c.want)
		}
	}
	last, was := m.GPU.Stream.Rows[len(m.GPU.Stream.Rows)-1], base.GPU.Stream.Rows[len(base.GPU.Stream.Rows)-1]
	if offBy(last[0], was[0]/2) > 0.02 || offBy(last[1], 2*was[1]) > 1e-3 {
		t.Errorf("stream ends in %v, the base's in %v", last, was)
	}
	for what, table := range map[string]Table{"groups": m.GPU.Groups, "taken": m.Matmul.Taken, "shapes": m.Matmul.Shapes, "times": m.Library.AllReduce.Times} {
		if table.Known() {
			t.Errorf("%s are kept", what)
		}
	}
	if q := m.GPU.Flops; q.Mark != Assumed || !strings.HasPrefix(q.Source, "as h200 times 0.25 (data sheets: 250 over 1000): ") {
		t.Errorf("flops: %v %s", q.Mark, q.Source)
	}
	if base.GPU.Stream.Rows[0][1] != mustLoad(t, "h200").GPU.Stream.Rows[0][1] {
		t.Error("the base was changed")
	}
}

func TestScaleOfFlopsScalesTimes(t *testing.T) {
	base, m := mustLoad(t, "h200"), mustParse(t, "base: h200\nscale: {flops: 2}\n")
	for i, r := range m.Matmul.Shapes.Rows {
		if offBy(r[3], base.Matmul.Shapes.Rows[i][3]/2) > 1e-3 {
			t.Fatalf("%v takes %g s, the base's %g", r[:3], r[3], base.Matmul.Shapes.Rows[i][3])
		}
	}
}

// A property means one thing: scale: and a what-if change the same numbers by the same factors.
// Data sheets state the rate of matrix units, which scale: may give instead.
func TestOnePropertyTable(t *testing.T) {
	quantities := func(m Machine) map[string]float64 {
		all := map[string]float64{}
		for _, e := range Entries(&m) {
			if e.Quantity != nil {
				all[e.Key] = e.Quantity.Value
			}
		}
		return all
	}
	for _, name := range []string{"h200", "mi300x", "a100"} {
		for _, p := range Properties {
			scaled := quantities(mustParse(t, "base: "+name+"\nprofile: x\nscale: {"+p.Name+": 0.5}\n"))
			asked := quantities(WhatIf{{p.Name, 0.5}}.Of(mustLoad(t, name)))
			for key, v := range asked {
				if v > 0 && offBy(scaled[key], v) > 1e-3 {
					t.Errorf("%s: %s: 0.5: %s is %g in a machine file and %g in a what-if", name, p.Name, key, scaled[key], v)
				}
			}
		}
	}
	known := map[string]bool{}
	for _, e := range Entries(&Machine{}) {
		known[anyOp(e.Key)] = true
	}
	for _, p := range factors {
		for key := range strings.FieldsSeq(p.rates + " " + p.times + " " + p.drops) {
			if key, _, _ = strings.Cut(key, "@"); !known[key] {
				t.Errorf("%s: no entry has the key %s", p.Name, key)
			}
		}
	}
	base, m := mustLoad(t, "h200"), mustParse(t, "base: h200\nscale: {clock: 0.5, cus: 0.5, flops: 0.75}\n")
	if got := m.Matmul.Rate.Value / base.Matmul.Rate.Value; offBy(got, 0.75) > 1e-3 {
		t.Errorf("matrix units at %g of the rate, given 0.75", got)
	}
	for name, mhz := range map[string]float64{"a40": 1740, "l40s": 2520, "mi350x": 2200, "mi355x": 2400} {
		if m := mustLoad(t, name); m.GPU.Clock.Value != mhz*1e6 {
			t.Errorf("%s: clock of %v", name, m.GPU.Clock)
		}
	}
}

func TestBrokenScale(t *testing.T) {
	for text, want := range map[string]string{
		"scale: {flops: 2}\n":                           "dir/mine.yaml:1:9: scale.flops: there is no base to scale (add base: NAME)",
		"base: h200\nscale: {flopps: 2}\n":              "dir/mine.yaml:2:9: unknown key scale.flopps (did you mean scale.flops?)",
		"base: h200\nscale: {flops: 0}\n":               "scale.flops is 0",
		"base: h200\nscale: {flops: -1}\n":              `scale.flops: "-1" is negative`,
		"base: h200\nscale: {flops: 2 GB/s}\n":          "has a unit, but this is a ratio",
		"base: h200\nscale: {cus: 1000}\n":              "gpu.cus: 132000 CUs; at most 65536",
		"base: h200\nscale: 2\n":                        "scale is a section, and this is none",
		"base: h200\nscale: {links: {source: \"x\"}}\n": "scale.links has no value",
	} {
		_, err := Parse(strings.NewReader(text), "dir/mine.yaml")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v\nwant %s", text, err, want)
		}
	}
}

// offBy is by what share of the wanted value one differs.
func offBy(got, want float64) float64 { return math.Abs(got/want - 1) }
