package engines

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// variants are settings that make a strategy move bytes in another way than its defaults do.
const variants = "decompose:variant=ring,decompose:variant=waves,multistream:priority=on,fused:order=oblivious," +
	"onesided:impl=ll,onesided:impl=ll128,onesided:impl=multimem,onesided:impl=store," +
	"trigger:arbitration=mca:queue=5,trigger:algorithm=direct,trigger:nmc=off"

// everywhere calls check with the outcome of every strategy that applies, for
// every sample and for every operation of a library, on each kind of machine:
// switch, mesh, torus and two nodes, of NVIDIA and AMD.
func everywhere(t *testing.T, check func(t *testing.T, w *workload.Workload, out Outcome)) {
	all, err := ParseSelection("all")
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.SplitSeq(variants, ",") {
		if sel, err := ParseSelection(text); err == nil { // else no such setting
			all = append(all, sel...)
		} else {
			t.Errorf("%s: %v", text, err)
		}
	}
	try := func(name string, w *workload.Workload, m machine.Machine) {
		t.Run(name+" on "+m.Name, func(t *testing.T) {
			if testing.Short() && w.World > 8 {
				t.Skip("many ranks")
			}
			outs, err := Compare(w, m, all, replay.Options{Causes: true}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, out := range outs {
				if out.Result != nil {
					check(t, w, out)
				}
			}
		})
	}
	for _, name := range []string{"moe-ep4", "llama70b-fc2-allreduce", "moe-down-triton"} {
		w := liftSample(t, name)
		try(name, w, h200(t, w.World))
	}
	files, err := filepath.Glob("../samples/workloads/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no workload files", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		w, m := sampleOperator(t, name)
		try(name, w, m)
	}
	for _, kind := range []struct {
		profile string
		ranks   int
	}{{"h200", 4}, {"mi300x", 4}, {"torus128", 4}, {"h800", 16}} {
		m, err := machine.Load(kind.profile)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []spec{
			{op: trace.AllReduce, bytes: 32 << 20, comm: 640_000, channels: 24},
			{op: trace.ReduceScatter, bytes: 32 << 20, comm: 170_000, channels: 16},
			{op: trace.AllGather, bytes: 32 << 20, comm: 170_000, channels: 16, reverse: true},
			{op: trace.AllToAll, bytes: 32 << 20, comm: 153_000, channels: 32},
			{op: trace.AllToAll, bytes: 32 << 20, comm: 153_000, channels: 6},
			{op: trace.Broadcast, bytes: 32 << 20, comm: 153_000, channels: 16},
			{op: trace.Reduce, bytes: 32 << 20, comm: 153_000, channels: 16},
		} {
			s.ranks, s.steps, s.gemm = kind.ranks, 2, 304_000
			try(s.op.String(), s.build(t), m.Resize(kind.ranks))
		}
	}
}

// TestWhatIfNothing checks that the zero replay.WhatIf is the identity for every
// sample, strategy and machine.
func TestWhatIfNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, _ *workload.Workload, out Outcome) {
		want, err := replay.Simulate(out.machine, out.program, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, p := replay.WhatIf{}.Of(out.machine, out.program)
		got, err := replay.Simulate(m, p, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want.Run.Spans, got.Run.Spans); d != "" {
			t.Errorf("%s %s: the zero WhatIf changes spans:\n%s", out.Engine.Name, out.Engine.String(out.Values), d)
		}
	})
}
