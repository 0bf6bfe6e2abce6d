package workload

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

const stepTraces = "samples/measurements/2026-11-22-h200x2-steps/traces/h200x2_"

// A step of DLRM is one chain of lookups, captured whole or in parts. Its parts end at the
// all-to-all: the MLPs around it are not part of it.
func TestChains(t *testing.T) {
	for _, c := range []struct {
		path                         string
		chains, parts, before, after int
	}{
		{"samples/measurements/2026-11-20-h200x4/traces/dlrm_train", 2, 1, 33, 0},
		{stepTraces + "dlrm_d256_b32768_chunks1_channels0", 2, 1, 65, 2},
		{stepTraces + "dlrm_d256_b32768_chunks4_channels0", 2, 4, 65, 1},
		{stepTraces + "dlrm_d128_b16384_chunks4_channels0", 2, 4, 27, 1},
		{"samples/measurements/2026-11-20-h200x4/traces/pipe_multistream_llama70b_fc2_tp4_all_reduce", 0, 0, 0, 0}, // a loop
		{stepTraces + "ddp_h4096_bucket_mb25_channels0_priorityFalse_overlapTrue", 0, 0, 0, 0},
		{stepTraces + "moe_ep_h4096_t8192_scheduletwo_batch_overlap_channels0_priorityFalse", 0, 0, 0, 0},
	} {
		t.Run(c.path[strings.LastIndex(c.path, "/")+1:], func(t *testing.T) {
			w := open(t, c.path, Options{})
			chains := Chains(w)
			if len(chains) != c.chains {
				t.Fatalf("%d chains, want %d", len(chains), c.chains)
			}
			for _, x := range chains {
				for r := range w.World {
					if x.Parts() != c.parts || len(x.Before[r]) != c.parts || len(x.Before[r][0]) != c.before || len(x.After[r][0]) != c.after {
						t.Errorf("rank %d: %d parts of %d ops before and %d behind, want %d of %d and %d", r, len(x.Before[r]), len(x.Before[r][0]), len(x.After[r][0]), c.parts, c.before, c.after)
					}
				}
			}
		})
	}
}

// halves cuts everything in proportion.
var halves = Cutter{
	Part: func(captured []*Op, _, n int) Op {
		op := *captured[0]
		op.Alone = op.Dur() * trace.Time(len(captured)) / trace.Time(n)
		kernel := *op.Kernel
		kernel.Shape.M = kernel.Shape.M * int64(len(captured)) / int64(n)
		op.Kernel = &kernel
		return op
	},
	Collective: func(captured []*Collective, n int) Collective {
		c := *captured[0]
		parts, of := int64(len(captured)), int64(n)
		c.Bytes, c.In, c.Out = c.Bytes*parts/of, c.In*parts/of, c.Out*parts/of
		c.Alone = c.Transfer() * trace.Time(len(captured)) / trace.Time(n)
		return c
	},
	Disturbs: func(*Op) bool { return true },
	Gap:      1000,
	Event:    2000,
}

// A workload in other parts is a workload: ops in order, dependencies that hold, every
// operation once or, in a chain, once a part. Cut back, it takes as long as before.
func TestRecut(t *testing.T) {
	w := open(t, "samples/measurements/2026-11-20-h200x4/traces/dlrm_train", Options{})
	chains := Chains(w)
	cut := Recut(w, chains, 4, halves)
	checkInvariants(t, cut)
	if got, want := len(cut.Collectives), len(w.Collectives)+3*len(chains); got != want {
		t.Errorf("%d collectives, want %d", got, want)
	}
	for i := range cut.Ops {
		if op, from := &cut.Ops[i], &w.Ops[cut.Origin(int32(i))]; op.Name != from.Name || op.Rank != from.Rank || op.Step != from.Step {
			t.Fatalf("op %d is %s of rank %d, from %s of rank %d", i, op.Name, op.Rank, from.Name, from.Rank)
		}
	}
	again := Chains(cut)
	if len(again) != len(chains) || again[0].Parts() != 4 {
		t.Fatalf("%d chains, the first in %d parts; want %d in 4", len(again), again[0].Parts(), len(chains))
	}
	whole := Recut(cut, again, 1, halves)
	checkInvariants(t, whole)
	if len(whole.Ops) != len(w.Ops) || len(whole.Collectives) != len(w.Collectives) {
		t.Fatalf("%d ops and %d collectives, want %d and %d", len(whole.Ops), len(whole.Collectives), len(w.Ops), len(w.Collectives))
	}
	for i := range w.Steps {
		for r := range w.World {
			was, is := w.Steps[i].End[r]-w.Steps[i].Start[r], whole.Steps[i].End[r]-whole.Steps[i].Start[r]
			if d := float64(is) / float64(was); d < 0.97 || d > 1.03 {
				t.Errorf("step %d on rank %d takes %d ns, was %d", i, r, is, was)
			}
		}
	}
}

// Vectorized elementwise kernels cover threads times vector elements a workgroup: 256
// workgroups of 128 threads of 8 bf16 behind an all-reduce of 32 x 8192.
func TestSizeBehind(t *testing.T) {
	for path, want := range map[string]int64{"decode_tp_b1_allreducenccl_graphTrue": 16 << 10, "decode_tp_b32_allreducenccl_graphTrue": 512 << 10} {
		w := open(t, stepTraces+path, Options{})
		for i := range w.Collectives {
			if got := SizeBehind(w, &w.Collectives[i]); got != want {
				t.Errorf("%s: all-reduce %d of %d bytes, want %d", path, i, got, want)
			}
		}
		if n := len(w.Collectives); n != 32 {
			t.Errorf("%s: %d collectives", path, n)
		}
	}
}

// A step with async tensor parallelism has pipelined all-gathers and reduce-scatters in
// turn; whole, it has as many collectives of the library as the same model compiled
// without, GEMMs over all rows and no barriers.
func TestUnpipelined(t *testing.T) {
	w := open(t, stepTraces+"tp_sp_s4096_modeasync_tp", Options{})
	compiled := open(t, stepTraces+"tp_sp_s4096_modecompiled", Options{})
	pipelines := Pipelines(w)
	if n := len(Pipelines(compiled)); n != 0 {
		t.Errorf("%d in the compiled step, want none", n)
	}
	if got, want := len(pipelines), len(compiled.Collectives); got != want {
		t.Fatalf("%d pipelined collectives, want %d", got, want)
	}
	for i := range pipelines {
		if c := &compiled.Collectives[i]; pipelines[i].Op != c.Op || pipelines[i].Bytes != c.Bytes {
			t.Errorf("%d: %s of %d bytes, want %s of %d", i, pipelines[i].Op, pipelines[i].Bytes, c.Op, c.Bytes)
		}
	}
	cut := halves
	cut.Alone = func(*Collective) trace.Time { return 160_000 }
	whole := Unpipelined(w, pipelines, cut)
	checkInvariants(t, whole)
	gemms := func(w *Workload) (rows int64) {
		for i := range w.Ops {
			if w.Ops[i].Shape.Kind == GEMM {
				rows += w.Ops[i].Shape.M
			}
		}
		return rows
	}
	if got, want := gemms(whole), gemms(compiled); got != want || len(whole.Collectives) != len(compiled.Collectives) {
		t.Errorf("GEMMs of %d rows and %d collectives, want %d and %d", got, len(whole.Collectives), want, len(compiled.Collectives))
	}
}
