package rocprof

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

const resultsJSON = `{"rocprofiler-sdk-tool": [{
"metadata": {"node": {"hostname": "node7"}, "pid": 77, "init_time": 1},
"agents": [
 {"id": {"handle": 100}, "type": 1, "logical_node_id": 0, "logical_node_type_id": 0, "name": "EPYC"},
 {"id": {"handle": 102}, "type": 2, "logical_node_id": 2, "logical_node_type_id": 0, "name": "gfx950", "product_name": "MI350X", "cu_count": 256, "wave_front_size": 64, "max_waves_per_cu": 32, "lds_size_in_kb": 160, "hive_id": 17332996360099338395}],
"buffer_records": {
 "kernel_dispatch": [
  {"size": 184, "kind": 2, "operation": 2, "thread_id": 9, "correlation_id": {"internal": 5, "external": 0}, "start_timestamp": 2000, "end_timestamp": 2100,
   "dispatch_info": {"size": 72, "agent_id": {"handle": 102}, "queue_id": {"handle": 16}, "kernel_id": 8, "dispatch_id": 1, "group_segment_size": 1024, "workgroup_size": {"x": 256, "y": 1, "z": 1}, "grid_size": {"x": 1000, "y": 2, "z": 1}}, "stream_id": {"handle": 3}},
  {"kind": 2, "operation": 2, "thread_id": 9, "correlation_id": {"internal": 7}, "start_timestamp": 2200, "end_timestamp": 2150,
   "dispatch_info": {"agent_id": {"handle": 102}, "queue_id": {"handle": 20}, "kernel_id": 9}}],
 "hip_api": [{"kind": 1, "operation": 1, "thread_id": 9, "correlation_id": {"internal": 5}, "start_timestamp": 1900, "end_timestamp": 1950}],
 "rccl_api": [{"kind": 3, "operation": 0, "thread_id": 9, "correlation_id": {"internal": 6}, "start_timestamp": 2110, "end_timestamp": 2120}],
 "marker_api": [{"kind": 4, "operation": 0, "thread_id": 9, "correlation_id": {"internal": 4}, "start_timestamp": 1890, "end_timestamp": 2300}],
 "memory_copy": [{"kind": 0, "operation": 0, "thread_id": 9, "correlation_id": {"internal": 11}, "start_timestamp": 2400, "end_timestamp": 2500, "dst_agent_id": {"handle": 102}, "src_agent_id": {"handle": 100}, "bytes": 4096}]},
"callback_records": {"counter_collection": [{"a": [1, 2]}]},
"strings": {"buffer_records": [
  {"kind": "MEMORY_COPY", "operations": ["MEMORY_COPY_HOST_TO_DEVICE"]}, {"kind": "HIP_RUNTIME_API", "operations": ["hipInit", "hipLaunchKernel"]},
  {"kind": "KERNEL_DISPATCH", "operations": []}, {"kind": "RCCL_API", "operations": ["ncclAllGather"]}, {"kind": "MARKER_CORE_API", "operations": ["roctxRangePushA"]}],
 "marker_api": [{"key": 4, "value": "step \"1\""}]},
"kernel_symbols": [{"kernel_id": 8, "kernel_name": "_Z1kv.kd", "formatted_kernel_name": "k()", "arch_vgpr_count": 32, "accum_vgpr_count": 4}, {"kernel_id": 9, "formatted_kernel_name": "ncclDevKernel_Generic_1(x)"}]
}]}`

// A driver that does not know the product still knows its number on the bus.
func TestProductByNumber(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"product_name": "MI350X"`, `"device_id": 30115`, "AMD Instinct MI355X"},
		{`"gfx950", "product_name": "MI350X"`, `"gfx942", "product_name": "AMD Radeon Graphics", "device_id": 29861`, "AMD Instinct MI325X"},
		{`"product_name": "MI350X"`, `"product_name": "", "device_id": 1`, "gfx950"},
		{`"product_name": "MI350X"`, `"product_name": "AMD Instinct MI350X VF", "device_id": 30115`, "AMD Instinct MI350X VF"},
	} {
		run := must.Have(ReadJSON(strings.NewReader(strings.Replace(resultsJSON, c.from, c.to, 1)), "77_results.json"))(t)
		if got := run.Ranks[0].Device.Name; got != c.want {
			t.Errorf("%s: %q, want %q", c.to, got, c.want)
		}
	}
}

func TestReadJSON(t *testing.T) {
	run := must.Have(ReadJSON(strings.NewReader(resultsJSON), "77_results.json"))(t)
	checkRun(t, run)
	at := strings.Index(resultsJSON, `{"kind": 2, "operation": 2`)
	skipped := strings.Index(resultsJSON, `{"a": [1, 2]}`)
	want := fmt.Sprintf(`rank -1 node7 MI350X
-1/0 thread 9.0 marker "step \"1\"" 0-410
-1/0 thread 9.0 launch "hipLaunchKernel" 10-60 in "step \"1\""
-1/0 queue 16.0 compute "k()" 110-210 grid [4 2 1] block [256 1 1] lds 1024 vgprs 36 stream 3 corr 5
-1/0 thread 9.0 host "ncclAllGather" 220-230 in "step \"1\""
-1/0 queue 20.0 collective "ncclDevKernel_Generic_1(x)" 310-310 grid [0 0 0] block [0 0 0] lds 0 vgprs 0 stream 0 corr 7 all_gather #0
-1/0 engine 1.0 copy "MEMORY_COPY_HOST_TO_DEVICE" 510-610 host to device bytes 4096 corr 11
skipped 77_results.json: callback record: no timeline ×1 byte [%d]
repaired 77_results.json: ends before it starts: clamped to zero duration ×1 byte [%d]
noted 77_results.json: 1 collective kernels have their operation from the order of RCCL calls ×1  [0]
`, skipped, at)
	if diff := cmp.Diff(want, describe(run)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if d := run.Ranks[0].Device; d.CUs != 256 || d.ThreadsPerCU != 2048 || d.SharedPerCU != 160<<10 || run.Clock != 1890 {
		t.Errorf("device %+v, clock %d", d, run.Clock)
	}
}

func TestReadJSONErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"cut short", `{"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}, "buffer`, "r.json:byte 58: the file ends inside an object: it is truncated (copy it again, or let the job finish writing it)"},
		{"not a list", `{"rocprofiler-sdk-tool": 7}`, "r.json:byte 25: expected a list, found \"7}\" (give the file as it was written)"},
		{"nothing", `{"rocprofiler-sdk-tool": []}`, "r.json: no kernel, copy or call: nothing with a time (profile with rocprofv3 --kernel-trace, or --sys-trace)"},
		{"no JSON", `{"rocprofiler-sdk-tool": [{,}]}`, "r.json:byte 27: unexpected \",}]}\" (this is no valid JSON; a profiler may have written a name without escaping it)"},
	} {
		_, err := ReadJSON(strings.NewReader(c.text), "r.json")
		var syntax *trace.SyntaxError
		if !errors.As(err, &syntax) || err.Error() != c.want {
			t.Errorf("%s: error\n     %v, want\n     %s", c.name, err, c.want)
		}
	}
}

// 43,915 dispatches of one of eight MI350X.
func TestReadJSONCaptured(t *testing.T) {
	run := must.Have(ReadJSON(gunzip(t, shared(t, "traces", "TraceLens", "rocprof", "908_results.json.gz")), "908_results.json"))(t)
	checkRun(t, run)
	kinds, collectives := map[trace.Kind]int{}, map[int64]int{}
	for _, s := range run.Spans {
		kinds[s.Kind]++
		if s.Kind == trace.Collective {
			collectives[run.Lanes[s.Lane].ID]++
		}
	}
	if kinds[trace.Compute] != 43915-1310 || kinds[trace.Collective] != 1310 || len(kinds) != 2 || collectives[20] != 1309 {
		t.Errorf("%v, collectives by queue %v", kinds, collectives)
	}
	first := run.Spans[0]
	if k := run.Setup(run.Kernel(first)); run.Clock != 63857982592000 || first.Dur() != 2840 || k.WGs() != 1 || k.Threads() != 512 {
		t.Errorf("first: %+v %+v, clock %d", first, k, run.Clock)
	}
	if r := run.Ranks[0]; len(run.Ranks) != 1 || r.Device.Name != "AMD Instinct MI350X" || r.Host != "smci350-zts-gtu-c6-25" {
		t.Errorf("ranks %+v", run.Ranks)
	}
	overlaps := 0
	for _, e := range run.Ledger.Entries {
		if e.Action != trace.Noted {
			t.Errorf("ledger: %+v", e)
		}
		overlaps += e.Count
	}
	if overlaps == 0 {
		t.Error("kernels overlap on their queue in this file, but nothing says so")
	}
}

func FuzzReadJSON(f *testing.F) {
	f.Add([]byte(resultsJSON))
	f.Add([]byte(`{"rocprofiler-sdk-tool":[{"strings":{"marker_api":{"1":"x"},"buffer_records":[{}]},"buffer_records":{"hip_api":[{"kind":-1,"operation":9,"start_timestamp":9223372036854775807,"end_timestamp":-1}]}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		run, err := ReadJSON(bytes.NewReader(text), "f.json")
		var syntax *trace.SyntaxError
		switch {
		case err == nil:
			checkRun(t, run)
		case !errors.As(err, &syntax) || syntax.Pos < 0 || syntax.Pos > int64(len(text)):
			t.Fatalf("error %v", err)
		}
	})
}

// resultsText is a file of n dispatches.
func resultsText(n int) []byte {
	const record = `{"size": 184, "kind": 11, "operation": 2, "thread_id": 908, "correlation_id": {"internal": %d, "external": 0}, "start_timestamp": %d, "end_timestamp": %d, "dispatch_info": {"size": 72, "agent_id": {"handle": 37946}, "queue_id": {"handle": 16}, "kernel_id": 8, "dispatch_id": 1, "private_segment_size": 0, "group_segment_size": 0, "workgroup_size": {"x": 512, "y": 1, "z": 1}, "grid_size": {"x": 512, "y": 1, "z": 1}}, "stream_id": {"handle": 0}}`
	var text bytes.Buffer
	text.WriteString(`{"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": [`)
	for i := range n {
		if i > 0 {
			text.WriteString(", ")
		}
		fmt.Fprintf(&text, record, i+1, 1000+i*100, 1090+i*100)
	}
	text.WriteString(`]}}]}`)
	return text.Bytes()
}

func BenchmarkReadJSON(b *testing.B) {
	const n = 20000
	text := resultsText(n)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		run, err := ReadJSON(bytes.NewReader(text), "bench")
		if err != nil || len(run.Spans) != n {
			b.Fatal(err)
		}
	}
}

// TestManyKinds counts the entries of the ledger: keys of the file are not reasons.
func TestManyKinds(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"rocprofiler-sdk-tool":[{"buffer_records":{"hip_api":[{"start_timestamp":1,"end_timestamp":2,"thread_id":1}]`)
	const n = 100_000
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":[{}]`, i)
	}
	b.WriteString(`},"callback_records":{`)
	for i := range n {
		fmt.Fprintf(&b, `"k%d":[1],`, i)
	}
	b.WriteString(`"last":[]}}]}`)
	run := must.Have(ReadJSON(strings.NewReader(b.String()), "1_results.json"))(t)
	if entries, skipped := len(run.Ledger.Entries), run.Ledger.Count(trace.Skipped); entries > 4 || skipped != 2*n {
		t.Errorf("%d entries for %d skipped records", entries, skipped)
	}
}

// A file that leaves numbers of dispatches out is damaged.
func TestMissingDispatches(t *testing.T) {
	text := strings.Replace(resultsJSON, `"kernel_id": 9}`, `"kernel_id": 9, "dispatch_id": 4}`, 1)
	run := must.Have(ReadJSON(strings.NewReader(text), "x_results.json"))(t)
	const want = "2 kernels and copies cannot be read and are left out: dispatches whose numbers the file leaves out: times of idle are not known"
	if said := fmt.Sprint(run.Damage().Sentences); !strings.Contains(said, want) {
		t.Errorf("%s, want %s", said, want)
	}
}

func TestReadJSONEvents(t *testing.T) {
	barrier := func(operation, correlation, start, queue, source, stream int) string {
		return fmt.Sprintf(`{"size": 96, "kind": 38, "operation": %d, "thread_id": 9, "correlation_id": {"internal": %d}, "start_timestamp": %d, "end_timestamp": 2190,
			"agent_id": {"handle": 102}, "queue_id": {"handle": %d}, "source_queue_id": {"handle": %d}, "stream_id": {"handle": %d}, "hip_event_handle": 94852}`,
			operation, correlation, start, queue, source, stream)
	}
	text := strings.Replace(resultsJSON, `"buffer_records": {`, `"buffer_records": {"hip_event": [`+barrier(2, 9, 2040, 20, 16, 0)+","+barrier(1, 8, 2030, 16, 16, 3)+"],", 1)
	run := must.Have(ReadJSON(strings.NewReader(text), "77_results.json"))(t)
	checkRun(t, run)
	want := []trace.Wait{{Start: 150, End: 300, Stream: 0, On: 3, Record: 8, Correlation: 9, Call: trace.None, Recorded: trace.None}}
	if diff := cmp.Diff(want, run.Waits); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A kernel of a graph says so; the launch of a graph counts where no call of HIP has its correlation.
func TestReadGraphIDs(t *testing.T) {
	kernel := func(correlation, start int, of string) string {
		return fmt.Sprintf(`{"thread_id": 9, "correlation_id": {"internal": %d}, "start_timestamp": %d, "end_timestamp": %d, "dispatch_info": {"agent_id": {"handle": 1}, "queue_id": {"handle": 2}, "kernel_id": 3}, "stream_id": {"handle": 4}%s}`,
			correlation, start, start+100, of)
	}
	launch := `{"thread_id": 9, "correlation_id": {"internal": %d}, "start_timestamp": 900, "end_timestamp": 950, "graph_exec_id": {"handle": 1}, "kernel_dispatch_count": 2}`
	text := `{"rocprofiler-sdk-tool": [{"buffer_records": {"kernel_dispatch": [` +
		kernel(5, 1000, `, "graph_exec_id": {"handle": 1}, "graph_node_id": {"handle": 0}`) + "," + kernel(5, 1200, `, "graph_exec_id": 1, "graph_node_id": 1`) + "," + kernel(6, 1400, `, "graph_exec_id": {"handle": 0}`) +
		`], "hip_api": [{"thread_id": 9, "correlation_id": {"internal": 6}, "start_timestamp": 960, "end_timestamp": 970}], "hip_graph": [` +
		fmt.Sprintf(launch, 5) + "," + fmt.Sprintf(launch, 6) + "," + fmt.Sprintf(launch, 0) + `]}}]}`
	fromJSON := must.Have(ReadJSON(strings.NewReader(text), "77_results.json"))(t)
	checkRun(t, fromJSON)
	if diff := cmp.Diff([]trace.Node{{Span: 2, Graph: 1}, {Span: 3, Graph: 1, Number: 1}}, fromJSON.Nodes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(fromJSON.Spans) != 5 || fromJSON.NameOf(fromJSON.Spans[0]) != "hipGraphLaunch" || fromJSON.LaunchOf(fromJSON.Spans[3]) != 0 {
		t.Errorf("%d spans, the first is %q", len(fromJSON.Spans), fromJSON.NameOf(fromJSON.Spans[0]))
	}
}

// checkRun fails unless every index of the run is valid and the spans are as
// trace.Run promises.
func checkRun(t testing.TB, run *trace.Run) {
	t.Helper()
	for i, s := range run.Spans {
		if s.End < s.Start || s.Start < 0 || s.End > run.End {
			t.Fatalf("span %d from %d to %d", i, s.Start, s.End)
		}
		if s.Parent != trace.None && int(s.Parent) >= i {
			t.Fatalf("span %d has parent %d", i, s.Parent)
		}
		_ = run.NameOf(s)
		_ = run.Ranks[run.RankOf(s)]
		if k := run.Kernel(s); k != nil && k.Comm != trace.None {
			if g := run.Comms[k.Comm].Group; g != trace.None {
				_ = run.Groups[g]
			}
		}
		_, _ = run.Copy(s), run.Workgroup(s)
		if i > 0 && run.Spans[i-1].Start > s.Start {
			t.Fatalf("span %d starts before span %d", i, i-1)
		}
	}
}
