package tiles_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/engines/tiles"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// through is two dependent GEMMs with a kernel between them.
func through(t *testing.T, name string) *workload.Workload {
	t.Helper()
	first, second := plantest.Dense{Name: "fc1", N: 4096, K: 1024, Dur: 60_000}, plantest.Dense{Name: "fc2", N: 1024, K: 4096, Dur: 60_000}
	w := plantest.Chain{Ranks: 1, Steps: 4, M: 1024, GEMMs: []plantest.Dense{first, {Name: name, N: 4096, K: 1, Dur: 10_000, Kind: workload.Elementwise}, second}}.Build(t)
	for i := range w.Ops {
		if w.Ops[i].Name == name {
			w.Ops[i].Read, w.Ops[i].Write = 2*1024*4096, 2*1024*4096
		}
	}
	for step := range 4 { // fc1 and fc2 of a step
		p := w.Pairs[2*step]
		p.Second = w.Pairs[2*step+1].Second
		w.Pairs[step] = p
	}
	w.Pairs = w.Pairs[:4]
	return w
}

// An elementwise kernel between two GEMMs is part of them: it is no kernel any more, and what it
// read and the first GEMM wrote for it is moved no more. The rest of the traffic stays.
func TestTilesyncFuses(t *testing.T) {
	w, m := through(t, "vectorized_elementwise_kernel gelu"), plantest.H200(t, 1)
	for _, policy := range []string{"row", "tile"} {
		got := enginetest.Outcome(t, w, m, "tilesync", map[string]string{"policy": policy})
		if got.Result == nil {
			t.Fatalf("%s: %s", policy, got.Why)
		}
		if len(got.Changed.Never) != 1 || !strings.HasPrefix(got.Changed.Never[0], "vectorized_elementwise_kernel gelu as part") {
			t.Errorf("%s: never run %v", policy, got.Changed.Never)
		}
		var all, want float64
		for name, bytes := range enginetest.Memory(got) {
			if all += bytes; strings.Contains(name, "gelu") && bytes > 0 {
				t.Errorf("%s: %s moves %.0f bytes", policy, name, bytes)
			}
		}
		for i := range w.Ops {
			want += w.Ops[i].Read + w.Ops[i].Write
		}
		const saved = 2 * 2 * 1024 * 4096 // of a pair: written, and read again
		if got.Changed.Notes == nil || !strings.HasSuffix(got.Changed.Notes[0], "4 times: 10 us of kernels and 16.0 MiB of memory traffic less each time") {
			t.Errorf("%s: %q", policy, got.Changed.Notes)
		}
		if want -= 4 * saved; !plantest.Near(all, want) {
			t.Errorf("%s: %.0f bytes, want %.0f", policy, all, want)
		}
		if base := enginetest.Outcome(t, w, m, "captured", nil); policy == "row" && got.Time >= base.Time-5_000 {
			t.Errorf("%s: %d ns, captured %d", policy, got.Time, base.Time)
		}
	}
}

// What lies between two GEMMs decides whether and how they are synchronised.
func TestTilesyncBetween(t *testing.T) {
	m := plantest.H200(t, 1)
	for _, c := range []struct{ kernel, settings, why string }{
		{"vectorized_elementwise_kernel", "fuse=off", "fuse=on"},
		{"vectorized_layer_norm_kernel", "policy=row", ""},
		{"vectorized_layer_norm_kernel", "policy=tile", "works on whole rows (policy=row)"},
		{"batch_norm_elementwise_kernel", "policy=row", "whole output"},
		{"transpose_kernel", "policy=row", "whole output"},
		{"vectorized_elementwise_kernel", "policy=streamk", ""},
	} {
		got := enginetest.Outcome(t, through(t, c.kernel), m, "tilesync", enginetest.Settings(c.settings))
		if (got.Result != nil) != (c.why == "") || !strings.Contains(got.Why, c.why) {
			t.Errorf("%s %s: %q", c.kernel, c.settings, got.Why)
		}
	}
}

// On the samples tilesync applies where a GEMM reads what another one wrote, and says why
// where it does not.
func TestTilesyncSamples(t *testing.T) {
	for name, why := range map[string]string{
		"ddp-step": "", "fsdp-step": "", "llama70b-prefill": "", "moe-ep4": "",
		"llama70b-fc2-allreduce": "an all_reduce lies between",
		"moe-down-triton":        "the sizes of gemm_k are not known",
	} {
		w := plantest.LiftSample(t, name)
		got := enginetest.Outcome(t, w, plantest.H200(t, w.World), "tilesync", nil)
		if (got.Result != nil) != (why == "") || !strings.Contains(got.Why, why) {
			t.Errorf("%s: %q", name, got.Why)
		}
	}
}

// Of the captured steps beside the checkout most have dependent GEMMs that tilesync can serve.
func TestTilesyncSteps(t *testing.T) {
	steps, err := filepath.Glob("../../../shared/data/steps/*/traces/*")
	if _, no := os.Stat("../../../shared/data"); no != nil || testing.Short() {
		t.Skip("the folder shared beside the checkout is absent: no captured steps")
	}
	if err != nil || len(steps) < 70 {
		t.Fatal(len(steps), err)
	}
	applies := 0
	for _, path := range steps {
		run, err := format.Open(path, format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := lift.Workload(run, lift.Options{})
		if err != nil {
			t.Fatal(err)
		}
		v, err := tiles.Tilesync.Values(nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = schedule.Planned(tiles.Tilesync, w, plantest.H200(t, 2), v, plan.Scenario{})
		switch {
		case err == nil:
			applies++
		case len(err.Error()) < len("tilesync: does not apply: no GEMM in the trace"):
			t.Errorf("%s: no reason: %v", path, err)
		}
	}
	if applies < 40 {
		t.Errorf("tilesync applies to %d of %d steps", applies, len(steps))
	}
}
