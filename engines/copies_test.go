package engines_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Weights that are copied on the stream of compute, each before its GEMM, take as long a layer ahead as they were measured to, and
// no less than the copies or the kernels alone (rule W28). Where every layer is an iteration of its own nothing moves, and the
// time is the captured one. Copies that have a stream of their own are left there.
func TestCopiesAhead(t *testing.T) {
	for rows, measured := range map[int]float64{1024: 19568.2, 8192: 20872.1, 16384: 28944.5} { // samples/measurements, µs
		w := plantest.LiftSample(t, fmt.Sprintf("measurements/2026-11-30-h200-copies/traces/serial_%d", rows))
		w.Unprofiled = true
		out, _ := run(t, w)
		if err := float64(out.Expected)/1e3/measured - 1; math.Abs(err) > 0.05 {
			t.Errorf("%d rows: %+.1f %% off", rows, 100*err)
		}
		var alone [2]trace.Time // compute, copies
		for i := range w.Ops {
			if w.Ops[i].Kind == trace.Copy {
				alone[1] += w.Ops[i].Dur()
			} else {
				alone[0] += w.Ops[i].DurAlone()
			}
		}
		if least := max(alone[0], alone[1]) / 3; out.Expected < least*99/100 {
			t.Errorf("%d rows: %v, less than copies or kernels alone, %v", rows, out.Expected, least)
		}
		moved := edit.Ahead(w, false)
		if moved == w || edit.Ahead(moved, false) != moved {
			t.Errorf("%d rows: copies with a stream of their own move again", rows)
		}

		w.Steps = nil
		for i := range w.Ops {
			if c := w.Run.Copy(w.Run.Spans[w.Ops[i].Span]); c != nil && c.Dir == trace.HostToDevice {
				w.Steps = append(w.Steps, workload.Step{Name: fmt.Sprint("layer#", len(w.Steps))})
			}
			w.Ops[i].Step = int32(max(0, len(w.Steps)-1))
		}
		w.TimeSteps()
		if _, change := run(t, w); math.Abs(change) > nothing {
			t.Errorf("%d rows: with nothing to move %+.2f %%", rows, 100*change)
		}
	}
	if w := plantest.LiftSample(t, "fsdp-step"); edit.Ahead(w, false) != w {
		t.Error("copies move by layers beside collectives")
	}
}

// The batch of a step that reduces gradients is copied during the step before: the steps take less by at most the copies, and the
// collectives are the same. Without copies in front of steps the workload is itself (rule W28).
func TestBatchesBesideCollectives(t *testing.T) {
	w, m := plantest.LiftSample(t, "ddp-step"), plantest.H200(t, 2)
	if edit.Ahead(w, true) != w {
		t.Error("steps without copies change")
	}
	var copied trace.Time // by each rank
	for rank, ids := range w.Ranks {
		began := map[int32]int{}
		for i, id := range ids {
			op := &w.Ops[id]
			if began[op.Step]++; began[op.Step] > 4 { // two kernels, a fill and the first GEMM
				continue
			}
			s := &w.Run.Spans[op.Span]
			op.Kind, s.Kind, s.Attr = trace.Copy, trace.Copy, int32(len(w.Run.Copies))
			w.Run.Copies = append(w.Run.Copies, trace.CopyAttr{Dir: trace.HostToDevice, Bytes: 1 << 20})
			copied += op.Dur() / trace.Time(len(w.Ranks))
			w.Hosts[rank].Issues[i].Work = 0 // the host makes nothing that it copies
		}
	}
	moved := edit.Ahead(w, true)
	if moved == w || len(moved.Collectives) != len(w.Collectives) {
		t.Fatalf("%d collectives, want %d behind copies that move", len(moved.Collectives), len(w.Collectives))
	}
	for i := range w.Collectives {
		was, now := &w.Collectives[i], &moved.Collectives[i]
		if was.Op != now.Op || was.Bytes != now.Bytes || len(was.Members) != len(now.Members) || now.Transfer() < was.Transfer()*99/100 {
			t.Errorf("collective %d: %v of %d bytes in %d, want %v of %d in %d", i, now.Op, now.Bytes, now.Transfer(), was.Op, was.Bytes, was.Transfer())
		}
	}
	outs := must.Have(engines.Compare(w, m, enginetest.MustParse(t, "captured,multistream:copies=batch"), plan.Scenario{}, replay.Options{}, nil))(t)
	if less := float64(outs[0].Expected-outs[1].Expected) / float64(copied/2); outs[1].Why != "" || less > 1.01 || less < 0.5 {
		t.Errorf("less by %.2f of the copies, want 0.5 to 1; %s", less, outs[1].Why)
	}
}

// A copy in front of which the host works longer than the copy takes, as to make what it copies, is issued where it was.
func TestCopiesOfALateHost(t *testing.T) {
	w := plantest.LiftSample(t, "measurements/2026-11-30-h200-copies/traces/serial_1024")
	order := func(of *workload.Workload) (ids []int32) {
		for _, id := range of.IssueOrder(0) {
			ids = append(ids, of.Origin(id))
		}
		return ids
	}
	if slices.Equal(order(edit.Ahead(w, false)), order(w)) {
		t.Error("copies of a host that is early do not move")
	}
	for i, id := range w.Ranks[0] {
		if op := &w.Ops[id]; op.Kind == trace.Copy {
			w.Hosts[0].Issues[i].Work = 2 * op.Dur()
		}
	}
	if got, want := order(edit.Ahead(w, false)), order(w); !slices.Equal(got, want) {
		t.Errorf("issued in the order %v, want %v", got, want)
	}
}

// A host that waits for a copy to the host, and then works, waits for it in every iteration, however much earlier copies that come
// ahead let iterations end: none takes less than the pause and what is left of the device's work.
func TestWaitsOfAHostWhoseCopiesMove(t *testing.T) {
	const pause, copied, computed = 10_000.0, 1000.0, 500.0 // µs
	type event map[string]any
	var all []event
	at, correlation := 1000.0, 0
	call := func(name string, ts, dur float64, args map[string]any) {
		all = append(all, event{"ph": "X", "cat": "cuda_runtime", "name": name, "ts": ts, "dur": dur, "pid": 9, "tid": 1, "args": args})
	}
	var issued float64 // when the host is free
	put := func(cat, name, issue string, dur, bytes float64) {
		correlation++
		call(issue, issued, 2, map[string]any{"correlation": correlation})
		issued, at = issued+3, max(at, issued+6)
		args := map[string]any{"correlation": correlation, "stream": 7, "device": 0}
		if bytes > 0 {
			args["bytes"] = bytes
		}
		all = append(all, event{"ph": "X", "cat": cat, "name": name, "ts": at, "dur": dur, "pid": 0, "tid": 7, "args": args})
		at += dur
	}
	for i := range 12 {
		from := issued
		for range 3 {
			put("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", "cudaMemcpyAsync", copied, 52e6)
			put("kernel", "ampere_bf16_s16816gemm", "cudaLaunchKernel", computed, 0)
		}
		put("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", "cudaMemcpyAsync", copied, 52e6)
		call("cudaEventSynchronize", issued, at+5-issued, map[string]any{})
		issued = at + 5 + pause
		all = append(all, event{"ph": "X", "cat": "user_annotation", "name": fmt.Sprintf("ProfilerStep#%d", i), "ts": from, "dur": issued - from - 1, "pid": 9, "tid": 1})
	}
	file := filepath.Join(t.TempDir(), "rank0.json")
	text := must.Have(json.Marshal(map[string]any{"traceEvents": all, "deviceProperties": []any{map[string]any{"id": 0, "name": "NVIDIA H200"}}}))(t)
	must.Do(t, os.WriteFile(file, text, 0o600))
	w := must.Have(lift.Workload(must.Have(format.Open(file, format.Options{}))(t), lift.Options{}))(t)
	out, change := run(t, w)
	const least = pause + copied + 3*computed + copied // what runs before or behind all that may run beside it
	if got := float64(out.Expected) / 1e3; got < least || got > least+2*(copied-computed)+100 {
		t.Errorf("%.0f µs an iteration, want %.0f and what of two copies the kernels do not hide", got, least)
	}
	if change > -0.05 {
		t.Errorf("changes the time by %.1f %%", 100*change)
	}
}

// run is the schedule with copies ahead, and its change of the captured time.
func run(t *testing.T, w *workload.Workload) (out engines.Outcome, change float64) {
	t.Helper()
	outs, err := engines.Compare(w, plantest.H200(t, 1), enginetest.MustParse(t, "captured,multistream:copies=ahead"), plan.Scenario{}, replay.Options{}, nil)
	if err != nil || outs[1].Why != "" {
		t.Fatal(err, outs[1].Why)
	}
	return outs[1], outs[1].ChangeFrom(outs[0].Expected)
}

// Copies from pageable memory take from pinned memory what they were measured to take, and behind a step before no less than
// the kernels or the copies alone (rules W28 and W29). Copies that are from pinned memory, that are as fast, or whose machine has
// no known rate, change nothing.
func TestCopiesFromPinnedMemory(t *testing.T) {
	m := plantest.H200(t, 1)
	sel := enginetest.MustParse(t, "captured,multistream:copies=pinned,multistream:copies=batch")
	times := func(w *workload.Workload) (out []float64) {
		w.Unprofiled = true
		for _, o := range must.Have(engines.Compare(w, m, sel, plan.Scenario{}, replay.Options{}, nil))(t) {
			out = append(out, float64(o.Expected)/1e3)
		}
		return out
	}
	w := plantest.LiftSample(t, "measurements/2026-11-30-h200-inputs/traces/mlp_pageable")
	got := times(w)
	for i, measured := range []float64{32724.6, 16314.5, 14745.3} { // µs
		if err := got[i]/measured - 1; math.Abs(err) > 0.05 {
			t.Errorf("%s: %+.1f %% off", sel[i], 100*err)
		}
	}
	var kernels, bytes float64
	for i := range w.Ops {
		if c := w.Run.Copy(w.Run.Spans[w.Ops[i].Span]); c != nil && c.Dir == trace.HostToDevice {
			bytes += float64(c.Bytes)
		} else {
			kernels += float64(w.Ops[i].Dur())
		}
	}
	copies := bytes / m.Engines.Host.Value * 1e6 / 3
	if least := kernels / 3e3; got[2] < max(least, copies)*0.99 || got[1] < (least+copies)*0.99 {
		t.Errorf("pinned %.0f and a batch ahead %.0f us, of kernels %.0f and copies %.0f us", got[1], got[2], least, copies)
	}
	pinned := edit.Pinned(w, &m)
	if pinned == w || edit.Pinned(pinned, &m) != pinned {
		t.Error("copies from pinned memory change again")
	}
	if none := (machine.Machine{}); edit.Pinned(w, &none) != w {
		t.Error("copies change on a machine without a rate")
	}
	if w := plantest.LiftSample(t, "measurements/2026-11-30-h200-copies/traces/serial_8192"); edit.Pinned(w, &m) != w {
		t.Error("copies from pinned memory change")
	}
	for _, name := range []string{"ddp-step", "moe-ep4"} { // as fast as pinned memory
		w := plantest.LiftSample(t, name)
		w.Unprofiled, w.Scale = true, slices.Repeat([]float64{1}, len(w.Ops))
		outs := must.Have(engines.Compare(w, plantest.H200(t, w.World), sel[:2], plan.Scenario{}, replay.Options{}, nil))(t)
		if change := outs[1].ChangeFrom(outs[0].Expected); outs[1].Why != "" || change != 0 {
			t.Errorf("%s: %s, %+.2f %% with nothing to change", name, outs[1].Why, 100*change)
		}
	}
	unknown := plantest.LiftSample(t, "measurements/2026-11-30-h200-inputs/traces/mlp_pageable")
	for i := range unknown.Run.Copies {
		unknown.Run.Copies[i].Bytes = 0
	}
	if edit.Pinned(unknown, &m) != unknown {
		t.Error("copies of unknown bytes change")
	}

	for i, id := range w.Ranks[0] { // a host that makes what it copies
		if op := &w.Ops[id]; op.Kind == trace.Copy && i > 0 {
			w.Hosts[0].Issues[i].Work = 2 * op.Dur()
		}
	}
	if edit.Ahead(w, true) != w {
		t.Error("a late host's copies move")
	}
}
