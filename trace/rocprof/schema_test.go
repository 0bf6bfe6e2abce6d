package rocprof

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

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
