package lift

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// PyTorch's own calls while it enqueues a collective make NCCL's stream wait;
// only those in a call of their own make the compute stream wait.
func TestOrderOfFrameworkCalls(t *testing.T) {
	const us = 1000
	var b trace.Builder
	rank := b.AddRank(trace.Rank{})
	host := b.Lane(trace.Lane{Kind: trace.HostThread, Rank: rank, Peer: trace.None})
	call := func(name string, kind trace.Kind, at, end trace.Time, correlation, external int64, parent trace.SpanID) trace.SpanID {
		row := b.AddCall(trace.Call{Correlation: correlation, External: external, Op: trace.None})
		return b.Add(trace.Span{Start: at * us, End: end * us, Name: b.Intern(name), Lane: host, Parent: parent, Attr: row, Kind: kind})
	}
	kernel := func(name string, kind trace.Kind, queue int64, at, end trace.Time, correlation int64) {
		row := b.AddKernel(trace.Kernel{Correlation: correlation, Comm: trace.None, Op: trace.None})
		lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: queue, Peer: trace.None})
		b.Add(trace.Span{Start: at * us, End: end * us, Name: b.Intern(name), Lane: lane, Parent: trace.None, Attr: row, Kind: kind})
	}
	none := trace.SpanID(trace.None)
	call("launch", trace.Launch, 0, 1, 1, 0, none)
	enqueue := call("record_param_comms", trace.HostCall, 2, 9, 0, 50, none)
	call("cudaStreamWaitEvent", trace.HostCall, 3, 4, 0, 0, enqueue)
	call("launch", trace.Launch, 5, 6, 2, 50, enqueue)
	call("cudaStreamWaitEvent", trace.HostCall, 7, 8, 0, 0, enqueue) // by its parent
	call("cudaStreamWaitEvent", trace.HostCall, 9, 10, 0, 50, none)  // by its number
	call("launch", trace.Launch, 11, 12, 3, 0, none)                 // B, which waits for nothing
	wait := call("record_param_comms", trace.HostCall, 13, 15, 0, 52, none)
	call("cudaStreamWaitEvent", trace.HostCall, 14, 15, 0, 52, wait)
	call("launch", trace.Launch, 16, 17, 4, 0, none)
	kernel("A", trace.Compute, 7, 1, 4, 1)
	kernel("C", trace.Collective, 19, 6, 9, 2)
	kernel("H", trace.Compute, 8, 6, 7, 0) // of another stream, not launched by anybody
	kernel("B", trace.Compute, 7, 12, 14, 3)
	kernel("E", trace.Compute, 7, 17, 18, 4)
	w := must.Have(Workload(b.Finish(trace.Options{KeepZero: true}), Options{}))(t)
	checkInvariants(t, w)
	sameText(t, "after", after(w, 0), `
		A: -; gap 1
		H: A time; gap 2
		C: A enqueue; gap 2
		B: A stream; gap 8
		E: C wait, B stream; gap 3`)
}

func TestQueuesOfTwoDevices(t *testing.T) {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{})
	for device := range int32(2) {
		lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, Device: device, ID: 7, Peer: trace.None})
		b.Add(trace.Span{Start: 0, End: 10, Name: b.Intern("k"), Lane: lane, Parent: trace.None, Attr: trace.None, Kind: trace.Compute})
	}
	w := must.Have(Workload(b.Finish(trace.Options{}), Options{}))(t)
	if a, b := w.Ops[0].Queue, w.Ops[1].Queue; a != 7 || b != 8 {
		t.Errorf("queues %d and %d, want 7 and 8", a, b)
	}
}

// What a file says of events is exact: an operation waits for what the other stream had been given
// when the event was recorded, not for what ended last.
func TestOrderOfRecordedEvents(t *testing.T) {
	const text = `
		0 7    | AAA BBB     EEE |
		0 9    |         CCC     |
		0 11   |  XX             |`
	run := drawing{text: text}.run(t)
	wait := func(stream, on int64, record, correlation byte) trace.Wait {
		return trace.Wait{Stream: stream, On: on, Record: correlationOf(record), Correlation: correlationOf(correlation), Call: trace.None, Recorded: trace.None}
	}
	run.Waits = []trace.Wait{
		wait(9, 7, 'B', 'C'),  // recorded before B was issued
		wait(7, 9, 'D', 'E'),  // after C
		wait(11, 7, 'B', 'X'), // denied by the times: A had not ended
		wait(9, 8, 'B', 'C'),  // for a stream without work
		wait(7, 11, 'A', 'E'), // for what was not issued yet
		wait(-1, 7, 'B', 'C'), // of the host
		wait(9, 7, 'B', 'z'),  // nothing came behind it
		{Stream: 9, On: 7},    // without calls
		{Stream: 9, On: 7, Record: correlationOf('B'), Correlation: correlationOf('C'), Device: 1},
	}
	w := must.Have(Workload(run, Options{}))(t)
	checkInvariants(t, w)
	sameText(t, "after", after(w, 0), `
		A: -; gap 1
		X: -; gap 2
		B: A stream; gap 1
		C: A event; gap 5
		E: B stream, C event; gap 1`)
	for id, want := range map[int32]workload.Edge{
		3: {Op: 0, Kind: workload.ReadAfterWrite, Evidence: workload.Exact},
		4: {Op: 3, Kind: workload.ReadAfterWrite, Evidence: workload.Exact},
	} {
		if !slices.Contains(w.Edges(id), want) {
			t.Errorf("op %d: edges %+v, want one that is %+v", id, w.Edges(id), want)
		}
	}
}
