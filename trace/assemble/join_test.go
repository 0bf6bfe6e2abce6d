package assemble

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

func twoRanks(name string, scale trace.Time) *trace.Run {
	var b trace.Builder
	for r := range int32(2) {
		b.AddRank(trace.Rank{ID: int(r), World: 2})
		for i := range trace.Time(3) {
			k := b.AddKernel(trace.Kernel{Comm: trace.None, Op: trace.None, Origin: int32(i)})
			id := b.Add(trace.Span{
				Start: 10 + i*scale, End: 10 + i*scale + scale/2, Name: b.Intern(fmt.Sprintf("k%d", i)), Kind: trace.Compute, Attr: k, Parent: trace.None,
				Lane: b.Lane(trace.Lane{Kind: trace.Queue, Rank: r, ID: 7, Peer: trace.None}),
			})
			w := b.AddWorkgroup(trace.WorkgroupAttr{ID: int32(i), Persistent: 0, CU: trace.None, Peer: 1 - r, Row: trace.None, Col: trace.None})
			b.Add(trace.Span{
				Start: 10 + i*scale, End: 11 + i*scale, Name: b.Intern("wg"), Kind: trace.Workgroup, Attr: w, Parent: id,
				Lane: b.Lane(trace.Lane{Kind: trace.Persistent, Rank: r, ID: 0, Peer: trace.None}),
			})
		}
	}
	return b.Finish(trace.Options{Name: name, Simulated: true, KeepZero: true})
}

// Split is the inverse of SideBySide.
func TestBesideSplit(t *testing.T) {
	runs := []*trace.Run{twoRanks("bulk", 100), twoRanks("fused", 60)}
	got := Split(SideBySide(runs, "both"))
	if len(got) != 2 {
		t.Fatalf("%d runs", len(got))
	}
	for i, r := range got {
		if d := cmp.Diff(describe(runs[i]), describe(r)); d != "" {
			t.Errorf("%s:\n%s", runs[i].Name, d)
		}
	}
	if alone := Split(runs[0]); len(alone) != 1 || alone[0] != runs[0] {
		t.Error("a run that stands alone is not returned as it is")
	}
}

// describe prints every span with the values that its ids refer to.
func describe(r *trace.Run) []string {
	out := []string{fmt.Sprint(r.Name, r.End, len(r.Ranks), len(r.Lanes))}
	for _, s := range r.Spans {
		line := fmt.Sprint(s.Start, s.End, s.Kind, r.NameOf(s), r.Lanes[s.Lane])
		if k := r.Kernel(s); k != nil {
			line += fmt.Sprint(*k)
		}
		if w := r.Workgroup(s); w != nil {
			line += fmt.Sprint(*w, r.NameOf(r.Spans[s.Parent]))
		}
		out = append(out, line)
	}
	return out
}

// A file may name a process and a GPU on every row: the time of a lookup must not grow
// with the number of rows.
func TestManyProcesses(t *testing.T) {
	const n = 60_000
	s := New("many")
	done := make(chan *trace.Run)
	go func() {
		for i := range n {
			p := s.Process(fmt.Sprint(i), int64(i), "x")
			s.Describe(p, Description{GPU: true, OfKind: trace.None})
			s.AddKernel(p, &Dispatch{
				Agent: s.Agent(p, "GPU 0"), Name: s.Builder.Intern("ncclDevKernel"), Start: trace.Time(i), End: trace.Time(i + 1),
			})
			s.AddCall(p, &Call{Name: s.Builder.Intern("ncclAllReduce"), Start: trace.Time(i), End: trace.Time(i + 1), Collective: true})
		}
		done <- s.Finish(0)
	}()
	select {
	case run := <-done:
		if len(run.Ranks) != n || len(run.Spans) != 2*n || run.Comms[n-1].Op != trace.AllReduce {
			t.Errorf("%d ranks, %d spans", len(run.Ranks), len(run.Spans))
		}
	case <-time.After(time.Minute): // a linear lookup takes hours
		t.Fatal("not done in a minute")
	}
}

// Recorded operations are found in every iteration, marked or not, also where iterations have others between them: their
// number is not that of differences which one alignment bears.
func TestRepeat(t *testing.T) {
	const iterations, operations, others = 40, 400, 80
	var ours, recorded []issued
	for i := range operations {
		recorded = append(recorded, issued{key: int32(i), uses: int32(i + 1)})
	}
	for range iterations {
		for i := range operations {
			ours = append(ours, issued{key: int32(i)})
			if i%(operations/others) == 0 {
				ours = append(ours, issued{key: -1})
			}
		}
	}
	pairs := repeat(ours, recorded)
	for i, p := range pairs {
		if p.uses != int32(i%operations+1) || p.pass != int32(i/operations) {
			t.Fatalf("pair %d is of pass %d and row %d", i, p.pass, p.uses)
		}
	}
	if len(pairs) != iterations*operations {
		t.Errorf("%d of %d operations are found", len(pairs), iterations*operations)
	}
	if cut := repeat(ours[operations/2:], recorded); !slices.ContainsFunc(cut, func(p pairing) bool { return p.pass == iterations/2 }) {
		t.Error("iterations behind half a one are not found")
	}
}

// stampedRun returns a run with a kernel of 400 ns and a workgroup that stores to a
// peer, on a timer that reads at when the kernel starts.
func stampedRun(rank int, at trace.Time, peer int32) *trace.Run {
	var b trace.Builder
	b.AddRank(trace.Rank{ID: rank, Source: fmt.Sprintf("rank%d.csv", rank)})
	k := b.Add(trace.Span{Start: at, End: at + 400, Name: b.Intern("k"), Lane: b.Lane(trace.Lane{Kind: trace.Queue, Peer: trace.None}), Parent: trace.None, Kind: trace.Compute, Attr: b.AddKernel(trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None})})
	b.Add(trace.Span{Start: at, End: at + 400, Lane: b.Lane(trace.Lane{Kind: trace.Slot, Peer: trace.None}), Parent: k, Kind: trace.Workgroup, Attr: b.AddWorkgroup(trace.WorkgroupAttr{Peer: peer})})
	return b.Finish(trace.Options{Epoch: 1e18})
}

// Each GPU stamps workgroups with its own timer: the offset between ranks is unknown.
func TestMergeStamps(t *testing.T) {
	for _, c := range []struct {
		what  string
		at    trace.Time // of rank 1's kernel; that of rank 0 is at 1000
		peer  int32      // that workgroups of rank 1 store to
		start trace.Time // of rank 1's kernel in the joint run
	}{
		{"timers are apart", 9000, 0, 0},
		{"the other way", 100, 0, 0},
		{"they overlap", 1100, 0, 100},
		{"nothing is exchanged", 9000, trace.None, 8000},
		{"only within the rank", 9000, 1, 8000},
	} {
		run := must.Have(Join([]*trace.Run{stampedRun(0, 1000, 1), stampedRun(1, c.at, c.peer)}, "both"))(t)
		var start trace.Time = trace.None
		for _, s := range run.Spans {
			if s.Kind == trace.Compute && run.RankOf(s) == 1 {
				start = s.Start
			}
		}
		if start != c.start || run.Ranks[0].Uncertainty != 0 || run.Ranks[1].Uncertainty != trace.None {
			t.Errorf("%s: starts at %d, clock %+v", c.what, start, run.Ranks)
		}
		if shifted := strings.Contains(ledger(run), "separate timer"); shifted != (run.Ranks[1].Shift != 0) {
			t.Errorf("%s: %s", c.what, ledger(run))
		}
	}
}

// Values of inputs as torch 2.11 records them.
func TestCausal(t *testing.T) {
	for _, c := range []struct {
		name, values string
		want         bool
	}{
		{`"aten::scaled_dot_product_attention"`, `["", "", "", "", "0.", "True", "0.088388347648318447", "True"]`, true},
		{`"aten::scaled_dot_product_attention"`, `["", "", "", "", "0.", "False", "", "False"]`, false},
		{`"aten::_flash_attention_forward"`, `["", "", "", "", "", "8192", "8192", "0.", "True", "False", "0.088388347648318433", "", "", "", ""]`, true},
		{`"aten::_flash_attention_forward"`, `["", "", "", "", "", "8192", "4096", "0.", "False", "True", "0.088388347648318433", "", "", "", ""]`, false},
		{`"aten::_cudnn_attention_forward"`, `["", "", "", "", "", "", "2048", "2048", "True", "0.", "True", "False", "0.088388347648318447"]`, true},
		{`"aten::_cudnn_attention_backward"`, `["", "", "", "", "", "", "", "", "", "", "", "2048", "2048", "0.", "True", "0.088388347648318447"]`, true},
		{`"aten::_efficient_attention_forward"`, `["", "", "", "", "", "", "", "", "0.10000000000000001", "1", "True", "", "", ""]`, true},
		{`"aten::dropout"`, `["", "0.", "True"]`, false},
		{`"aten::scaled_dot_product_attention"`, `["", "0."]`, false},
		{`"aten::scaled_dot_product_attention"`, ``, false},
	} {
		if got := Causal([]byte(c.name), []byte(c.values)); got != c.want {
			t.Errorf("%s%s: causal %v", c.name, c.values, got)
		}
	}
}

// Kernels of one name but other grids are not those of a graph, also where a source has no captures.
func TestNameGraphsByGrid(t *testing.T) {
	run := func(graph bool, grids ...int32) *trace.Run {
		var b trace.Builder
		lane := b.Lane(trace.Lane{Rank: b.AddRank(trace.Rank{}), Kind: trace.Queue, Peer: trace.None})
		for i, g := range grids {
			k := trace.Kernel{Correlation: 7, Launch: trace.None, Comm: trace.None, Op: trace.None, Origin: trace.None, Setup: b.AddSetup(trace.Setup{Grid: [3]int32{g, 1, 1}})}
			if !graph {
				k.Correlation, k.Op = int64(i+1), b.AddOperator(trace.Operator{Name: "aten::mm"})
			}
			b.Add(trace.Span{Start: trace.Time(i * 10), End: trace.Time(i*10 + 5), Name: b.Intern("k"), Lane: lane, Parent: trace.None, Kind: trace.Compute, Attr: b.AddKernel(k)})
		}
		return b.Finish(trace.Options{})
	}
	for _, c := range []struct {
		grids [2]int32
		want  bool
	}{{[2]int32{1, 2}, true}, {[2]int32{3, 4}, false}} {
		named := NameGraphs(run(true, 1, 2), []*trace.Run{run(false, c.grids[:]...)})
		if got := named.Kernels[0].Op != trace.None; got != c.want {
			t.Errorf("grids %v: the kernels take operators: %v, want %v", c.grids, got, c.want)
		}
	}
}
