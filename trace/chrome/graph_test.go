package chrome

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A graph of five nodes as PyTorch's CUPTI exporter writes it (torch/profiler/_cupti/monitor_trace.py):
// a GEMM, a collective and a copy on rows for display behind it, an event behind the collective, a
// GEMM behind the event and the copy; launched twice. Times are in microseconds of decimal fractions.
func graphFile() string {
	var events []string
	add := func(format string, args ...any) { events = append(events, fmt.Sprintf(format, args...)) }
	flow := 0
	arrow := func(fromRow int, end string, toRow int, start string) {
		add(`{"ph":"s","id":%d,"pid":0,"tid":%d,"ts":%s,"cat":"ac2g","name":"ac2g"}`, 1<<40+flow, fromRow, end)
		add(`{"ph":"f","id":%d,"pid":0,"tid":%d,"ts":%s,"cat":"ac2g","name":"ac2g","bp":"e"}`, 1<<40+flow, toRow, start)
		flow++
	}
	for launch := range 2 {
		t, c := 100*launch, 11+launch
		work := func(cat, name string, row, start, dur, node int, more string) {
			add(`{"ph":"X","cat":%q,"name":%q,"pid":0,"tid":%d,"ts":%d.125,"dur":%d.25,"args":{"device":0,"context":1,"stream":%d,"correlation":%d,"graph id":5,"graph node id":%d%s}}`,
				cat, name, row, t+start, dur, row, c, 5<<32+node, more)
		}
		work("kernel", "gemm_a", 7, 10, 20, 1, `,"grid":[4,1,1],"block":[128,1,1]`)
		work("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 100008, 40, 20, 2, `,"original_stream":33,`+
			`"annotation":"[{\"name\":\"tp\",\"stream\":\"100008\",\"Collective name\":\"allreduce\",\"In msg nelems\":\"1024\",\"Out msg nelems\":\"1024\",\"dtype\":\"bfloat16\",\"Group size\":\"2\",\"Process Group Name\":\"tp\",\"Process Group Ranks\":\"[0, 1]\",\"Seq\":\"3\"}]"`)
		work("gpu_memcpy", "Memcpy", 100008, 35, 3, 3, `,"original_stream":34,"bytes":64,"copy kind":"PtoP","src kind":"device","dst kind":"device"`)
		work("graph_event_node", "EventRecord", 7, 61, 0, 4, "")
		work("kernel", "gemm_b", 7, 70, 20, 5, "")
		at := func(n int, fraction string) string { return fmt.Sprintf("%d.%s", t+n, fraction) }
		arrow(7, at(30, "375"), 100008, at(40, "125"))
		arrow(7, at(30, "376"), 100008, at(35, "125")) // a nanosecond off, as the exporter rounds
		arrow(100008, at(60, "375"), 7, at(61, "125"))
		arrow(7, at(61, "375"), 7, at(70, "125"))
		arrow(100008, at(38, "375"), 7, at(70, "125"))
		arrow(7, at(99, "0"), 7, at(70, "125")) // from a node that the file lacks
		add(`{"ph":"X","cat":"cuda_runtime","name":"cudaGraphLaunch","pid":9,"tid":9,"ts":%d,"dur":5,"args":{"cbid":311,"correlation":%d}}`, t, c)
		add(`{"ph":"s","id":%d,"pid":9,"tid":9,"ts":%d,"cat":"ac2g","name":"ac2g"}`, c, t)
		add(`{"ph":"f","id":%d,"pid":0,"tid":7,"ts":%d.125,"cat":"ac2g","name":"ac2g","bp":"e"}`, c, t+10)
	}
	return `{"schemaVersion":1,"cudaGraphInlineAnnotated":true,"distributedInfo":{"rank":0,"world_size":2},"traceEvents":[` + strings.Join(events, ",\n") + `]}`
}

func TestGraphNodes(t *testing.T) {
	run := must.Have(Read(strings.NewReader(graphFile()), Options{File: "rank0.json"}))(t)
	must.Do(t, trace.Validate(run))
	name := func(id trace.SpanID) string { return strings.SplitN(run.NameOf(run.Spans[id]), "_", 2)[0] }
	of := func(id trace.SpanID) string {
		s := run.Spans[id]
		return fmt.Sprintf("%s%s@%d", name(id), strings.TrimPrefix(run.NameOf(s), name(id))[:min(2, len(run.NameOf(s))-len(name(id)))], s.Start/1000)
	}
	var got []string
	for _, d := range run.Depends {
		got = append(got, of(d.To)+" after "+of(d.From))
	}
	want := []string{ // the first span starts at 0
		"Memcpy@35 after gemm_a@10", "ncclDevKernel_A@40 after gemm_a@10", "gemm_b@70 after Memcpy@35", "gemm_b@70 after ncclDevKernel_A@40",
		"Memcpy@135 after gemm_a@110", "ncclDevKernel_A@140 after gemm_a@110", "gemm_b@170 after Memcpy@135", "gemm_b@170 after ncclDevKernel_A@140",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dependencies -want +got\n%s", diff)
	}
	for i, s := range run.Spans {
		n, ok := run.NodeOf(trace.SpanID(i))
		if ok != s.Kind.OnDevice() || ok && n.Graph != 5 {
			t.Errorf("%s: node %v", of(trace.SpanID(i)), n)
		}
		switch s.Kind {
		case trace.Collective:
			c, k := run.Comm(s), run.Kernel(s)
			if c.Op != trace.AllReduce || c.In != 2048 || c.Group == trace.None || len(run.Groups[c.Group].Ranks) != 2 || run.Setup(k).Stream != 33 || run.Lanes[s.Lane].ID != 33 || k.Launch == trace.None {
				t.Errorf("collective %+v on stream %d", *c, run.Setup(k).Stream)
			}
		case trace.Copy:
			if c := run.Copy(s); c.Dir != trace.PeerToPeer || c.Stream != 34 || run.Class(s) != trace.ClassCommunication {
				t.Errorf("copy %+v", *c)
			}
		}
	}
	if skipped := run.Ledger.Count(trace.Skipped); skipped != 4 { // both ends, in both launches
		t.Errorf("%d events skipped: %v", skipped, run.Ledger.Entries)
	}
	if diff := sameRun(run, writeRead(t, run)); diff != "" {
		t.Errorf("after writing and reading\n%s", diff)
	}
}
