package format

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

func lift(t *testing.T, json string) *trace.Run {
	t.Helper()
	run := must.Have(chrome.Read(strings.NewReader(json), chrome.Options{File: "t.json"}))(t)
	return liftStamps(run)
}

func describe(run *trace.Run) string {
	var b strings.Builder
	for _, s := range run.Spans {
		l := run.Lanes[s.Lane]
		fmt.Fprintf(&b, "%d %s %d.%d %s %q %d-%d", run.Ranks[l.Rank].ID, l.Kind, l.ID, l.Sub, s.Kind, run.NameOf(s), s.Start, s.End)
		if k := run.Kernel(s); k != nil {
			fmt.Fprintf(&b, " of %d", run.Setup(k).WGs())
		}
		if c := run.Comm(s); c != nil {
			fmt.Fprintf(&b, " %s", c.Op)
		}
		if w := run.Workgroup(s); w != nil {
			fmt.Fprintf(&b, " #%d on %d", w.ID, w.CU)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestLift(t *testing.T) {
	for _, c := range []struct{ name, json, want string }{
		{
			"intra-kernel profiler: nanoseconds, a slice around all",
			`{"traceEvents":[
			{"ph":"M","name":"process_name","pid":5,"tid":0,"args":{"name":"sm 5"}},
			{"ph":"M","name":"thread_name","pid":5,"tid":0,"args":{"name":"block 2 warp 1"}},
			{"ph":"X","name":"total","pid":5,"tid":0,"ts":100,"dur":50},
			{"ph":"X","name":"load_A","pid":5,"tid":0,"ts":100,"dur":10},
			{"ph":"X","name":"compute","pid":5,"tid":0,"ts":110,"dur":30},
			{"ph":"X","name":"store","pid":5,"tid":0,"ts":140,"dur":5}]}`,
			`-1 queue 0.0 compute "kernel" 0-50 of 1
-1 workgroup 2.1 workgroup "total" 0-50 #2 on 5
-1 workgroup 2.1 wait "load_A" 0-10 #2 on 5
-1 workgroup 2.1 compute phase "compute" 10-40 #2 on 5
-1 workgroup 2.1 store "store" 40-45 #2 on 5
`,
		},
		{
			"intra-kernel profiler, scaled to a report of Nsight Systems",
			`{"traceEvents":[
			{"ph":"M","name":"process_name","pid":5,"tid":0,"args":{"name":"sm 5"}},
			{"ph":"M","name":"thread_name","pid":5,"tid":0,"args":{"name":"block 2 warp 1"}},
			{"ph":"M","name":"process_name","pid":10003,"tid":0,"args":{"name":"[NSys] NCCL"}},
			{"ph":"M","name":"thread_name","pid":10003,"tid":0,"args":{"name":"device 0"}},
			{"ph":"M","name":"thread_name","pid":10003,"tid":1,"args":{"name":"device 1"}},
			{"ph":"X","name":"load_A","pid":5,"tid":0,"ts":100.25,"dur":10.5},
			{"ph":"X","name":"compute","pid":5,"tid":0,"ts":110.75,"dur":30.25},
			{"ph":"X","name":"AllGather  [94us]","pid":10003,"tid":0,"ts":94100.0,"dur":94400.0,"args":{"duration_us":94.4}},
			{"ph":"X","name":"AllGather  [92us]","pid":10003,"tid":1,"ts":94200.0,"dur":92320.0,"args":{"duration_us":92.3}}]}`,
			`0 queue 0.0 compute "kernel" 0-40 of 1
0 workgroup 2.1 workgroup "kernel" 0-40 #2 on 5
0 workgroup 2.1 wait "load_A" 0-10 #2 on 5
0 workgroup 2.1 compute phase "compute" 10-40 #2 on 5
0 queue 1.0 collective "AllGather" 93999-188399 of 0 all_gather
1 queue 1.0 collective "AllGather" 94099-186419 of 0 all_gather
`,
		},
		{
			"intra-kernel profiler: the other rows of a report of Nsight Systems",
			`{"traceEvents":[
			{"ph":"M","name":"process_name","pid":5,"tid":0,"args":{"name":"sm 5"}},
			{"ph":"M","name":"thread_name","pid":5,"tid":0,"args":{"name":"block 2 warp 1"}},
			{"ph":"M","name":"process_name","pid":10000,"tid":0,"args":{"name":"[NSys] CUDA API"}},
			{"ph":"M","name":"thread_name","pid":10000,"tid":0,"args":{"name":"CPU thread"}},
			{"ph":"M","name":"process_name","pid":10001,"tid":0,"args":{"name":"[NSys] GPU Kernels"}},
			{"ph":"M","name":"thread_name","pid":10001,"tid":7,"args":{"name":"stream 7"}},
			{"ph":"M","name":"process_name","pid":10002,"tid":0,"args":{"name":"[NSys] Memory Ops"}},
			{"ph":"M","name":"thread_name","pid":10002,"tid":7,"args":{"name":"stream 7"}},
			{"ph":"X","name":"load_A","pid":5,"tid":0,"ts":1000,"dur":10000},
			{"ph":"X","name":"compute","pid":5,"tid":0,"ts":11000,"dur":30000},
			{"ph":"X","name":"store","pid":5,"tid":0,"ts":41000,"dur":30000},
			{"ph":"X","name":"load_B","pid":5,"tid":0,"ts":71000,"dur":30000},
			{"ph":"X","name":"cudaLaunchKernel  [5us]","pid":10000,"tid":0,"ts":0,"dur":5000},
			{"ph":"X","name":"tiled_gemm  [100us]","pid":10001,"tid":7,"ts":1000,"dur":100000,"args":{"stream":7,"grid":"4x1x1","device":0}},
			{"ph":"X","name":"relu  [9us]","pid":10001,"tid":7,"ts":110000,"dur":9000,"args":{"stream":7,"device":0}},
			{"ph":"X","name":"DtoH 4.0MB  12.5 GB/s","pid":10002,"tid":7,"ts":120000,"dur":7000,"args":{"bytes":4194304,"kind":"DtoH","stream":7}}]}`,
			`-1 thread 0.0 host "cudaLaunchKernel" 0-5000
-1 queue 0.0 compute "kernel" 1000-101000 of 1
-1 thread 7.0 marker "tiled_gemm" 1000-101000
-1 workgroup 2.1 workgroup "kernel" 1000-101000 #2 on 5
-1 workgroup 2.1 wait "load_A" 1000-11000 #2 on 5
-1 workgroup 2.1 compute phase "compute" 11000-41000 #2 on 5
-1 workgroup 2.1 store "store" 41000-71000 #2 on 5
-1 workgroup 2.1 wait "load_B" 71000-101000 #2 on 5
-1 queue 7.0 compute "relu" 110000-119000 of 0
-1 queue 7.1 copy "DtoH 4.0MB" 120000-127000
`,
		},
		{
			"a report of two devices: the profiler looked into one",
			`{"traceEvents":[
			{"ph":"M","name":"process_name","pid":5,"args":{"name":"sm 5"}},
			{"ph":"M","name":"thread_name","pid":5,"tid":0,"args":{"name":"block 2 warp 1"}},
			{"ph":"M","name":"process_name","pid":10000,"args":{"name":"[NSys] GPU Kernels"}},
			{"ph":"M","name":"thread_name","pid":10000,"tid":7,"args":{"name":"stream 7"}},
			{"ph":"M","name":"thread_name","pid":10000,"tid":9,"args":{"name":"stream 9"}},
			{"ph":"X","name":"total","pid":5,"tid":0,"ts":1000,"dur":100000},
			{"ph":"X","name":"load","pid":5,"tid":0,"ts":1000,"dur":50000},
			{"ph":"X","name":"gemm  [100us]","pid":10000,"tid":7,"ts":1000,"dur":100000,"args":{"stream":7,"device":0}},
			{"ph":"X","name":"gemm  [80us]","pid":10000,"tid":9,"ts":51000,"dur":80000,"args":{"stream":9,"device":1}}]}`,
			`-1 queue 0.0 compute "kernel" 0-100000 of 1
-1 thread 7.0 marker "gemm" 0-100000
-1 workgroup 2.1 workgroup "total" 0-100000 #2 on 5
-1 workgroup 2.1 wait "load" 0-50000 #2 on 5
1 queue 9.0 compute "gemm" 50000-130000 of 0
`,
		},
		{
			"Proton: kernels by name",
			`{"traceEvents":[
			{"cat":"matmul","dur":0.124,"name":"load","ph":"X","pid":"matmul Core3 CTA0","tid":"warp 0 (line 0)","ts":0.0},
			{"cat":"matmul","dur":0.224,"name":"mma","ph":"X","pid":"matmul Core3 CTA0","tid":"warp 0 (line 1)","ts":0.125},
			{"cat":"add","dur":0.2,"name":"sum","ph":"X","pid":"add Core4 CTA1","tid":"warp 3 (line 0)","ts":0.5}]}`,
			`-1 queue 0.0 compute "matmul" 0-349 of 1
-1 workgroup 0.0 workgroup "matmul" 0-349 #0 on 3
-1 workgroup 0.0 wait "load" 0-124 #0 on 3
-1 workgroup 0.0 compute phase "mma" 125-349 #0 on 3
-1 queue 0.0 compute "add" 500-700 of 1
-1 workgroup 1.3 workgroup "add" 500-700 #1 on 4
-1 workgroup 1.3 compute phase "sum" 500-700 #1 on 4
`,
		},
		{
			"NPKit: a process a rank",
			`{"traceEvents":[
			{"ph":"B","cat":"GPU","name":"NPKIT_EVENT_ALL_REDUCE_RING_ENTRY","pid":0,"tid":1,"ts":10.0,"args":{"rank":0}},
			{"ph":"E","cat":"GPU","pid":0,"tid":1,"ts":20.5},
			{"ph":"B","cat":"GPU","name":"NPKIT_EVENT_ALL_REDUCE_RING_ENTRY","pid":1,"tid":1,"ts":11.0,"args":{"rank":1}},
			{"ph":"E","cat":"GPU","pid":1,"tid":1,"ts":21.5}]}`,
			`0 queue 0.0 collective "kernel" 0-10500 of 1 all_reduce
0 workgroup 1.0 workgroup "kernel" 0-10500 #1 on -1
0 workgroup 1.0 compute phase "NPKIT_EVENT_ALL_REDUCE_RING_ENTRY" 0-10500 #1 on -1
1 queue 0.0 collective "kernel" 1000-11500 of 1 all_reduce
1 workgroup 1.0 workgroup "kernel" 1000-11500 #1 on -1
1 workgroup 1.0 compute phase "NPKIT_EVENT_ALL_REDUCE_RING_ENTRY" 1000-11500 #1 on -1
`,
		},
		{
			"blocks, beside another track",
			`{"traceEvents":[
			{"ph":"M","name":"thread_name","pid":1,"tid":8,"args":{"name":"block 4"}},
			{"ph":"M","name":"thread_name","pid":1,"tid":9,"args":{"name":"host"}},
			{"ph":"X","name":"wait flag","pid":1,"tid":8,"ts":1,"dur":2},
			{"ph":"X","name":"gemm","pid":1,"tid":8,"ts":3,"dur":2},
			{"ph":"X","name":"step","pid":1,"tid":9,"ts":1,"dur":5}]}`,
			`-1 thread 9.0 marker "step" 0-5000
-1 queue 0.0 compute "kernel" 0-4000 of 1
-1 workgroup 4.0 workgroup "kernel" 0-4000 #4 on -1
-1 workgroup 4.0 wait "wait flag" 0-2000 #4 on -1
-1 workgroup 4.0 compute phase "gemm" 2000-4000 #4 on -1
`,
		},
		{
			"what is none is left alone",
			`{"traceEvents":[{"ph":"X","name":"block 3","pid":1,"tid":8,"ts":1,"dur":2},{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,"args":{"stream":7}}]}`,
			`-1 thread 8.0 marker "block 3" 0-2000
-1 queue 7.0 compute "k" 0-2000 of 0
`,
		},
	} {
		if diff := cmp.Diff(c.want, describe(lift(t, c.json))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// 12,352 slices on 32 warps of four blocks.
func TestLiftCaptured(t *testing.T) {
	path := filepath.Join("..", "..", "..", "shared", "data", "traces", "intra-kernel-profiler", "gemm_trace.json")
	f, err := os.Open(path)
	if err != nil {
		t.Skipf("%v: needs the captured traces beside the checkout", err)
	}
	defer f.Close()
	read := must.Have(chrome.Read(f, chrome.Options{File: path}))(t)
	run := liftStamps(read)
	n := map[trace.Kind]int{}
	for _, s := range run.Spans {
		n[s.Kind]++
		if s.Parent != trace.None && (run.Spans[s.Parent].Start > s.Start || run.Spans[s.Parent].End < s.End) {
			t.Fatalf("%v is outside of its parent", s)
		}
	}
	if len(run.Spans) != 12352+1 || n[trace.Workgroup] != 32 || n[trace.Compute] != 1 || n[trace.Marker] != 0 {
		t.Errorf("%d spans: %v", len(run.Spans), n)
	}
	if run.End != read.End/1000 || run.Setups[0].WGs() != 4 {
		t.Errorf("%d ns, %d workgroups", run.End, run.Setups[0].WGs())
	}
}

// Whatever tracks are called, nothing is lost: slices are spans, and workgroups hold theirs.
func FuzzLift(f *testing.F) {
	f.Add("sm 1 · block 2 warp 3", "total", int64(1000), int64(2000), int64(1500), int64(1600))
	f.Add("k Core1 CTA99999999999 · warp 2", "", int64(0), int64(0), int64(0), int64(5))
	f.Add("process 3", "NPKIT_EVENT_SEND", int64(1), int64(9), int64(3), int64(12))
	f.Add("block 7", "wait", int64(7), int64(7), int64(7), int64(7))
	f.Fuzz(func(t *testing.T, lane, name string, a, b, c, d int64) {
		if name == "kernel" || strings.HasPrefix(lane, name+" Core") {
			return // as a workgroup may be called that has no slice around it
		}
		var builder trace.Builder
		builder.AddRank(trace.Rank{ID: trace.None})
		for i, at := range [][2]int64{{a, b}, {c, d}} {
			if at[0] < 0 || at[1] < at[0] || at[1] > 1<<50 {
				return
			}
			builder.Add(trace.Span{
				Start: trace.Time(at[0]), End: trace.Time(at[1]), Name: builder.Intern(name), Parent: trace.None, Attr: trace.None,
				Lane: builder.Lane(trace.Lane{Kind: trace.HostThread, ID: int64(i), Peer: trace.None, Name: lane}),
			})
		}
		read := builder.Finish(trace.Options{})
		run := liftStamps(read)
		slices := 0
		for _, s := range run.Spans {
			if s.Kind == trace.Marker || s.Kind.InKernel() && s.Kind != trace.Workgroup {
				slices++
			}
			if p := s.Parent; p != trace.None && (run.Spans[p].Start > s.Start || run.Spans[p].End < s.End) {
				t.Fatalf("%+v is outside of its parent %+v", s, run.Spans[p])
			}
			if s.Kind == trace.Workgroup && run.NameOf(s) != run.NameOf(run.Spans[s.Parent]) {
				slices++ // the slice around all others
			}
		}
		if slices < len(read.Spans) {
			t.Fatalf("%d of %d slices", slices, len(read.Spans))
		}
	})
}

// Where a report has fewer collectives of one device, its last ones are those of the other device.
func TestCollectivesOfTwoDevices(t *testing.T) {
	run := lift(t, `{"traceEvents":[
		{"ph":"M","name":"process_name","pid":5,"args":{"name":"sm 5"}},
		{"ph":"M","name":"thread_name","pid":5,"tid":0,"args":{"name":"block 2 warp 1"}},
		{"ph":"M","name":"process_name","pid":9,"args":{"name":"[NSys] NCCL"}},
		{"ph":"M","name":"thread_name","pid":9,"tid":0,"args":{"name":"device 0"}},
		{"ph":"M","name":"thread_name","pid":9,"tid":1,"args":{"name":"device 1"}},
		{"ph":"X","name":"total","pid":5,"tid":0,"ts":3000,"dur":1000},
		{"ph":"X","name":"load","pid":5,"tid":0,"ts":3000,"dur":500},
		{"ph":"X","name":"mma","pid":5,"tid":0,"ts":3500,"dur":500},
		{"ph":"X","name":"AllGather  [1us]","pid":9,"tid":0,"ts":1000,"dur":1000,"args":{"device":0}},
		{"ph":"X","name":"AllGather  [5us]","pid":9,"tid":0,"ts":5000,"dur":5000,"args":{"device":0}},
		{"ph":"X","name":"AllGather  [2us]","pid":9,"tid":1,"ts":8000,"dur":2000,"args":{"device":1}}]}`)
	var got []string
	for _, c := range run.Collectives {
		got = append(got, fmt.Sprintf("%d members, %d ns", len(c.Members), c.Transfer))
	}
	if want := "[1 members, 1000 ns 2 members, 2000 ns]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}
