package lift

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// The host's work for an op is the time since the issue of the one before, without its wait
// for the device; what another thread records does not count, but its wait while the first does nothing.
//
//	thread 1   |op A: launch k1|sync 30|op B (op C): launch k2|
//	thread 2          |query|
//	µs         0     5         30    60                75
func TestHosts(t *testing.T) {
	const run = `{"traceEvents": [
	{"ph": "X", "cat": "cpu_op", "name": "aten::a", "pid": 1, "tid": 1, "ts": 0, "dur": 20, "args": {"External id": 1}},
	{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5, "dur": 5, "args": {"correlation": 1, "External id": 1}},
	{"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 1, "tid": 1, "ts": 30, "dur": 30, "args": {"correlation": 2}},
	{"ph": "X", "cat": "cuda_runtime", "name": "cudaEventQuery", "pid": 1, "tid": 2, "ts": 40, "dur": 2, "args": {"correlation": 3}},
	{"ph": "X", "cat": "cpu_op", "name": "aten::b", "pid": 1, "tid": 1, "ts": 62, "dur": 20, "args": {"External id": 2}},
	{"ph": "X", "cat": "cpu_op", "name": "aten::c", "pid": 1, "tid": 1, "ts": 64, "dur": 16, "args": {"External id": 3}},
	{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 75, "dur": 5, "args": {"correlation": 4, "External id": 3}},
	{"ph": "X", "cat": "kernel", "name": "k1", "pid": 0, "tid": 7, "ts": 15, "dur": 40, "args": {"correlation": 1, "device": 0, "stream": 7}},
	{"ph": "X", "cat": "kernel", "name": "k2", "pid": 0, "tid": 7, "ts": 83, "dur": 10, "args": {"correlation": 4, "device": 0, "stream": 7}}
	]}`
	w := ofFile(t, run)
	h := w.Hosts[0]
	if len(h.Order) != 2 || len(h.Syncs) != 1 || h.Latency != 8_000 {
		t.Fatalf("%+v: want two issues, one synchronization, and 8 µs from the launch of k2 to its start", h)
	}
	if h.Issues[0] != (workload.Issue{}) || h.Issues[1] != (workload.Issue{Work: 40_000, Operators: 2, Calls: 1, Launches: 1}) {
		t.Errorf("%+v: want nothing for k1, and for k2 40 µs, two operators, a launch and another call", h.Issues)
	}
	if before := h.Syncs[0].Before; before != 25./40 {
		t.Errorf("%.3f of the work is before the wait, want 25 of 40 µs", before)
	}
	const sync = `"cudaStreamSynchronize", "pid": 1, "tid": 1, "ts": 30, "dur": 30`
	other := strings.Replace(sync, `"tid": 1`, `"tid": 2`, 1)
	h = ofFile(t, strings.Replace(run, sync, other, 1)).Hosts[0]
	if len(h.Syncs) != 1 || h.Issues[1].Work != 40_000 {
		t.Errorf("%+v: want the wait of thread 2, and 40 µs for k2", h)
	}
	h = ofFile(t, strings.Replace(strings.Replace(run, sync, other, 1), `"ts": 62`, `"ts": 50`, 1)).Hosts[0]
	if len(h.Syncs) != 0 || h.Issues[1].Work != 70_000 {
		t.Errorf("%+v: want no wait, as thread 1 works beside it, and 70 µs for k2", h)
	}
	if !w.Profiled() {
		t.Error("the profiler is not seen")
	}
	h = ofFile(t, strings.Replace(run, "aten::b", "command_buffer::update", 1)).Hosts[0]
	if h.Issues[1] != (workload.Issue{Work: 40_000, Operators: 2, Calls: 1, Launches: 1}) || h.Sets[1] != 20_000 || len(h.Sets) != 1 {
		t.Errorf("%+v: want 20 µs in which kernels of a graph were set", h)
	}
	const launch = `"cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 75`
	if h = ofFile(t, strings.Replace(run, launch, strings.Replace(launch, `"tid": 1`, `"tid": 2`, 1), 1)).Hosts[0]; h.Issues[0].Handed || !h.Issues[1].Handed {
		t.Errorf("%+v: want thread 2 woken for k2", h)
	}
}

// Thread 2 wakes when it records something, behind the last that thread 1 does before: not behind a range around both, nor behind
// an operator of thread 1 that waits for thread 2.
//
//	thread 1   |step      |aten::a: launch k1|            ...|
//	thread 2                       .wake.    |b: launch k2|
//	µs         0          1        20        64           80
func TestWakes(t *testing.T) {
	const run = `{"traceEvents": [
	{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 90},
	{"ph": "X", "cat": "cpu_op", "name": "aten::a", "pid": 1, "tid": 1, "ts": 1, "dur": %d, "args": {"External id": 1}},
	{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5, "dur": 5, "args": {"correlation": 1, "External id": 1}},
	{"ph": "X", "cat": "cpu_op", "name": "aten::b", "pid": 1, "tid": 2, "ts": 64, "dur": 16, "args": {"External id": 3}},
	{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 2, "ts": 70, "dur": 5, "args": {"correlation": 4, "External id": 3}},
	{"ph": "X", "cat": "kernel", "name": "k1", "pid": 0, "tid": 7, "ts": 15, "dur": 40, "args": {"correlation": 1, "device": 0, "stream": 7}},
	{"ph": "X", "cat": "kernel", "name": "k2", "pid": 0, "tid": 7, "ts": 83, "dur": 10, "args": {"correlation": 4, "device": 0, "stream": 7}}
	]}`
	for lasts, want := range map[int]trace.Time{19: 44_000, 89: 54_000} {
		if h := ofFile(t, fmt.Sprintf(run, lasts)).Hosts[0]; len(h.Wakes) != 1 || h.Wakes[1] != want {
			t.Errorf("an operator of %d us: %v ns for k2, not %d", lasts, h.Wakes, want)
		}
	}
}

// ofFile is the workload of a trace.
func ofFile(t *testing.T, text string) *workload.Workload {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rank0.json")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	r := must.Have(format.Open(path, format.Options{}))(t)
	return must.Have(Workload(r, Options{}))(t)
}

// A graph's first launch uploads it, which later ones do not.
func TestFirstLaunchOfAGraph(t *testing.T) {
	var events []string
	for i, at := range []int{0, 1000, 1300} {
		dur := 100
		if i == 0 {
			dur = 800
		}
		events = append(events, fmt.Sprintf(`{"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "pid": 1, "tid": 1, "ts": %d, "dur": %d, "args": {"correlation": %d}}`, at, dur, i+1))
		for k := range 2 {
			events = append(events, fmt.Sprintf(`{"ph": "X", "cat": "kernel", "name": "k%d", "pid": 0, "tid": 7, "ts": %d, "dur": 40, "args": {"correlation": %d, "device": 0, "stream": 7}}`, k, at+dur+50*k, i+1))
		}
	}
	h := ofFile(t, `{"traceEvents": [`+strings.Join(events, ",")+`]}`).Hosts[0]
	if got := []trace.Time{h.Issues[2].Work, h.Issues[4].Work}; got[0] != 300_000 || got[1] != 300_000 {
		t.Errorf("the host works %d ns for the second and third launch, want 300 µs each", got)
	}
}

// A long call that copies from pageable memory of the host is a wait for the copy; one that copies from pinned memory waited for a
// place in the queue. Short calls are launches.
//
//	host    |copy 3..........|launch|
//	device     |H2D 5......50|  |k|
func TestCopiesFromPageableMemoryBlock(t *testing.T) {
	const run = `{"traceEvents": [
	{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 0, "dur": 2, "args": {"correlation": 1}},
	{"ph": "X", "cat": "cuda_runtime", "name": "cudaMemcpyAsync", "pid": 1, "tid": 1, "ts": 3, "dur": 50, "args": {"correlation": 2}},
	{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 60, "dur": 2, "args": {"correlation": 3}},
	{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 70, "dur": 2, "args": {"correlation": 4}},
	{"ph": "X", "cat": "kernel", "name": "k1", "pid": 0, "tid": 7, "ts": 2, "dur": 2, "args": {"correlation": 1, "device": 0, "stream": 7}},
	{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)", "pid": 0, "tid": 7, "ts": 5, "dur": 45,
	 "args": {"correlation": 2, "device": 0, "stream": 7, "bytes": 1000000}},
	{"ph": "X", "cat": "kernel", "name": "k2", "pid": 0, "tid": 7, "ts": 63, "dur": 2, "args": {"correlation": 3, "device": 0, "stream": 7}},
	{"ph": "X", "cat": "kernel", "name": "k3", "pid": 0, "tid": 7, "ts": 73, "dur": 2, "args": {"correlation": 4, "device": 0, "stream": 7}}
	]}`
	pinned := strings.Replace(run, "Pageable", "Pinned", 1)
	for text, syncs := range map[string]int{
		run: 1, pinned: 0, strings.Replace(run, `"dur": 50`, `"dur": 2`, 1): 0, // a copy that is staged
		strings.Replace(pinned, "cudaMemcpyAsync", "cudaMemcpy", 1):                                    1,
		strings.Replace(pinned, "cudaMemcpyAsync", "hipMemcpyWithStream", 1):                           1,
		strings.NewReplacer("cudaMemcpyAsync", "cudaMemcpy", `"dur": 50`, `"dur": 40`).Replace(pinned): 0, // it returned before
	} {
		h := ofFile(t, text).Hosts[0]
		if len(h.Syncs) != syncs || syncs == 1 && (h.Syncs[0].Start != 3_000 || h.Syncs[0].End != 53_000 || h.Issues[2].Work != 7_000) {
			t.Errorf("%+v: want %d waits; for the kernel behind the copy from pageable memory 7 µs", h, syncs)
		}
	}
}

// A kernel of the program's own has no operator of the framework around its
// launch, a library's has; what launching took is the median over calls.
func TestLaunchers(t *testing.T) {
	for name, own := range map[string]bool{"moe-down-triton": true, "llama70b-fc2-allreduce": false} {
		run := must.Have(format.Open("../../samples/"+name, format.Options{}))(t)
		w := must.Have(Workload(run, Options{}))(t)
		for i := range w.Ops {
			if op := &w.Ops[i]; op.Compiled != (own && op.Kind == trace.Compute) {
				t.Errorf("%s: %s: own launcher %t", name, op.Name, op.Compiled)
			}
		}
		for rank, call := range w.Calls {
			if call < 2_000 || call > 20_000 {
				t.Errorf("%s: rank %d: launches take %d ns", name, rank, call)
			}
		}
	}
	if got := overlap.UpperMedian([]trace.Time{9, 1, 5}); got != 5 {
		t.Errorf("median %d", got)
	}
}

// Two ranks' profilers disagree by 1.8 % about how fast time passes: iterations of one
// loop end 635.9 us apart on rank 0 and 624.5 on rank 1, and their collectives seem to
// overlap less and less. On either clock each takes 224 to 232 us, the first one on the
// rank that came last.
func TestTransferOnDriftingClocks(t *testing.T) {
	run := must.Have(format.Open("../../samples/measurements/2026-11-22-h200x2-fourth/traces/pipe_grok_op_reduce_scatter_w2", format.Options{}))(t)
	w := must.Have(Workload(run, Options{}))(t)
	if len(w.Collectives) != 16 {
		t.Fatalf("%d collectives", len(w.Collectives))
	}
	for i := range w.Collectives {
		if got := w.Collectives[i].Transfer(); got < trace.Time(223*time.Microsecond) || got > trace.Time(233*time.Microsecond) {
			t.Errorf("collective %d takes %v ns", i, got)
		}
	}
}
