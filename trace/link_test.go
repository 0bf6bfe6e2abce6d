package trace

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// linked builds a run of one rank whose calls launch kernels, with spans added in the
// given order. Call and kernel have the name of their pair.
func linked(t *rapid.T, rank int) *Run {
	var b Builder
	row := b.AddRank(Rank{ID: rank, Source: fmt.Sprint("rank", rank)})
	thread := b.Lane(Lane{Kind: HostThread, Rank: row, Peer: None})
	queue := b.Lane(Lane{Kind: Queue, Rank: row, Peer: None})
	var add []func()
	group := b.AddGroup(Group{Name: "g", Size: 3})
	for i := range rapid.IntRange(0, 12).Draw(t, "pairs") {
		at, name := Time(100*i+rapid.IntRange(0, 30).Draw(t, "at")), b.Intern(fmt.Sprint("pair", i))
		correlation := int64(1000 - i)
		add = append(add, func() {
			b.Add(Span{Start: at, End: at + 10, Name: name, Lane: thread, Parent: None, Kind: HostCall, Attr: b.AddCall(Call{Correlation: correlation, Op: None})})
		}, func() {
			comm := b.AddComm(Comm{Op: AllReduce, Group: group, Seq: int64(i), Peer: None})
			b.Add(Span{
				Start: at + 40, End: at + 90, Name: name, Lane: queue, Parent: None, Kind: Collective,
				Attr: b.AddKernel(Kernel{Correlation: correlation, Comm: comm, Op: None, Origin: None}),
			})
		})
	}
	for _, i := range rapid.Permutation(indices(len(add))).Draw(t, "order") {
		add[i]()
	}
	return b.Finish(Options{Epoch: 1e18, Name: fmt.Sprint("rank", rank), KeepZero: true})
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Launches and collectives survive sorting, Merge, SideBySide and Split.
func TestLinks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		check := func(r *Run, ranks int) {
			if err := Validate(r); err != nil {
				rt.Fatal(err)
			}
			launched := 0
			for _, s := range r.Spans {
				if s.Kind != Collective {
					continue
				}
				launched++
				id := r.LaunchOf(s)
				if id == None || r.Spans[id].Kind != Launch || r.Spans[id].Name != s.Name || r.RankOf(r.Spans[id]) != r.RankOf(s) {
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
		runs := []*Run{linked(rt, 0), linked(rt, 1), linked(rt, 2)}
		for _, r := range runs {
			check(r, 1)
		}
		merged, err := Merge(runs, "job")
		if err != nil {
			rt.Fatal(err)
		}
		check(merged, 3)
		other := *merged
		other.Name = "other"
		both := SideBySide([]*Run{merged, &other}, "both")
		check(both, 3)
		for _, r := range Split(both) {
			if err := Validate(r); err != nil {
				rt.Fatal(err)
			}
			if len(r.Collectives) != len(merged.Collectives) {
				rt.Fatalf("%d collectives, want %d", len(r.Collectives), len(merged.Collectives))
			}
		}
	})
}
