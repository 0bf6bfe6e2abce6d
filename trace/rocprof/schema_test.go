package rocprof

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pierrec/lz4/v4"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/sqldbtest"
)

// hipEvents adds what schema 3.0.4 has beyond 3.0.0: network adapters, graphs, and events. A kernel of
// queue 17 waits for the one of queue 16, whose event was recorded behind it.
const hipEvents = `
CREATE TABLE rocpd_metadata_a (id INTEGER PRIMARY KEY, tag TEXT, value TEXT);
INSERT INTO rocpd_metadata_a VALUES (1, 'schema_version', '3.0.4'), (2, 'guid', 'g');
INSERT INTO rocpd_info_agent_a VALUES (5, 'g', 80, 'NIC', 0, 'mlx5_0', '', '{}');
ALTER TABLE rocpd_kernel_dispatch_a ADD COLUMN graph_exec_id INTEGER;
ALTER TABLE rocpd_kernel_dispatch_a ADD COLUMN graph_node_id INTEGER;
INSERT INTO rocpd_event_a VALUES (10, 'g', 1, 51, 0, 0, '{}'), (11, 'g', 1, 52, 0, 0, '{}'), (12, 'g', 0, 53, 0, 0, '{}'), (13, 'g', 1, 49, 0, 0, '{}'), (14, 'g', 1, 54, 0, 0, '{}');
INSERT INTO rocpd_kernel_dispatch_a VALUES (1, 'g', 9, 80, NULL, 2, 10, 2, 17, 4, 1195, 1199, 0, 0, 64, 1, 1, 64, 1, 1, NULL, 12, 0, 0);
INSERT INTO rocpd_event_a VALUES (15, 'g', 1, 90, 90, 0, '{}'), (16, 'g', 0, 90, 90, 0, '{}'), (17, 'g', 0, 90, 90, 0, '{}'), (18, 'g', 1, 50, 50, 0, '{}');
INSERT INTO rocpd_kernel_dispatch_a VALUES (2, 'g', 9, 80, NULL, 2, 10, 3, 17, 4, 1230, 1240, 0, 0, 64, 1, 1, 64, 1, 1, NULL, 16, 7, 1), (3, 'g', 9, 80, NULL, 2, 10, 4, 17, 4, 1241, 1250, 0, 0, 64, 1, 1, 64, 1, 1, NULL, 17, 7, 2);
CREATE TABLE rocpd_graph_launch_a (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER, start BIGINT, "end" BIGINT, graph_exec_id INTEGER, kernel_dispatch_count INTEGER, event_id INTEGER, extdata TEXT);
INSERT INTO rocpd_graph_launch_a VALUES (1, 'g', 9, 80, 1, 2, NULL, 1210, 1215, 7, 2, 15, '{}'), (2, 'g', 9, 80, 1, 2, NULL, 1011, 1012, 7, 2, 18, '{}');
CREATE TABLE rocpd_hip_event_a (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER, source_queue_id INTEGER, stream_id INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER, hip_event_handle BIGINT, event_id INTEGER);
INSERT INTO rocpd_hip_event_a VALUES (1, 'g', 9, 80, 1, 2, 17, 16, 4, 1032, 1191, 6, 4096, 11), (2, 'g', 9, 80, 1, 2, 16, 16, 3, 1030, 1190, 6, 4096, 10),
 (3, 'g', 9, 80, 1, 2, 16, 16, 3, 1005, 1006, 6, 8192, 13), (4, 'g', 9, 80, 1, 2, 17, 18, 4, 1040, 1191, 6, 4096, 14);
`

func TestReadRocpdEvents(t *testing.T) {
	run := must.Have(readDB(sqldbtest.Create(t, "x.db", rocpdScript("_a", "{}", 80, 1000)+hipEvents)))(t)
	checkRun(t, run)
	want := []trace.Wait{
		{Device: 1, Start: 32, End: 191, Stream: 4, On: 3, Record: 51, Correlation: 52, Call: trace.None, Recorded: trace.None},
		{Device: 1, Start: 40, End: 191, Stream: 4, On: trace.None, Correlation: 54, Call: trace.None, Recorded: trace.None}, // recorded before the profiler started
	}
	if diff := cmp.Diff(want, run.Waits); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if n := run.Nodes; len(n) != 2 || n[0].Graph != 7 || n[0].Number != 1 || n[1].Number != 2 {
		t.Errorf("nodes of graphs %+v", n)
	}
	launches := map[trace.SpanID]int{}
	for _, n := range run.Nodes {
		launches[run.LaunchOf(run.Spans[n.Span])]++
	}
	launched := slices.IndexFunc(run.Spans, func(s trace.Span) bool { return run.NameOf(s) == "hipGraphLaunch" && s.Kind == trace.Launch })
	calls := 0
	for _, s := range run.Spans {
		if run.NameOf(s) == "hipGraphLaunch" {
			calls++
		}
	}
	if launched < 0 || launches[trace.SpanID(launched)] != 2 || calls != 1 {
		t.Errorf("launch %d of %v, %d launches of graphs", launched, launches, calls)
	}
	if r := run.Ranks; len(r) != 1 || r[0].NodeGPUs != 1 {
		t.Errorf("ranks %+v", r)
	}
}

// rocpd41 is a process with two GPUs in schema 4.1: records have a track, and categories a table.
const rocpd41 = `
CREATE TABLE rocpd_metadata_a (id INTEGER PRIMARY KEY, tag TEXT, value TEXT);
INSERT INTO rocpd_metadata_a VALUES (1, 'schema_version', '4.1.0');
CREATE TABLE rocpd_string_a (id INTEGER PRIMARY KEY, guid TEXT, string TEXT);
INSERT INTO rocpd_string_a VALUES (1, 'g', 'hipLaunchKernel'), (2, 'g', 'roctxRangePushA'), (3, 'g', 'MEMORY_COPY_DEVICE_TO_HOST');
CREATE TABLE rocpd_info_category_a (id INTEGER PRIMARY KEY, guid TEXT, name TEXT);
INSERT INTO rocpd_info_category_a VALUES (1, 'g', 'HIP_RUNTIME_API_EXT'), (2, 'g', 'MARKER_CORE_RANGE_API');
CREATE TABLE rocpd_info_process_a (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, pid INTEGER, environment TEXT);
INSERT INTO rocpd_info_process_a VALUES (1, 'g', 1, 80, '{}');
CREATE TABLE rocpd_info_thread_a (id INTEGER PRIMARY KEY, guid TEXT, tid INTEGER);
INSERT INTO rocpd_info_thread_a VALUES (1, 'g', 77);
CREATE TABLE rocpd_info_agent_a (id INTEGER PRIMARY KEY, guid TEXT, pid INTEGER, type TEXT, type_index INTEGER, name TEXT, product_name TEXT, extdata TEXT);
INSERT INTO rocpd_info_agent_a VALUES (1, 'g', 1, 'CPU', 0, 'EPYC', '', '{}'), (3, 'g', 1, 'GPU', 0, 'gfx942', 'MI300X', '{}'), (4, 'g', 1, 'GPU', 1, 'gfx942', 'MI300X', %s);
CREATE TABLE rocpd_info_kernel_symbol_a (id INTEGER PRIMARY KEY, guid TEXT, kernel_name TEXT, display_name TEXT, arch_vgpr_count INTEGER, accum_vgpr_count INTEGER);
INSERT INTO rocpd_info_kernel_symbol_a VALUES (10, 'g', '_Z1k.kd', 'k()', 32, 4);
CREATE TABLE rocpd_track_a (id INTEGER PRIMARY KEY, guid TEXT, nid INTEGER, ppid INTEGER, pid INTEGER, tid INTEGER, agent_id INTEGER, queue_id INTEGER, stream_id INTEGER, name_id INTEGER);
INSERT INTO rocpd_track_a VALUES (1, 'g', 1, NULL, 1, 1, NULL, NULL, NULL, NULL), (2, 'g', 1, NULL, 1, 1, 3, 5, 6, NULL), (3, 'g', 1, NULL, 1, 1, 4, 7, 8, NULL);
CREATE TABLE rocpd_event_a (id INTEGER PRIMARY KEY, guid TEXT, category_id INTEGER, stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, extdata TEXT);
INSERT INTO rocpd_event_a VALUES (1, 'g', 1, 50, 0, 0, '{}'), (2, 'g', NULL, 50, 0, 0, '{}'), (3, 'g', 2, 60, 0, 0, '{"message":"step"}'), (4, 'g', NULL, 51, 0, 0, '{}');
CREATE TABLE rocpd_kernel_dispatch_a (id INTEGER PRIMARY KEY, guid TEXT, track_id INTEGER, kernel_id INTEGER, dispatch_id INTEGER, start BIGINT, "end" BIGINT, group_segment_size INTEGER, workgroup_size_x INTEGER, workgroup_size_y INTEGER, workgroup_size_z INTEGER, grid_size_x INTEGER, grid_size_y INTEGER, grid_size_z INTEGER, event_id INTEGER);
INSERT INTO rocpd_kernel_dispatch_a VALUES (1, 'g', 2, 10, 1, 1100, 1190, 512, 256, 1, 1, 1000, 1, 1, 2), (2, 'g', 3, 10, 2, 1110, 1200, 0, 64, 1, 1, 64, 1, 1, 4);
CREATE TABLE rocpd_memory_copy_a (id INTEGER PRIMARY KEY, guid TEXT, track_id INTEGER, start BIGINT, "end" BIGINT, name_id INTEGER, dst_agent_id INTEGER, src_agent_id INTEGER, size INTEGER, event_id INTEGER);
INSERT INTO rocpd_memory_copy_a VALUES (1, 'g', 3, 1210, 1220, 3, 1, 4, 64, NULL);
CREATE TABLE rocpd_memory_allocate_a (id INTEGER PRIMARY KEY, guid TEXT, track_id INTEGER, type TEXT, level TEXT, start BIGINT, "end" BIGINT);
INSERT INTO rocpd_memory_allocate_a VALUES (1, 'g', 1, 'ALLOC', 'REAL', 1001, 1002);
CREATE TABLE rocpd_region_a (id INTEGER PRIMARY KEY, guid TEXT, track_id INTEGER, name_id INTEGER, start BIGINT, "end" BIGINT, event_id INTEGER);
INSERT INTO rocpd_region_a VALUES (1, 'g', 1, 1, 1010, 1020, 1), (2, 'g', 1, 2, 1000, 1300, 3);
`

func script41(t testing.TB) string {
	t.Helper()
	var b bytes.Buffer
	w := lz4.NewWriter(&b)
	if _, err := w.Write([]byte(`{"cu_count":304}`)); err != nil {
		t.Fatal(err)
	}
	must.Do(t, w.Close())
	return fmt.Sprintf(rocpd41, fmt.Sprintf("X'%X'", b.Bytes()))
}

func TestReadRocpd41(t *testing.T) {
	path := sqldbtest.Create(t, "x.db", script41(t))
	run := must.Have(readDB(path))(t)
	checkRun(t, run)
	want := `rank 0 MI300X
rank 1 MI300X
0/0 thread 77.0 marker "step" 0-300
0/0 annotation 0.0 marker "ALLOC REAL" 1-2
0/0 thread 77.0 launch "hipLaunchKernel" 10-20 in "step"
0/0 queue 5.0 compute "k()" 100-190 grid [4 1 1] block [256 1 1] lds 512 vgprs 36 stream 6 corr 50
1/1 queue 7.0 compute "k()" 110-200 grid [1 1 1] block [64 1 1] lds 0 vgprs 36 stream 8 corr 51
1/1 engine 2.0 copy "MEMORY_COPY_DEVICE_TO_HOST" 210-220 device to host bytes 64 corr 0
noted ` + path + `: ranks are numbered by process and GPU: the files have no rank ids ×1  [0]
`
	if diff := cmp.Diff(want, describe(run)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if cus := run.Ranks[1].Device.CUs; cus != 304 {
		t.Errorf("%d CUs in the compressed properties", cus)
	}
}

func TestReadRocpdSchemaErrors(t *testing.T) {
	base := rocpdScript("_a", "{}", 80, 1000) + hipEvents
	for _, c := range []struct{ script, want string }{
		{base + "UPDATE rocpd_metadata_a SET value = '5.0.0' WHERE id = 1;", `a version that is not known: 3 and 4 are (schema_version "5.0.0" of rocpd)`},
		{base + "ALTER TABLE rocpd_kernel_dispatch_a RENAME COLUMN agent_id TO device;", `table rocpd_kernel_dispatch_a has no column agent_id or track_id (schema_version "3.0.4" of rocpd)`},
		{base + "ALTER TABLE rocpd_hip_event_a DROP COLUMN source_queue_id;", `table rocpd_hip_event_a has no column source_queue_id (`},
		{script41(t) + "ALTER TABLE rocpd_region_a DROP COLUMN track_id;", `table rocpd_region_a has no column pid or track_id (schema_version "4.1.0" of rocpd)`},
		{script41(t) + "DROP TABLE rocpd_track_a;", `table rocpd_track_a, of the column track_id, is missing (`},
	} {
		path := sqldbtest.Create(t, "x.db", c.script)
		_, err := readDB(path)
		var syntax *trace.SyntaxError
		if !errors.As(err, &syntax) || !strings.HasPrefix(err.Error(), path+": "+c.want) {
			t.Errorf("error %v\nwant  %s: %s", err, path, c.want)
		}
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
	fromCSV, err := ReadCSV("1", textFile("1_kernel_trace.csv", `"Kind","Agent_Id","Queue_Id","Kernel_Name","Correlation_Id","Graph_Exec_Id","Graph_Node_Id","Start_Timestamp","End_Timestamp"
"KERNEL_DISPATCH","Agent 4",1,"a",3,1,0,1000,1100
"KERNEL_DISPATCH","Agent 4",1,"b",3,1,1,1200,1300
"KERNEL_DISPATCH","Agent 4",1,"c",7,"","",1400,1500
`))
	if err != nil {
		t.Fatal(err)
	}
	for i, run := range []*trace.Run{fromJSON, fromCSV} {
		checkRun(t, run)
		first := 2 - 2*trace.SpanID(i) // behind the calls
		if diff := cmp.Diff([]trace.Node{{Span: first, Graph: 1}, {Span: first + 1, Graph: 1, Number: 1}}, run.Nodes); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if len(fromJSON.Spans) != 5 || fromJSON.NameOf(fromJSON.Spans[0]) != "hipGraphLaunch" || fromJSON.LaunchOf(fromJSON.Spans[3]) != 0 {
		t.Errorf("%d spans, the first is %q", len(fromJSON.Spans), fromJSON.NameOf(fromJSON.Spans[0]))
	}
}

func TestReadCSVEvents(t *testing.T) {
	run, err := ReadCSV("1", textFile("1_kernel_trace.csv", `"Kind","Agent_Id","Queue_Id","Stream_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"
"KERNEL_DISPATCH","Agent 4",1,1,"a",3,1000,2000
"KERNEL_DISPATCH","Agent 4",2,2,"b",7,2100,3000
`), textFile("1_hip_event_trace.csv", `"Kind","Operation","Agent_Id","Queue_Id","Source_Queue_Id","Stream_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"HIP_EVENT","HIP_EVENT_WAIT","Agent 4",2,1,2,6,1500,2050
"HIP_EVENT","HIP_EVENT_RECORD","Agent 4",1,1,1,4,1400,2010
"HIP_EVENT","HIP_EVENT_RECORD","Agent 4",1,1,1,4,,
`))
	if err != nil {
		t.Fatal(err)
	}
	checkRun(t, run)
	want := []trace.Wait{{Device: 4, Start: 500, End: 1050, Stream: 2, On: 1, Record: 4, Correlation: 6, Call: trace.None, Recorded: trace.None}}
	if diff := cmp.Diff(want, run.Waits); diff != "" || run.Ledger.Count(trace.Skipped) != 1 {
		t.Errorf("ledger %v; -want +got:\n%s", run.Ledger.Entries, diff)
	}
}
