package machine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

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
		slower("a gathered byte", 1/m.GPU.GatherAt(wgs, false), 1/fast.GPU.GatherAt(wgs, false))
	})
}
