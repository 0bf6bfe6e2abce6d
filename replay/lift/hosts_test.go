package lift

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/format"
)

// The host's work for an op is the time since the issue of the one before, without its wait
// for the device; what another thread records does not count.
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
	path := filepath.Join(t.TempDir(), "rank0.json")
	if err := os.WriteFile(path, []byte(run), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := format.Open(path, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := Workload(r, Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := w.Hosts[0]
	if len(h.Order) != 2 || len(h.Syncs) != 1 || h.Latency != 8_000 {
		t.Fatalf("%+v: want two issues, one synchronization, and 8 µs from the launch of k2 to its start", h)
	}
	if h.Issues[0] != (workload.Issue{}) || h.Issues[1] != (workload.Issue{Work: 40_000, Operators: 2, Calls: 1, Launches: 1}) {
		t.Errorf("%+v: want nothing for k1, and for k2 40 µs, two operators, a launch and another call", h.Issues)
	}
	if !w.Profiled() {
		t.Error("the profiler is not seen")
	}
}
