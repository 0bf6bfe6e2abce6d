package assemble

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// linked builds a run of one rank whose calls launch kernels, with spans added in the
// given order. Call and kernel have the name of their pair.
func linked(t *rapid.T, rank int) *trace.Run {
	var b trace.Builder
	row := b.AddRank(trace.Rank{ID: rank, Source: fmt.Sprint("rank", rank)})
	thread := b.Lane(trace.Lane{Kind: trace.HostThread, Rank: row, Peer: trace.None})
	queue := b.Lane(trace.Lane{Kind: trace.Queue, Rank: row, Peer: trace.None})
	var add []func()
	group := b.AddGroup(trace.Group{Name: "g", Size: 3})
	for i := range rapid.IntRange(0, 12).Draw(t, "pairs") {
		at, name := trace.Time(100*i+rapid.IntRange(0, 30).Draw(t, "at")), b.Intern(fmt.Sprint("pair", i))
		correlation := int64(1000 - i)
		add = append(add, func() {
			b.Add(trace.Span{Start: at, End: at + 10, Name: name, Lane: thread, Parent: trace.None, Kind: trace.HostCall, Attr: b.AddCall(trace.Call{Correlation: correlation, Op: trace.None})})
		}, func() {
			comm := b.AddComm(trace.Comm{Op: trace.AllReduce, Group: group, Seq: int64(i), Peer: trace.None})
			b.Add(trace.Span{
				Start: at + 40, End: at + 90, Name: name, Lane: queue, Parent: trace.None, Kind: trace.Collective,
				Attr: b.AddKernel(trace.Kernel{Correlation: correlation, Comm: comm, Op: trace.None, Origin: trace.None}),
			})
		})
	}
	for _, i := range rapid.Permutation(indices(len(add))).Draw(t, "order") {
		add[i]()
	}
	return b.Finish(trace.Options{Epoch: 1e18, Name: fmt.Sprint("rank", rank), KeepZero: true})
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Launches and collectives survive sorting, Runs, SideBySide and Split.
func TestLinks(t *testing.T) {
	rapidtest.Check(t, func(rt *rapid.T) {
		check := func(r *trace.Run, ranks int) {
			must.Do(rt, trace.Validate(r))
			launched := 0
			for _, s := range r.Spans {
				if s.Kind != trace.Collective {
					continue
				}
				launched++
				id := r.LaunchOf(s)
				if id == trace.None || r.Spans[id].Kind != trace.Launch || r.Spans[id].Name != s.Name || r.RankOf(r.Spans[id]) != r.RankOf(s) {
					rt.Fatalf("%s launched by %d", r.NameOf(s), id)
				}
				if c := r.Collective(s); c == nil || c.Seq != r.Comm(s).Seq || len(c.Members) > ranks || c.Transfer != max(0, c.Depart-c.Arrive) {
					rt.Fatalf("%s: %+v", r.NameOf(s), c)
				}
			}
			if calls := len(r.Calls); launched != calls {
				rt.Fatalf("%d of %d calls launched", launched, calls)
			}
		}
		runs := []*trace.Run{linked(rt, 0), linked(rt, 1), linked(rt, 2)}
		for _, r := range runs {
			check(r, 1)
		}
		merged := must.Have(Join(runs, "job"))(rt)
		check(merged, 3)
		other := *merged
		other.Name = "other"
		both := SideBySide([]*trace.Run{merged, &other}, "both")
		check(both, 3)
		for _, r := range Split(both) {
			must.Do(rt, trace.Validate(r))
			if len(r.Collectives) != len(merged.Collectives) {
				rt.Fatalf("%d collectives, want %d", len(r.Collectives), len(merged.Collectives))
			}
		}
	})
}
