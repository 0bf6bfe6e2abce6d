package overlap

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/overlapse/overlapse/trace"
)

// An Item is a part of the time of a run, a mean over its ranks except in ByRank.
type Item struct {
	Group string
	Name  string
	Time  trace.Time
	Count int // of kernels, over all ranks
}

// The groups of items.
const (
	ByState  = "state"          // adds up to the time of a rank
	ByCause  = "cause of idle"  // adds up to idle
	ByRank   = "rank"           // compute, exposed communication and idle time of each rank
	ByClass  = "kernel class"   // durations, overlapping or not
	ByKernel = "kernel or copy" // likewise
)

// Items lists the parts of a run's time, divided by a number of iterations, in the order
// of the groups. reasons are as for States.
func Items(run *trace.Run, reasons []Reason, iterations int) []Item {
	t := tally{at: map[[2]string]int32{}}
	ranks := trace.Time(max(1, len(run.Ranks)))
	States(run, reasons, func(s State) {
		d := s.End - s.Start
		t.add(ByState, s.Is.String(), d, 0, ranks)
		if s.Is == Idle {
			t.add(ByCause, s.Cause, d, 0, ranks)
		}
		if s.Is != Copying {
			is := s.Is
			if is == Overlapping {
				is = Computing
			}
			t.add(ByRank, "rank "+strconv.Itoa(run.RankID(s.Rank))+" "+is.String(), d, 0, 1)
		}
	})
	for _, s := range run.Spans {
		if s.Kind.OnDevice() {
			t.add(ByClass, s.Kind.String(), s.Dur(), 1, ranks)
			t.add(ByKernel, run.NameOf(s), s.Dur(), 1, ranks)
		}
	}
	n := trace.Time(max(1, iterations))
	for i := range t.items {
		t.items[i].Time /= t.shares[i] * n
		t.items[i].Count /= int(n)
	}
	slices.SortStableFunc(t.items, func(a, b Item) int { return cmp.Compare(groupOrder(a.Group), groupOrder(b.Group)) })
	return t.items
}

func groupOrder(group string) int {
	return slices.Index([]string{ByState, ByCause, ByRank, ByClass, ByKernel}, group)
}

type tally struct {
	items  []Item
	shares []trace.Time // what each is divided by
	at     map[[2]string]int32
}

func (t *tally) add(group, name string, d trace.Time, n int, share trace.Time) {
	key := [2]string{group, name}
	i := trace.Memo(t.at, key, func() int32 {
		t.shares = append(t.shares, share)
		return trace.Push(&t.items, Item{Group: group, Name: name})
	})
	t.items[i].Time += d
	t.items[i].Count += n
}

// A Change is an item of two runs.
type Change struct {
	Group  string     `json:"group"`
	Name   string     `json:"name"`
	A      trace.Time `json:"a_ns"`
	B      trace.Time `json:"b_ns"`
	Diff   trace.Time `json:"difference_ns"`
	CountA int        `json:"a_count,omitempty"`
	CountB int        `json:"b_count,omitempty"`
}

// Diff joins the items of two runs by name: the groups in their order, and in each the
// largest difference first.
func Diff(a, b []Item) []Change {
	at := map[[2]string]int32{}
	var groups []string
	var all []Change
	row := func(x Item) *Change {
		key := [2]string{x.Group, x.Name}
		i := trace.Memo(at, key, func() int32 {
			if !slices.Contains(groups, x.Group) {
				groups = append(groups, x.Group)
			}
			return trace.Push(&all, Change{Group: x.Group, Name: x.Name})
		})
		return &all[i]
	}
	for _, x := range a {
		r := row(x)
		r.A, r.CountA = r.A+x.Time, r.CountA+x.Count
	}
	for _, x := range b {
		r := row(x)
		r.B, r.CountB = r.B+x.Time, r.CountB+x.Count
	}
	for i := range all {
		all[i].Diff = all[i].B - all[i].A
	}
	slices.SortStableFunc(all, func(a, b Change) int {
		return cmp.Or(
			cmp.Compare(slices.Index(groups, a.Group), slices.Index(groups, b.Group)),
			cmp.Compare(max(b.Diff, -b.Diff), max(a.Diff, -a.Diff)),
			cmp.Compare(a.Name, b.Name))
	})
	return all
}
