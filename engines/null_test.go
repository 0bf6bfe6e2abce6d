package engines_test

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// nothing is the change below which a schedule is the captured one.
const nothing = 0.003

// A change that changes nothing takes the captured time, under the profiler and without it: a
// strategy that is limited to pairs that it cannot serve, one chunk, bulk where nothing overlaps,
// buckets, a prefetch and channels that the capture has.
func TestNothingToChange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sample, same string // same: settings that the capture has
	}{
		{"ddp-step", ""},
		{"fsdp-step", "multistream,multistream:prefetch=1"},
		{"llama70b-prefill", "bulk,multistream"},
		{"llama70b-fc2-allreduce", "bulk"},
		{"moe-ep4", "bulk"},
		{"moe-down-triton", "bulk"},
	} {
		nothingChanges(t, c.sample, c.same, plantest.LiftSample(t, c.sample), false, true)
	}
}

// The same of captures of programs that others wrote.
func TestNothingToChangeInCaptures(t *testing.T) {
	const captures = "../../shared/data/real/h200x2/traces/h200x2_"
	if _, err := os.Stat(filepath.Dir(captures)); err != nil || !longtest.Asked() {
		t.Skip("needs the captures of shared/data")
	}
	for _, c := range [][2]string{
		{"ddp_hf_llama_bucket_mb100_overlapTrue", "multistream,multistream:bucket_mb=100"},
		{"ddp_tv_resnet50_bucket_mb100_overlapTrue", "multistream,multistream:bucket_mb=100"},
		{"fsdp2_hf_qwen3_reshardTrue_channels0", "multistream,multistream:prefetch=1"},
		{"pipe_torch_schedule1f1b_microbatches4", "multistream:schedule=1f1b:microbatches=4"},
		{"pipe_torch_schedule1f1b_microbatches8", "multistream,multistream:schedule=1f1b:microbatches=8"},
		{"pipe_torch_schedule1f1b_microbatches16", "multistream:schedule=1f1b:microbatches=16"},
		{"pipe_torch_schedulegpipe_microbatches8", "multistream:schedule=gpipe:microbatches=8"},
		{"pipe_torch_scheduleinterleaved_microbatches8", "multistream:schedule=interleaved:microbatches=8"},
		{"pipe_torch_schedulezb_microbatches8", "multistream:schedule=zb:microbatches=8"},
	} {
		run, err := format.Open(captures+c[0], format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := lift.Workload(run, lift.Options{})
		if err != nil {
			t.Fatal(err)
		}
		nothingChanges(t, c[0], c[1], w, true)
		if strings.HasPrefix(c[0], "pipe") {
			bubblesAreWaits(t, c[0], w)
		}
	}
}

// bubblesAreWaits checks that a pipeline's bubbles count as waiting for other ranks: its messages, which
// take 50 us each, as hidden behind compute or as 1 % of the time.
func bubblesAreWaits(t *testing.T, name string, w *workload.Workload) {
	t.Helper()
	w.Unprofiled = true
	outs, err := compare.Compare(w, plantest.H200(t, w.World), enginetest.MustParse(t, "captured"), plan.Scenario{}, replay.Options{Like: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if x := explain.TimesOf(w, outs[0]); x.Transfer > outs[0].Time/50 || x.Waiting < outs[0].Time/20 {
		t.Errorf("%s: of %v ns %v are transfers and %v waits", name, outs[0].Time, x.Transfer, x.Waiting)
	}
}

func nothingChanges(t *testing.T, name, same string, w *workload.Workload, unprofiled ...bool) {
	t.Helper()
	m := plantest.H200(t, w.World)
	settings := "captured,decompose:chunks=1"
	if same != "" {
		settings += "," + same
	}
	all := enginetest.MustParse(t, settings)
	var kernels []int // pairs without a collective
	for i := range w.Pairs {
		if w.Pairs[i].Collective < 0 {
			kernels = append(kernels, i)
		}
	}
	onKernels := "bulk,multistream,decompose,fused,onesided,trigger"
	if strings.Contains(same, "schedule") {
		onKernels = "bulk,multistream" // the others are tried on the captures that are no pipelines
	}
	for _, s := range enginetest.MustParse(t, onKernels) {
		s.Strategy = compare.On(s.Strategy, kernels)
		s.Strategy.Name += " on pairs of kernels"
		all = append(all, s)
	}
	for _, w.Unprofiled = range unprofiled {
		outs, err := compare.Compare(w, m, all, plan.Scenario{}, replay.Options{Like: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range outs {
			if change := out.ChangeFrom(outs[0].Expected); out.Why == "" && math.Abs(change) > nothing {
				t.Errorf("%s, unprofiled %v: %s takes %+.2f %%", name, w.Unprofiled, out, 100*change)
			}
		}
	}
	most := 0 // collectives of fewer bytes have fewer channels, and no setting changes that
	for _, c := range w.Collectives {
		most = max(most, c.Channels)
	}
	outs, err := compare.Compare(w, m, enginetest.MustParse(t, "bulk,bulk:channels="+strconv.Itoa(most)), plan.Scenario{}, replay.Options{Like: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if change := outs[1].ChangeFrom(outs[0].Expected); outs[1].Why == "" && math.Abs(change) > nothing {
		t.Errorf("%s: %s takes %+.2f %% of %s", name, outs[1], 100*change, outs[0])
	}
}
