package lift

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// A spec is a span with its side row, not yet in a run.
type spec struct {
	span   trace.Span
	name   string
	lane   trace.Lane
	parent int // index of another spec, or -1
	kernel trace.Kernel
	setup  trace.Setup
	comm   *trace.Comm
	copy   trace.CopyAttr
	call   trace.Call
	bare   bool // no side row
}

type specs struct {
	ranks  []trace.Rank
	groups []trace.Group
	ops    []trace.Operator
	spans  []spec
}

// build makes the run, its spans added in the given order.
func (s *specs) build(order []int) *trace.Run {
	var b trace.Builder
	for _, r := range s.ranks {
		b.AddRank(r)
	}
	for _, g := range s.groups {
		b.AddGroup(g)
	}
	for _, o := range s.ops {
		b.AddOperator(o)
	}
	at := make([]trace.SpanID, len(s.spans))
	for pos, i := range order {
		at[i] = trace.SpanID(pos)
	}
	for _, i := range order {
		p := s.spans[i]
		p.span.Name, p.span.Lane = b.Intern(p.name), b.Lane(p.lane)
		p.span.Parent, p.span.Attr = trace.None, trace.None
		if p.parent >= 0 {
			p.span.Parent = at[p.parent]
		}
		if !p.bare {
			switch p.span.Kind {
			case trace.Compute, trace.Collective:
				if p.comm != nil {
					p.kernel.Comm = b.AddComm(*p.comm)
				}
				p.kernel.Setup = b.AddSetup(p.setup)
				p.span.Attr = b.AddKernel(p.kernel)
			case trace.Copy:
				p.span.Attr = b.AddCopy(p.copy)
			case trace.HostCall, trace.Launch:
				p.span.Attr = b.AddCall(p.call)
			}
		}
		b.Add(p.span)
	}
	return b.Finish(trace.Options{KeepZero: true})
}

func drawSpecs(t *rapid.T) *specs {
	s := &specs{}
	n := rapid.IntRange(1, 4).Draw(t, "ranks")
	for i := range n {
		r := trace.Rank{ID: i, World: rapid.IntRange(0, 6).Draw(t, "world")}
		if rapid.IntRange(0, 5).Draw(t, "odd rank") == 0 {
			r.ID = rapid.IntRange(-1, 7).Draw(t, "id")
		}
		if rapid.Bool().Draw(t, "device") {
			r.Device = h200
		}
		s.ranks = append(s.ranks, r)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "groups") {
		g := trace.Group{Name: fmt.Sprint("g", i), Size: rapid.IntRange(0, 5).Draw(t, "size")}
		if rapid.Bool().Draw(t, "known ranks") {
			g.Ranks = rapid.SliceOfNDistinct(rapid.IntRange(0, 7), 1, 4, rapid.ID[int]).Draw(t, "ranks of group")
			slices.Sort(g.Ranks)
			g.Size = len(g.Ranks)
		}
		s.groups = append(s.groups, g)
	}
	side := rapid.SampledFrom([]int64{-1, 0, 1, 8, 64, 4096, 1 << 62})
	for range 4 {
		s.ops = append(s.ops, trace.Operator{
			Name:  rapid.SampledFrom([]string{"aten::mm", "aten::bmm", "aten::linear", "aten::_embedding_bag", "aten::add", "aten::copy_"}).Draw(t, "operator"),
			Dims:  rapid.SliceOfN(rapid.SliceOfN(side, 0, 3), 0, 3).Draw(t, "dims"),
			Types: rapid.SliceOfN(rapid.SampledFrom([]string{"float", "c10::Half", "Scalar"}), 0, 3).Draw(t, "types"),
		})
	}
	for i := range rapid.IntRange(0, 40).Draw(t, "spans") {
		s.spans = append(s.spans, s.drawSpan(t, i))
	}
	return s
}

func (s *specs) drawSpan(t *rapid.T, i int) spec {
	start := trace.Time(rapid.IntRange(0, 30).Draw(t, "start"))
	kind := rapid.SampledFrom([]trace.Kind{
		trace.Compute, trace.Compute, trace.Collective, trace.Collective, trace.Copy,
		trace.Launch, trace.Launch, trace.HostCall, trace.Marker, trace.Workgroup, trace.Transfer,
	}).Draw(t, "kind")
	p := spec{
		span:   trace.Span{Kind: kind, Start: start * 1000, End: (start + trace.Time(rapid.IntRange(0, 9).Draw(t, "length"))) * 1000},
		parent: -1,
		lane:   trace.Lane{Rank: int32(rapid.IntRange(0, len(s.ranks)-1).Draw(t, "rank")), Peer: trace.None},
		bare:   rapid.IntRange(0, 9).Draw(t, "bare") == 0,
	}
	correlation := int64(rapid.IntRange(0, 12).Draw(t, "correlation"))
	operator := int32(rapid.IntRange(-1, len(s.ops)-1).Draw(t, "op"))
	switch kind {
	case trace.Launch, trace.HostCall, trace.Marker:
		p.lane.ID = int64(rapid.IntRange(0, 1).Draw(t, "thread"))
		p.name = rapid.SampledFrom([]string{"s#0", "s#1", "t#0", "call", "cudaStreamWaitEvent", "record_param_comms"}).Draw(t, "call")
		p.span.Start += trace.Time(i) // no two calls at a time
		p.span.End += trace.Time(i)
		p.call = trace.Call{External: correlation, Op: operator}
		if kind == trace.Launch {
			p.call.Correlation = int64(i%13) + 1
		}
		if i > 0 && rapid.Bool().Draw(t, "nested") {
			p.parent = rapid.IntRange(0, i-1).Draw(t, "parent")
		}
		if kind == trace.Marker && rapid.Bool().Draw(t, "above") {
			p.lane.Kind = trace.Annotation
		}
		return p
	}
	p.lane.Kind = rapid.SampledFrom([]trace.LaneKind{trace.Queue, trace.Queue, trace.Queue, trace.Engine}).Draw(t, "lane")
	p.lane.ID = int64(rapid.IntRange(0, 2).Draw(t, "queue"))
	p.lane.Device = int32(rapid.IntRange(0, 1).Draw(t, "device id"))
	name := rapid.SampledFrom([]string{"nvjet_sm90_tst_64x8_64x16", "gemm_64x64_x", "vectorized_elementwise_kernel", "emb_k", "k", "__amd_rocclr_x", "flash"})
	p.name = fmt.Sprintf("%s_%d", name.Draw(t, "kernel"), i) // no two ops alike
	p.copy = trace.CopyAttr{Bytes: rapid.Int64Range(-8, 8192).Draw(t, "bytes"), Correlation: correlation, Dir: trace.CopyDir(rapid.IntRange(0, 6).Draw(t, "dir")), Op: operator, Peer: trace.None}
	p.setup = trace.Setup{
		Grid: [3]int32{int32(rapid.IntRange(-1, 200).Draw(t, "grid")), 1, 1}, Block: [3]int32{int32(rapid.IntRange(0, 512).Draw(t, "block")), 1, 1},
		Shared: int32(rapid.IntRange(0, 200_000).Draw(t, "shared")),
	}
	p.kernel = trace.Kernel{Correlation: correlation, Comm: trace.None, Op: operator}
	if kind == trace.Collective && rapid.Bool().Draw(t, "known") {
		p.comm = &trace.Comm{
			Op:    trace.CollectiveOp(rapid.IntRange(0, 10).Draw(t, "operation")),
			Group: int32(rapid.IntRange(-1, len(s.groups)-1).Draw(t, "group")), Seq: int64(rapid.IntRange(0, 3).Draw(t, "seq")),
			In: side2(t), Out: side2(t), ElemSize: int32(rapid.IntRange(0, 4).Draw(t, "elem")), Peer: int32(rapid.IntRange(-1, 6).Draw(t, "peer")),
		}
	}
	return p
}

func side2(t *rapid.T) int64 {
	return rapid.SampledFrom([]int64{-4, 0, 64, 256, 1024, 32768}).Draw(t, "buffer")
}

// dump draws everything of a workload but rows of the run's tables.
func dump(w *workload.Workload) string {
	var b strings.Builder
	fmt.Fprintln(&b, w.World, w.Captured, w.Rows, w.Copies, w.Notes)
	for i := range w.Ops {
		op := w.Ops[i]
		fmt.Fprintf(&b, "%+v ", *op.Kernel)
		op.Span, op.Kernel = 0, nil
		fmt.Fprintf(&b, "%+v\n", op)
	}
	for i := range w.Collectives {
		fmt.Fprintf(&b, "%+v\n", w.Collectives[i])
	}
	for i := range w.Pairs {
		fmt.Fprintf(&b, "%+v\n", w.Pairs[i])
	}
	summary, err := json.Marshal(workload.Of(w, nil))
	fmt.Fprintf(&b, "%+v\n%s %v\n", w.Steps, summary, err)
	return b.String()
}

// firstDifference is the first line in which two texts differ.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return x[i] + "\nagainst\n" + y[i]
		}
	}
	return fmt.Sprintf("%d lines against %d", len(x), len(y))
}

// Lift takes any run, what it returns is consistent, and the order in which
// spans were recorded does not show.
func TestLiftAnyRun(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		s := drawSpecs(t)
		order := make([]int, len(s.spans))
		for i := range order {
			order[i] = i
		}
		world := rapid.SampledFrom([]int{0, 0, 1, 4, 9}).Draw(t, "world asked for")
		o := Options{World: world, Tiles: map[string]workload.Tiling{"k_3": {Tiles: 500}}, Shapes: map[string]workload.Shape{"k_2": {M: 64, N: 64, K: 8, ElemSize: 2}}}
		w, err := Workload(s.build(order), o)
		if err != nil {
			if world == 0 || world >= len(s.ranks) {
				t.Fatal(err)
			}
			return
		}
		checkRapid(t, w)
		shuffled := rapid.Permutation(order).Draw(t, "order")
		v := must.Have(Workload(s.build(shuffled), o))(t)
		if a, b := dump(w), dump(v); a != b {
			t.Fatalf("the order of recording shows:\n%s", firstDifference(a, b))
		}
	})
}

// checkRapid is checkInvariants for a rapid.T, which is no testing.TB; and the
// naive twin of stream order: the op of the queue that ended last by the start.
func checkRapid(t *rapid.T, w *workload.Workload) {
	checkInvariants(rapidTB{TB: nil, t: t}, w)
	for i := range w.Ops {
		op := &w.Ops[i]
		want := int32(-1)
		for k := range i {
			d := &w.Ops[k]
			if d.Rank == op.Rank && d.Queue == op.Queue && d.End <= op.Start && (want < 0 || d.End >= w.Ops[want].End) {
				want = d.ID
			}
		}
		got := int32(-1)
		for _, d := range op.After {
			if w.Ops[d.Op].Queue == op.Queue {
				got = d.Op
			}
		}
		if got != want {
			t.Fatalf("op %d followed %d on its queue, want %d", i, got, want)
		}
	}
}

// A rapidTB lets checks written for testing.TB fail a rapid check.
type rapidTB struct {
	testing.TB
	t *rapid.T
}

func (r rapidTB) Helper()                      {}
func (r rapidTB) Fatalf(f string, args ...any) { r.t.Fatalf(f, args...) }
