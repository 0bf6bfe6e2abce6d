package machine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// Two nodes of four GPUs, two NICs each: a NIC serves two neighbours.
func TestNodesAndNICs(t *testing.T) {
	m := machine.Machine{GPUs: 7, Network: machine.Network{Node: machine.Quantity{Value: 4}, NICs: machine.Quantity{Value: 2}}}
	if m.Nodes() != 2 || m.PerNode() != 4 {
		t.Errorf("%d nodes of %d", m.Nodes(), m.PerNode())
	}
	for rank, want := range [][2]int{{0, 0}, {0, 0}, {0, 1}, {0, 1}, {1, 2}, {1, 2}, {1, 3}} {
		if node, nic := m.Node(rank), m.NIC(rank); node != want[0] || nic != want[1] {
			t.Errorf("rank %d: node %d, NIC %d, want %v", rank, node, nic, want)
		}
	}
	one := machinetest.Load(t, "h200:4")
	if one.Nodes() != 1 || one.Node(3) != 0 {
		t.Errorf("h200:4: %d nodes, rank 3 in node %d", one.Nodes(), one.Node(3))
	}
}

// A profile has all keys of its network, or none.
func TestNetworkIsWholeOrAbsent(t *testing.T) {
	good := machine.ReadFile(t, "profiles/mi210ib.yaml")
	at := strings.Index(good, "network:")
	end := strings.Index(good, "engines:")
	m, err := machine.Parse(strings.NewReader(good[:at]+good[end:]), "x.yaml")
	if err != nil || m.Nodes() != 1 {
		t.Errorf("without a network: %d nodes, %v", m.Nodes(), err)
	}
	_, err = machine.Parse(strings.NewReader(strings.Replace(good, "  nics:", "  cards:", 1)), "x.yaml")
	if err == nil || !strings.Contains(err.Error(), "network.nics is missing (add network.nics: {value: NUMBER, source: TEXT}, or base: NAME of a profile that has what is left out)") {
		t.Errorf("without network.nics: %v", err)
	}
	for _, a := range machine.Assumptions(m) {
		if strings.HasPrefix(a.Key, "network.") || a.Key == "fabric.hop" {
			t.Errorf("%s is left out and listed as %s", a.Key, a.Value)
		}
	}
}

// A factor of 1 changes nothing, and no factor changes the machine that it is applied to.
func TestWhatIfKeepsTheMachine(t *testing.T) {
	for _, name := range machine.Names() {
		m := must.Have(machine.Load(name))(t)
		again := must.Have(machine.Load(name))(t)
		for _, p := range machine.Properties {
			one := machine.WhatIf{{Name: p.Name, By: 1}}.Of(m)
			if a, b := m.Tiling(4096, 4096, 4096).Seconds, one.Tiling(4096, 4096, 4096).Seconds; a != b {
				t.Errorf("%s: %s=1: a GEMM takes %g, was %g", name, p.Name, b, a)
			}
			machine.WhatIf{{Name: p.Name, By: 2}}.Of(m)
		}
		if d := cmp.Diff(machine.Assumptions(again), machine.Assumptions(m)); d != "" || !cmp.Equal(again.GPU.Stream, m.GPU.Stream) || !cmp.Equal(again.Library.AllReduce.Times, m.Library.AllReduce.Times) || !cmp.Equal(again.Matmul.Shapes, m.Matmul.Shapes) {
			t.Errorf("%s changed: %s", name, d)
		}
	}
}

// Every law of a faster machine gives at most the time of the machine as it is: GEMMs in
// one tile, collectives of all sizes, streaming and gathering workgroups (rule Z7).
func TestFasterLaws(t *testing.T) {
	names := machine.Names()
	rapidtest.Check(t, func(t *rapid.T) {
		m := must.Have(machine.Load(rapid.SampledFrom(names).Draw(t, "machine")))(t)
		p := rapid.SampledFrom(machine.Properties).Draw(t, "property")
		by := rapid.Float64Range(1, 20).Draw(t, "factor")
		if p.Name == "latency" {
			by = rapid.Float64Range(0, 1).Draw(t, "factor of latency")
		}
		fast := machine.WhatIf{{Name: p.Name, By: by}}.Of(m)
		slower := func(what string, was, is float64) {
			if is > was*(1+1e-9) {
				t.Errorf("%s with %s=%g: %s takes %g s, was %g", m.Name, p.Name, by, what, is, was)
			}
		}
		size := rapid.Int64Range(1, 1<<15)
		M, N, K := size.Draw(t, "M"), size.Draw(t, "N"), size.Draw(t, "K")
		tile := m.Tiling(M, N, K)
		slower("a GEMM", m.WithSplits(M, N, K, tile).Seconds, fast.WithSplits(M, N, K, tile).Seconds)
		op := rapid.SampledFrom([]trace.CollectiveOp{trace.AllReduce, trace.AllGather, trace.ReduceScatter, trace.AllToAll}).Draw(t, "operation")
		bytes, ranks := rapid.Int64Range(1, 1<<32).Draw(t, "bytes"), rapid.SampledFrom([]int{2, 4, 8, 16, 64}).Draw(t, "ranks")
		channels := rapid.IntRange(0, 32).Draw(t, "channels")
		slower("a collective", m.Library.Time(op, bytes, ranks, channels), fast.Library.Time(op, bytes, ranks, channels))
		wgs := rapid.IntRange(1, 1<<16).Draw(t, "workgroups")
		slower("a streamed byte", 1/m.GPU.StreamAt(wgs), 1/fast.GPU.StreamAt(wgs))
		slower("a gathered byte", 1/m.GPU.LookupAt(wgs, 0, false), 1/fast.GPU.LookupAt(wgs, 0, false))
	})
}

// A profile is found by the name of its own GPU; several machines have an MI210.
func TestForDevice(t *testing.T) {
	for _, name := range machine.Names() {
		m := machinetest.Load(t, name)
		if got := machine.ForDevice(trace.Device{Name: m.GPU.Name}); got != name && name != "mi210ib" && name != "torus128" && name != "t3" {
			t.Errorf("%s: its %s is taken for %q", name, m.GPU.Name, got)
		}
		if cus := int(m.GPU.CUs.Value); name != "t3" && !slices.Contains([]string{"mi210ib", "torus128"}, name) && !slices.Contains(machine.Alike(trace.Device{CUs: cus}), name) {
			t.Errorf("%s with %d CUs is not among the devices with properties", name, cus)
		}
	}
}
