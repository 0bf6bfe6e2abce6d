package layout

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// schedule is a simulated run of a GEMM of two workgroups, which is operation 3, and a
// collective, which is operation 5, from a time on.
func schedule(name string, from, gemm, wait, comm trace.Time) *trace.Run {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: 0, World: 2})
	add := func(k trace.Kind, name string, lane trace.LaneID, parent trace.SpanID, attr int32, start, end trace.Time) trace.SpanID {
		return b.Add(trace.Span{Kind: k, Name: b.Intern(name), Lane: lane, Parent: parent, Attr: attr, Start: start, End: end})
	}
	kernel := func(op int32) int32 {
		return b.AddKernel(trace.Kernel{Origin: op, Op: trace.None, Comm: trace.None})
	}
	queue := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: 7, Peer: trace.None})
	add(trace.Compute, "before", queue, trace.None, kernel(1), 0, from/2)
	k := add(trace.Compute, "void ns::gemm<int>(T)", queue, trace.None, kernel(3), from, from+gemm)
	for wg := range trace.Time(2) {
		lane := b.Lane(trace.Lane{Kind: trace.Persistent, Rank: rank, ID: int64(wg), Peer: trace.None})
		attr := b.AddWorkgroup(trace.WorkgroupAttr{ID: int32(wg), Persistent: int32(wg), CU: 0, Peer: trace.None, Row: trace.None, Col: trace.None})
		add(trace.Workgroup, "gemm", lane, k, attr, from, from+gemm-10*wg)
	}
	start := from + gemm + wait
	add(trace.Collective, "all_reduce", queue, trace.None, kernel(5), start, start+comm)
	return b.Finish(trace.Options{Name: name, Simulated: true, KeepZero: true})
}

// Comparing a part of indexed views does not take memory for every span of the run.
func TestComparedIsIndexed(t *testing.T) {
	const kernels = 2000
	var b trace.Builder
	lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: b.AddRank(trace.Rank{World: 1}), ID: 7, Peer: trace.None})
	for op := range int32(kernels) {
		attr := b.AddKernel(trace.Kernel{Origin: op, Op: trace.None, Comm: trace.None})
		b.Add(trace.Span{Kind: trace.Compute, Name: b.Intern("gemm"), Lane: lane, Parent: trace.None, Attr: attr, Start: trace.Time(op) * 10, End: trace.Time(op)*10 + 9})
	}
	views := Indexed([]View{{Run: b.Finish(trace.Options{Simulated: true})}})
	each := func(op int32) {
		tl, err := Compared(views, 0, Part{Name: "gemm", Ops: []int32{op}}, 0)
		if err != nil || tl.End != 9 {
			t.Fatalf("%v, %v", tl, err)
		}
	}
	each(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for op := range int32(kernels) {
		each(op)
	}
	runtime.ReadMemStats(&after)
	if per := (after.TotalAlloc - before.TotalAlloc) / kernels; per > 4*kernels {
		t.Errorf("%d bytes a part of a run of %d spans", per, kernels)
	}
}

// Defect 2: a pair is compared on one clock from the start of its first kernel, the same
// one for every run.
func TestCompared(t *testing.T) {
	views := []View{
		{Run: schedule("bulk", 1000, 100, 10, 50)},
		{Run: capturedOnly()},
		{Run: schedule("fused", 300, 120, 0, 0)},
	}
	testCompared(t, views)
	views = Indexed(views)
	testCompared(t, views)
	testCompared(t, views)
}

func testCompared(t *testing.T, views []View) {
	t.Helper()
	parts := PartsOf(views, 0)
	if len(parts) != 1 || parts[0].Name != "gemm, operation 3" || len(parts[0].Ops) != 1 {
		t.Fatalf("the parts are %+v", parts)
	}
	pair := Part{Name: "pair 1", Ops: []int32{3, 5}}
	tl := must.Have(Compared(views, 0, pair, 0))(t)
	var got strings.Builder
	for i, row := range tl.Rows {
		fmt.Fprintf(&got, "%s%s:", strings.Repeat("  ", row.Depth), row.Label)
		for _, id := range row.Spans {
			s := tl.Span(i, id)
			fmt.Fprintf(&got, " %d-%d", s.Start+tl.Offset(i), s.End+tl.Offset(i))
		}
		fmt.Fprintln(&got)
	}
	want := `bulk  160 ns: 0-100 110-160
  gemm (2): 0-100
    WG 1: 0-90
    WG 0: 0-100
  all_reduce: 110-160
fused  120 ns  -25.0 %: 0-120 120-120
  gemm (2): 0-120
    WG 1: 0-110
    WG 0: 0-120
  all_reduce: 120-120
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if tl.Start != 0 || tl.End != 160 || pair.Length(views, 0) != 160 {
		t.Errorf("the axis is %d to %d, the part %d long", tl.Start, tl.End, pair.Length(views, 0))
	}
	if one, err := Compared(views, 0, pair, 1); err != nil || len(one.Rows) != 8 {
		t.Errorf("with one workgroup each: %v, %v", one, err)
	}
	if _, err := Compared(views, 0, Part{Name: "pair 2", Ops: []int32{9}}, 0); err == nil || err.Error() != "no run has pair 2 on rank row 0" {
		t.Errorf("a part that nobody has: %v", err)
	}
	if got := fmt.Sprint(tl.Rows[0].Largest); got != "[transfer 50 ns idle: unknown 10 ns]" {
		t.Errorf("the largest gaps are %q", got)
	}
}

func capturedOnly() *trace.Run { return timelineOf("CC") }
