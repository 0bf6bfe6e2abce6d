package overlap_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A launched kernel: its call, from call to call+1, and its stream; times in µs.
func launched(name string, correlation, stream, call, start, end int) string {
	return fmt.Sprintf(`{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":%d,"dur":1,"args":{"correlation":%d}},
{"ph":"X","cat":"kernel","name":%q,"pid":0,"tid":%d,"ts":%d,"dur":%d,"args":{"device":0,"stream":%[4]d,"correlation":%[2]d}},
`, call, correlation, name, stream, start, end-start)
}

// called is a call without work on a device.
func called(name string, correlation, start, end int) string {
	return fmt.Sprintf(`{"ph":"X","cat":"cuda_runtime","name":%q,"pid":1,"tid":1,"ts":%d,"dur":%d,"args":{"correlation":%d}},
`, name, start, end-start, correlation)
}

// synced is an event of cuda_sync.
func synced(name string, correlation, stream, on, record, start, end int) string {
	return fmt.Sprintf(`{"ph":"X","cat":"cuda_sync","name":%q,"pid":0,"tid":%d,"ts":%d,"dur":%d,"args":{"cuda_sync_kind":%[1]q,"wait_on_stream":%[5]d,"wait_on_cuda_event_record_corr_id":%[6]d,"stream":%[2]d,"correlation":%[7]d,"device":0}},
`, name, stream, start, end-start, on, record, correlation)
}

func read(t *testing.T, events ...string) *trace.Run {
	t.Helper()
	run := must.Have(chrome.Read(strings.NewReader(`{"baseTimeNanoseconds":1790857026000000000,"traceEvents":[`+strings.Join(events, "")+`{}]}`), chrome.Options{File: "t.json"}))(t)
	return run
}

func pathOf(run *trace.Run) (steps []string) {
	m := overlap.Measure(run)
	for _, s := range m.CriticalPath.Steps {
		steps = append(steps, fmt.Sprintf("%s %s %d-%d", s.Kind, s.Name, s.Start/1000, s.End/1000))
	}
	return steps
}

// The critical path goes through what a kernel waited for, not through what
// happened to end last before it:
//
//	stream 7 |  AAAAAAAAAA          |  1 column = 10 µs
//	stream 8 |      UUUUUUU         |
//	stream 9 |             CCC      |
func TestCriticalPathFollowsWaits(t *testing.T) {
	a, u, c := launched("A", 1, 7, 0, 20, 120), launched("U", 2, 8, 2, 60, 128), launched("C", 5, 9, 8, 130, 160)
	event := called("cudaEventRecord", 3, 4, 5) + called("cudaStreamWaitEvent", 4, 6, 7)
	wait := synced("Stream Wait Event", 4, 9, 7, 3, 6, 7)
	for _, x := range []struct {
		name   string
		events []string
		want   []string
	}{
		{"nothing is told", []string{a, u, event, c}, []string{"compute U 60-128", "queued C 128-130", "compute C 130-160"}},
		{"an event of A", []string{a, u, event, wait, c}, []string{"compute A 20-120", "queued C 120-130", "compute C 130-160"}},
		{
			"an event recorded before A",
			[]string{launched("A", 1, 7, 5, 20, 120), u, called("cudaEventRecord", 3, 4, 5), called("cudaStreamWaitEvent", 4, 6, 7), wait, c},
			[]string{"compute U 58-126", "queued C 126-128", "compute C 128-158"},
		}, // from U's call on
		{"its own stream held it longer", []string{a, launched("U", 2, 9, 2, 60, 128), event, wait, c}, []string{"compute U 60-128", "queued C 128-130", "compute C 130-160"}},
		{
			"the host waited for A's stream",
			[]string{a, launched("U", 2, 8, 2, 60, 123), called("cudaStreamSynchronize", 3, 5, 122), synced("Stream Sync", 3, 7, -1, -1, 5, 122), launched("C", 5, 9, 125, 130, 160)},
			[]string{"compute A 20-120", "sync C 120-125", "launch C 125-130", "compute C 130-160"},
		},
	} {
		t.Run(x.name, func(t *testing.T) {
			if d := cmp.Diff(x.want, pathOf(read(t, x.events...))); d != "" {
				t.Error(d)
			}
		})
	}
}

// A wait that the file tells counts as one, whatever the call is named.
func TestIdleOfToldWait(t *testing.T) {
	run := read(t, launched("A", 1, 7, 0, 10, 20), called("graph::sync", 2, 5, 25), synced("Context Sync", 2, -1, -1, -1, 5, 25), launched("B", 3, 7, 30, 35, 40))
	want := overlap.Causes{Sync: 10_000, Launch: 5_000}
	if d := cmp.Diff(want, overlap.Measure(run).Ranks[0].IdleCauses); d != "" {
		t.Error(d)
	}
}

// Two GPUs of one process: the calls of its threads, on the first rank's
// lanes, tell why the second was idle.
func TestIdleOfSecondGPU(t *testing.T) {
	var b trace.Builder
	for i := range 2 {
		b.AddRank(trace.Rank{ID: i, Process: 70, Source: "a.db"})
	}
	thread := b.Lane(trace.Lane{Kind: trace.HostThread, Peer: trace.None})
	queue := b.Lane(trace.Lane{Kind: trace.Queue, Rank: 1, Device: 1, Peer: trace.None})
	for i, at := range []trace.Time{0, 70} {
		b.Add(trace.Span{Start: at, End: at + 5, Kind: trace.Launch, Lane: thread, Parent: trace.None, Attr: b.AddCall(trace.Call{Correlation: int64(i + 1), Op: trace.None})})
		b.Add(trace.Span{
			Start: at + 10, End: at + 40, Kind: trace.Compute, Lane: queue, Parent: trace.None,
			Attr: b.AddKernel(trace.Kernel{Correlation: int64(i + 1), Comm: trace.None, Op: trace.None, Origin: trace.None}),
		})
	}
	got := overlap.Measure(b.Finish(trace.Options{})).Ranks[1].IdleCauses
	if d := cmp.Diff(overlap.Causes{Host: 30, Launch: 10}, got); d != "" {
		t.Error(d)
	}
}
