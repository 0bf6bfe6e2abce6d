package overlap

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
)

// A captured launch, a stream that waits for another rank's kernel, and a workgroup that
// waits for a put.
func TestEdges(t *testing.T) {
	var b trace.Builder
	for r := range 2 {
		b.AddRank(trace.Rank{ID: r})
	}
	queue := func(rank int32) trace.LaneID {
		return b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: 7, Peer: trace.None, Name: "stream 7"})
	}
	add := func(k trace.Kind, name string, lane trace.LaneID, parent trace.SpanID, start, end trace.Time) trace.SpanID {
		return b.Add(trace.Span{Kind: k, Start: start, End: end, Name: b.Intern(name), Lane: lane, Parent: parent, Attr: trace.None})
	}
	add(trace.Compute, "early", queue(1), trace.None, 0, 10)
	a := add(trace.Compute, "A", queue(1), trace.None, 20, 60)
	wg1 := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: 1, ID: 0, Peer: trace.None})
	w := add(trace.Workgroup, "A", wg1, a, 20, 60)
	add(trace.PhasePut, "put", wg1, w, 30, 30)
	add(trace.PhasePut, "put", wg1, w, 55, 55)
	c := add(trace.Compute, "B", queue(0), trace.None, 70, 100)
	wg0 := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: 0, ID: 0, Peer: trace.None})
	w = add(trace.Workgroup, "B", wg0, c, 70, 100)
	add(trace.PhaseWait, `slice 3, posted by GPU 1 "A"`, wg0, w, 72, 80)
	add(trace.PhaseWait, `slice 3, posted by GPU 9 "A"`, wg0, w, 82, 84)
	add(trace.PhaseWait, `odd "posted by GPU`, wg0, w, 85, 86)
	run := b.Finish(trace.Options{Simulated: true, KeepZero: true})
	var got strings.Builder
	for _, e := range Edges(run, []Reason{
		{Rank: 0, Queue: 7, Start: 0, End: 70, Cause: "peer skew", Note: `posted by GPU 1 stream "stream 7"`},
		{Rank: 0, Queue: 7, Start: 0, End: 170, Cause: "flag", Note: `posted by GPU 1 "A"`}, // nothing follows
		{Rank: 5, Note: `posted by GPU 1 "A"`},
	}, 100) {
		fmt.Fprintf(&got, "%s %s@%d > %s@%d\n", e.Kind, run.NameOf(run.Spans[e.From]), e.Left, run.NameOf(run.Spans[e.To]), e.Landed)
	}
	want := "flag A@60 > B@70\nput put@55 > slice 3, posted by GPU 1 \"A\"@80\n"
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if n := len(Edges(run, nil, 0)); n != 0 {
		t.Errorf("%d edges of none", n)
	}
}

func TestCounters(t *testing.T) {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0})
	lane := func(id int64) trace.LaneID {
		return b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: id, Peer: trace.None})
	}
	row := b.AddCopy(trace.CopyAttr{Bytes: 1000, Dir: trace.PeerToPeer, Peer: 1, Op: trace.None, Origin: trace.None})
	for _, s := range []trace.Span{
		{Kind: trace.Compute, Lane: lane(0), Start: 0, End: 10, Attr: trace.None},
		{Kind: trace.Compute, Lane: lane(0), Start: 10, End: 20, Attr: trace.None},
		{Kind: trace.Compute, Lane: lane(1), Start: 5, End: 15, Attr: trace.None},
		{Kind: trace.Copy, Lane: lane(2), Start: 15, End: 25, Attr: row},
	} {
		s.Name, s.Parent = b.Intern("k"), trace.None
		b.Add(s)
	}
	run := b.Finish(trace.Options{KeepZero: true})
	want := []Counter{
		{0, runningKernels, []point{{0, 1}, {5, 2}, {15, 1}, {20, 0}}},
		{0, RunningComm, []point{{15, 1}, {25, 0}}},
		{0, Bandwidth, []point{{15, 100}, {25, 0}}},
	}
	if diff := cmp.Diff(want, Counters(run, 10)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got, want := Counters(run, 3)[0].Points, []point{{0, 13.0 / 9}, {9, 15.0 / 9}, {18, 2.0 / 9}}; cmp.Diff(want, got) != "" {
		t.Errorf("means are %v, want %v", got, want)
	}
}
