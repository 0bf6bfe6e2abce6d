package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// kinetoRank is the Kineto file of a rank that launches kernels, each from an
// operator: three events a kernel.
func kinetoRank(rank, kernels int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"schemaVersion":1,"distributedInfo":{"rank":%d,"world_size":2},"baseTimeNanoseconds":1790857026000000000,"traceEvents":[`, rank)
	for i := range kernels {
		at, tid := 1000+100*i, 100+rank
		fmt.Fprintf(&b, `{"ph":"X","cat":"cpu_op","name":"aten::op","pid":9,"tid":%d,"ts":%d,"dur":9,"args":{"External id":%d}},`, tid, at, i+1)
		fmt.Fprintf(&b, `{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":%d,"ts":%d,"dur":5,"args":{"correlation":%d,"External id":%[3]d}},`, tid, at+2, i+1)
		fmt.Fprintf(&b, `{"ph":"X","cat":"kernel","name":"gemm%d","pid":%d,"tid":7,"ts":%d,"dur":50,"args":{"stream":7,"device":%[2]d,"correlation":%d,"External id":%[4]d}},`, i%7, rank, at+20, i+1)
	}
	return b.String() + `{}]}`
}

// live is the heap that is in use, in bytes.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A job of eight ranks has millions of events: what each takes is bounded here,
// at the end of reading and of lifting, and with what lifting allocates meanwhile.
func TestMemoryPerEvent(t *testing.T) {
	const (
		kernels  = 20_000
		ranks    = 2
		events   = 3 * kernels * ranks
		spanMost = 72  // bytes an event, of spans and side tables; 67 today
		opMost   = 230 // bytes a kernel, of the workload; 224 to 226 today, 40 of them its edges
		liftMost = 475 // bytes a kernel that lifting allocates; 463 today
	)
	dir := t.TempDir()
	for r := range ranks {
		must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("rank%d.json", r)), []byte(kinetoRank(r, kernels)), 0o600))
	}
	before := live()
	run := must.Have(format.Open(dir, format.Options{}))(t)
	read := live()
	if per := (read - before) / events; per > spanMost || len(run.Spans) != events {
		t.Errorf("%d bytes an event after reading %d spans, the most is %d", per, len(run.Spans), spanMost)
	}
	var start, end runtime.MemStats
	runtime.ReadMemStats(&start)
	w := must.Have(lift.Workload(run, lift.Options{}))(t)
	runtime.ReadMemStats(&end)
	if per := (end.TotalAlloc - start.TotalAlloc) / (kernels * ranks); per > liftMost {
		t.Errorf("lifting allocates %d bytes a kernel, the most is %d", per, liftMost)
	}
	if per := (live() - read) / (kernels * ranks); per > opMost {
		t.Errorf("%d bytes a kernel after lifting, the most is %d", per, opMost)
	}
	t.Logf("%d bytes an event read; %d a kernel lifted, %d allocated for it", (read-before)/events, (live()-read)/(kernels*ranks), (end.TotalAlloc-start.TotalAlloc)/(kernels*ranks))
	runtime.KeepAlive(w)
}
