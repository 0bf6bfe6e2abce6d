package engines_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// many is a run of two ranks with n marked steps of a kernel and a collective. Step i takes as long as length says, as kernels do.
func many(n int, length func(i int) trace.Time, extra map[int]bool) *trace.Run {
	var b trace.Builder
	group := b.AddGroup(trace.Group{Name: "0", Size: 2, Ranks: []int{0, 1}})
	for row := range int32(2) {
		b.AddRank(trace.Rank{ID: int(row), World: 2, Source: fmt.Sprint("rank", row)})
		host, queue := b.Lane(trace.Lane{Kind: trace.HostThread, Rank: row, Peer: trace.None}), b.Lane(trace.Lane{Kind: trace.Queue, Rank: row, ID: 7, Peer: trace.None})
		number, at := int64(0), trace.Time(0)
		for i := range n {
			part := length(i) / 10
			add := func(kind trace.Kind, name string, from, to trace.Time) {
				number++
				k := trace.Kernel{Correlation: number, Comm: trace.None, Op: trace.None, Origin: trace.None}
				if kind == trace.Collective {
					k.Comm = b.AddComm(trace.Comm{Op: trace.AllReduce, Group: group, Seq: number, In: 1 << 20, Out: 1 << 20, Peer: trace.None})
				}
				b.Add(trace.Span{Kind: trace.HostCall, Start: at + from - 3000, End: at + from - 1000, Lane: host, Parent: trace.None, Attr: b.AddCall(trace.Call{Correlation: number, Op: trace.None}), Name: b.Intern("cudaLaunchKernel")})
				b.Add(trace.Span{Kind: kind, Start: at + from, End: at + to - trace.Time(row), Lane: queue, Parent: trace.None, Attr: b.AddKernel(k), Name: b.Intern(name)})
			}
			b.Add(trace.Span{Start: at, End: at + length(i), Lane: host, Parent: trace.None, Attr: trace.None, Name: b.Intern(fmt.Sprint("ProfilerStep#", i))})
			add(trace.Compute, "gemm", part, 5*part)
			if extra[i] {
				add(trace.Compute, "more", 5*part, 6*part)
			}
			add(trace.Collective, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 6*part, 9*part)
			at += length(i)
		}
	}
	return b.Finish(trace.Options{})
}

// Of many steps of the same kernels a stretch is replayed, whose steps are as those of all; of few, or of steps that differ, all are.
func TestSample(t *testing.T) {
	equal := func(int) trace.Time { return 1e6 }
	slowing := func(i int) trace.Time { return 1e6 + 1e3*trace.Time(i) } // 5 % over 50 steps
	for _, c := range []struct {
		name   string
		n      int
		length func(i int) trace.Time
		extra  map[int]bool
		want   int // steps
		first  string
	}{
		{"equal", 50, equal, nil, 13, "ProfilerStep#0"},
		{"half of them are few", 25, equal, nil, 25, "ProfilerStep#0"},
		{"ever slower: around the median", 400, func(i int) trace.Time { return slowing(i / 8) }, nil, 55, "ProfilerStep#175"},
		{"noise of 10 %", 50, func(i int) trace.Time { return 1e6 + 1e5*trace.Time(i*7%10-5)/2 }, nil, 50, "ProfilerStep#0"},
		{"one step has a kernel more", 50, equal, map[int]bool{20: true}, 50, "ProfilerStep#0"},
		{"a pause in the first steps", 50, func(i int) trace.Time { return 1e6 + 1e6*trace.Time(max(0, 9-i)/4) }, nil, 13, "ProfilerStep#6"},
	} {
		w := must.Have(lift.Workload(many(c.n, c.length, c.extra), lift.Options{Sample: true}))(t)
		all := must.Have(lift.Workload(many(c.n, c.length, c.extra), lift.Options{}))(t)
		if len(all.Steps) != c.n || c.want > 0 && len(w.Steps) != c.want || c.first != "" && w.Steps[0].Name != c.first {
			t.Errorf("%s: %d of %d steps, from %s", c.name, len(w.Steps), len(all.Steps), w.Steps[0].Name)
		}
		said := strings.Contains(strings.Join(w.Notes, "\n"), fmt.Sprintf("%d of %d iterations are replayed", len(w.Steps), c.n))
		if said != (len(w.Steps) < c.n) || len(w.Ops)*c.n != len(all.Ops)*len(w.Steps) && c.extra == nil {
			t.Errorf("%s: %d operations of %d: %q", c.name, len(w.Ops), len(all.Ops), w.Notes)
		}
	}
}

// A stretch of equal steps takes as long as all of them, whatever the strategy.
func TestSampleOfEqualSteps(t *testing.T) {
	sel := must.Have(engines.ParseSelection("captured,bulk,multistream,ideal"))(t)
	var times [2][]trace.Time
	for i, sample := range []bool{false, true} {
		w := must.Have(lift.Workload(many(30, func(int) trace.Time { return 1e6 }, nil), lift.Options{Sample: sample}))(t)
		outcomes := must.Have(engines.Compare(w, plantest.H200(t, 2), sel, plan.Scenario{}, replay.Options{Like: true}, nil))(t)
		for _, o := range outcomes {
			times[i] = append(times[i], o.Expected)
		}
	}
	for i, all := range times[0] {
		if part := times[1][i]; all <= 0 || !plantest.Near(float64(part), float64(all)) {
			t.Errorf("%s: %v of a stretch, %v of all", sel[i], part, all)
		}
	}
}
