package plan_test

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Two captures of one program, 48 GEMMs beside six all-gathers of eight MI300X (public,
// Z-Y00/ROCM-sdma-rccl-test): gathers on compute units, and by copy engines. Each predicts
// the change to the other.
func TestCarriersAgainstHardware(t *testing.T) {
	const folder = "../../../shared/data/traces/ROCM-sdma-rccl-test/ag_gemm_llama70b_ffn_down_"
	units, copied := folder+"cu_rank0.json", folder+"sdma_rank0.json"
	if _, err := os.Stat(units); err != nil {
		t.Skip("no traces of MI300X alongside the checkout")
	}
	lift := func(path string) *workload.Workload {
		run := must.Have(format.Open(path, format.Options{}))(t)
		return must.Have(lift.Workload(run, lift.Options{}))(t)
	}
	m := must.Have(machine.Load("mi300x"))(t)
	byUnits, byEngines := lift(units), lift(copied)
	measured := float64(plan.MeasuredSteps(byEngines).Time()) / float64(plan.MeasuredSteps(byUnits).Time())
	for _, c := range []struct {
		w       *workload.Workload
		carrier string
		want    float64
	}{
		{byUnits, plan.ByEngines, measured},
		{byEngines, "cu", 1 / measured},
	} {
		w := must.Have(engines.Isolate(c.w, m, nil))(t)
		e := enginetest.EngineNamed(t, "multistream")
		v := must.Have(e.Values(map[string]string{"carrier": c.carrier}))(t)
		out := must.Have(engines.Run(w, m, plan.Selection{Strategy: e, Values: v}, plan.Scenario{}, replay.Options{}))(t)
		got := float64(out.Time) / float64(plan.MeasuredSteps(c.w).Time())
		t.Logf("to %s: %+.2f %%, measured %+.2f %%", c.carrier, 100*(got-1), 100*(c.want-1))
		if math.Abs(got-c.want) > 0.02 {
			t.Errorf("to %s: %+.2f %%, measured %+.2f %%", c.carrier, 100*(got-1), 100*(c.want-1))
		}
	}
}

// Symmetric windows change nothing of collectives that NCCL's symmetric kernels moved in the capture.
func TestSymmetricAsCaptured(t *testing.T) {
	for _, prefix := range []string{"", "ncclSymkDevKernel_"} {
		w := plantest.LiftSample(t, "measurements/2026-11-30-h200x2-symmetric/traces/fsdp_t2048_base")
		for i := range w.Ops {
			if w.Ops[i].Collective >= 0 {
				k := *w.Ops[i].Kernel // ranks may share it
				k.Name = prefix + strings.TrimPrefix(k.Name, prefix)
				w.Ops[i].Kernel = &k
			}
		}
		sel := enginetest.MustParse(t, "captured,multistream:carrier=symmetric,multistream:sums=symmetric")
		outs := must.Have(engines.Compare(w, plantest.H200(t, 2), sel, plan.Scenario{}, replay.Options{}, nil))(t)
		for _, out := range outs[1:] {
			if change := out.ChangeFrom(outs[0].Expected); out.Why != "" || (change == 0) != (prefix != "") {
				t.Errorf("%s of %q: %+.2f %% %s", out.Selection, prefix, 100*change, out.Why)
			}
		}
	}
}

// The library starts its channels in fours where four divides them.
func TestClustersOfChannels(t *testing.T) {
	m := plantest.H200(t, 4)
	for channels, want := range map[int]int{1: 0, 2: 0, 4: 4, 6: 0, 8: 4, 24: 4, 32: 4} {
		if got := m.Library.Clusters(channels); got != want {
			t.Errorf("%d channels: clusters of %d, want %d", channels, got, want)
		}
	}
	if v100 := machinetest.Load(t, "v100"); v100.Library.Clusters(8) != 0 {
		t.Error("no clusters before compute capability 9.0")
	}
}
