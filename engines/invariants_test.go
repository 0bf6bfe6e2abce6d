package engines_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Of every trace at hand, the samples and the public traces that lie beside the checkout: no
// strategy ends in a deadlock, bulk takes no longer than all operations of a rank and its
// pauses one after another, and where nothing overlaps in the capture, bulk takes the
// captured time.
func TestEveryTrace(t *testing.T) {
	graph := "measurements/2026-11-22-h200x2-steps/traces/h200x2_decode_tp_b32_allreducenccl_graphTrue"
	for _, name := range append([]string{"ddp-step", "fsdp-step", graph}, serialCaptures...) {
		holds(t, name, "h200", plantest.LiftSample(t, name))
	}
	if !longtest.Asked() {
		return
	}
	for _, c := range []struct{ path, machine string }{
		{"training2026/dlrm_kineto", "v100"},
		{"training2026/trace_diff_test.json.gz", "v100"},
		{"formats2026/mfu_2gpu_before.sqlite", "h100"},
		{"formats2026/rocpd41", "mi300x"},
		{"serving/h200_sglang_decode", "h200"},
		{"astra-sim-mytest/megatron-tp8", "a100"},
		{"HTA/negative_queue_length_values_check/rank0.json.gz", "a100"},
		{"HTA/nccl_parser_config/nccl_data.json.gz", "a100"},
		{"HPCTrainingExamples-TraceLens/merged_all_events.json.gz", "mi300x"},
	} {
		path := filepath.Join("../../shared/data/traces", c.path)
		if _, err := os.Stat(path); err != nil {
			t.Skip("the public traces do not lie beside the checkout")
		}
		run := must.Have(format.Open(path, format.Options{}))(t)
		w := must.Have(lift.Workload(run, lift.Options{}))(t)
		holds(t, c.path, c.machine, w)
	}
}

func holds(t *testing.T, name, gpu string, w *workload.Workload) {
	t.Helper()
	m := must.Have(machine.Load(gpu))(t)
	m = m.Resize(w.World)
	lift.GuessSizes(w, &m)
	outs, err := engines.Compare(w, m, enginetest.MustParse(t, "captured,bulk,multistream,decompose"), plan.Scenario{}, replay.Options{}, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, out := range outs {
		if dead := (*replay.DeadlockError)(nil); errors.As(out.Err, &dead) {
			t.Errorf("%s: %s: %v", name, out, out.Err)
		}
	}
	captured, bulk := outs[0], outs[1]
	if captured.Result == nil || bulk.Result == nil {
		return
	}
	most, overlaps := oneAfterAnother(w)
	first, last := trace.Infinity, trace.Time(0)
	for _, s := range bulk.Result.Run.Spans {
		if s.Kind.OnDevice() {
			first, last = min(first, s.Start), max(last, s.End)
		}
	}
	off := most / 50
	if slices.ContainsFunc(w.Collectives, func(c workload.Collective) bool { return c.Guessed }) {
		off = most / 20 // the library's law at a guessed size is not the measured time
	}
	if took := last - first; took > most+off {
		t.Errorf("%s: bulk takes %d ns, all operations and pauses of a rank one after another %d", name, took, most)
	}
	if off := engines.Abs(bulk.Time - captured.Time); !overlaps && off*100 > captured.Time {
		t.Errorf("%s: nothing overlaps, captured %d ns, bulk %d", name, captured.Time, bulk.Time)
	}
}

// oneAfterAnother is the sum of a rank's operations and pauses, the largest of all ranks,
// and whether more than one in a thousand of that time overlapped in the capture.
func oneAfterAnother(w *workload.Workload) (most trace.Time, overlaps bool) {
	first := trace.Infinity
	for i := range w.Ops {
		first = min(first, w.Ops[i].Start)
	}
	for _, ids := range w.Ranks {
		sum, end := trace.Time(0), first
		for _, id := range ids {
			op := &w.Ops[id]
			sum += op.Dur() + max(0, op.Start-end)
			end = max(end, op.End)
		}
		most = max(most, sum)
		overlaps = overlaps || len(ids) > 0 && (sum-(end-first))*1000 > sum
	}
	return most, overlaps
}
