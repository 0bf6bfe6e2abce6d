package lift

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

var (
	allReduce = &trace.Comm{Op: trace.AllReduce, Group: trace.None, Peer: trace.None, In: 64, Out: 64, ElemSize: 2}
	comms     = map[byte]part{'C': {comm: allReduce}, 'D': {comm: allReduce}}
)

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		want string
	}{
		{
			"one queue",
			`0 7 |..AAA.BB.C|`,
			`A: -; gap 2
			 B: A stream; gap 1
			 C: B stream; gap 1`,
		},
		{
			"a collective waits for the stream that launched it",
			`0 host |a b c   e            |
			 0 7    |    AAAABBBB EEEE    |
			 0 19   |               CCC   |`,
			`A: -; gap 4
			 B: A stream; gap 0
			 E: B stream; gap 1
			 C: B enqueue; gap 3`,
		},
		{
			"what a collective was launched behind may be long over",
			`0 host |a  c b     |
			 0 7    | AA  BBBBB |
			 0 19   |      CCC  |`,
			`A: -; gap 1
			 B: A stream; gap 2
			 C: A enqueue; gap 3`,
		},
		{
			"the times deny what the host suggests",
			`0 host |a b c      |
			 0 7    |  AABBBBB  |
			 0 19   |     CCC   |`,
			`A: -; gap 2
			 B: A stream; gap 0
			 C: -; gap 5`,
		},
		{
			"the host makes the stream wait",
			`0 host |a c w b     |
			 0 7    | AA      BB |
			 0 19   |   CCCCC    |`,
			`A: -; gap 1
			 C: A enqueue; gap 0
			 B: A stream, C wait; gap 1`,
		},
		{
			"no wait, no dependency, however close in time",
			`0 host |a c w b  e  |
			 0 7    | AA      BBE|
			 0 19   |   CCCCC D  |`,
			`A: -; gap 1
			 C: A enqueue; gap 0
			 D: C stream; gap 1
			 B: A stream, C wait; gap 1
			 E: B stream; gap 0`,
		},
		{
			"a wait is for the last that could be meant",
			`0 host |a c b d w e          |
			 0 7    | AABBBBBBBBBBB   EEE |
			 0 19   |   CCCCDDDDDDDDDDDDD |`,
			`A: -; gap 1
			 C: A enqueue; gap 0
			 B: A stream; gap 0
			 D: C stream; gap 0
			 E: C wait, B stream; gap 3`,
		},
		{
			"a collective inherits what its launching stream waits for",
			`0 host |a c w d b        |
			 0 7    | AA          BB  |
			 0 19   |   CCC           |
			 0 23   |       DDD       |`,
			`A: -; gap 1
			 C: A enqueue; gap 0
			 D: A enqueue, C wait; gap 1
			 B: A stream, C wait; gap 7`,
		},
		{
			"without the host's calls, adjacency in time tells",
			`0 7    | AAAA          BB |
			 0 19   |      CCCCCCCC    |`,
			`A: -; gap 1
			 C: A time; gap 1
			 B: A stream, C time; gap 1`,
		},
		{
			"what was issued long before and starts behind a collective waited for it",
			`0 host |a c b w                             |
			 0 7    | AA                              BB |
			 0 19   |   CCCCCCCCCCCCCCCCCCCCCCCCCCCCCC   |`,
			`A: -; gap 1
			 C: A enqueue; gap 0
			 B: A stream, C time; gap 0`,
		},
		{
			"what was issued as the collective ended did not",
			`0 host |a c                     b   w       |
			 0 7    | AA                              BB |
			 0 19   |   CCCCCCCCCCCCCCCCCCCCCCCCCCCCCC   |`,
			`A: -; gap 1
			 C: A enqueue; gap 0
			 B: A stream; gap 30`,
		},
		{
			"but not over a pause, nor behind a busy stream",
			`0 7    | AA                          BBBB |
			 0 19   |                          CCC  DD |`,
			`A: -; gap 1
			 C: -; gap 26
			 B: A stream, C time; gap 0
			 D: C stream; gap 2`,
		},
		{
			"ops that overlap on one queue",
			`0 7 |.AAAA      |
			 0 7 |..BB       |
			 0 7 |....EE     |
			 0 7 |.......FF  |`,
			`A: -; gap 1
			 B: -; gap 2
			 E: B stream; gap 0
			 F: E stream; gap 1`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := lift(t, drawing{text: c.text, parts: comms}, Options{})
			sameText(t, "after", after(w, 0), c.want)
		})
	}
}

// Collectives of one communicator run in the order of their launches, whatever their streams; those of others, and
// messages, do not.
func TestOrderOfCommunicators(t *testing.T) {
	groups := []trace.Group{{Name: "0", Ranks: []int{0}, Size: 1}, {Name: "1", Ranks: []int{0}, Size: 1}}
	of := func(op trace.CollectiveOp, group int32) part {
		return part{comm: &trace.Comm{Op: op, Group: group, Peer: trace.None, In: 64, Out: 64, ElemSize: 2}}
	}
	for _, c := range []struct {
		name string
		d    part
		want string
	}{
		{"one communicator", of(trace.AllGather, 0), "C: A enqueue; gap 0\n D: A enqueue, C enqueue; gap 0"},
		{"another communicator", of(trace.AllGather, 1), "C: A enqueue; gap 0\n D: A enqueue; gap 4"},
		{"messages", of(trace.SendRecv, 0), "C: A enqueue; gap 0\n D: A enqueue; gap 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := lift(t, drawing{text: `
				0 host |acd        |
				0 7    | AA        |
				0 19   |   CCCC    |
				0 23   |       DDD |`, parts: map[byte]part{'C': of(trace.AllGather, 0), 'D': c.d}, groups: groups}, Options{})
			sameText(t, "after", after(w, 0), "A: -; gap 1\n "+c.want)
		})
	}
}

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
