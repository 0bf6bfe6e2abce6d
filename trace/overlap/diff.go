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
	byClass  = "kernel class"   // durations, overlapping or not
	ByKernel = "kernel or copy" // likewise
)

// An Iteration is one of several that ran in an interval of each rank: what it consists of.
type Iteration struct {
	In   []Interval // by row of Run.Ranks
	Of   int        // iterations in the intervals
	Each []Times    // by row of Run.Ranks
	Mean Times      // over ranks
}

// Items lists the parts of an iteration's time, or where it is nil of the whole run's, in the order of the
// groups. reasons are as for States.
func Items(run *trace.Run, reasons []Reason, of *Iteration) []Item {
	t := tally{at: map[[2]string]int32{}}
	ranks, n := trace.Time(max(1, len(run.Ranks))), trace.Time(1)
	in := func(int32) Interval { return Interval{End: trace.Infinity} }
	if of != nil {
		n, in = trace.Time(max(1, of.Of)), func(row int32) Interval { return of.In[row] }
		for is, d := range of.Mean.byState() {
			t.addState(Is(is), d, 1)
		}
		for row, each := range of.Each {
			for is, d := range each.byState() {
				t.addRank(run, int32(row), Is(is), d)
			}
		}
	}
	States(run, reasons, func(s State) {
		x := in(s.Rank)
		d := max(0, min(s.End, x.End)-max(s.Start, x.Start))
		if s.Is == Idle {
			t.add(ByCause, s.Cause, d, 0, ranks*n)
		}
		if of == nil {
			t.addState(s.Is, d, ranks)
			t.addRank(run, s.Rank, s.Is, d)
		}
	})
	EachKernel(run, func(s trace.Span, as int) {
		if x := in(run.Lanes[s.Lane].Rank); s.Start >= x.Start && s.Start < x.End {
			t.add(byClass, s.Kind.String(), trace.Time(as)*s.Dur(), as, ranks*n)
			t.add(ByKernel, run.NameOf(s), trace.Time(as)*s.Dur(), as, ranks*n)
		}
	})
	var idle trace.Time
	for i := range t.items {
		if t.items[i].Time /= t.shares[i]; t.items[i].Group == ByCause {
			idle += t.items[i].Time
		}
		t.items[i].Count /= int(n)
	}
	for i := range t.items { // the time of an iteration may be a median, the intervals have a mean
		if item := &t.items[i]; of != nil && item.Group == ByCause {
			item.Time = trace.Time(float64(item.Time) * float64(of.Mean.Idle) / float64(max(1, idle)))
		}
	}
	slices.SortStableFunc(t.items, func(a, b Item) int { return cmp.Compare(groupOrder(a.Group), groupOrder(b.Group)) })
	return t.items
}

// EachKernel calls f for every kernel and copy on a device, with how many ranks its rank stands for: one that was not simulated does
// what another does.
func EachKernel(run *trace.Run, f func(s trace.Span, ranks int)) {
	ranks := make([]int, len(run.Ranks))
	for row := range ranks {
		if run.Like != nil {
			ranks[run.Like[row]]++
		} else {
			ranks[row]++
		}
	}
	for _, s := range run.Spans {
		if s.Kind.OnDevice() {
			f(s, ranks[run.Lanes[s.Lane].Rank])
		}
	}
}

func groupOrder(group string) int {
	return slices.Index([]string{ByState, ByCause, ByRank, byClass, ByKernel}, group)
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

func (t *tally) addState(is Is, d, share trace.Time) {
	if d != 0 {
		t.add(ByState, is.String(), d, 0, share)
	}
}

// addRank counts overlapped time as compute, and no copies.
func (t *tally) addRank(run *trace.Run, row int32, is Is, d trace.Time) {
	name := is.String()
	if is == Overlapping || is == Computing {
		name = "compute"
	}
	if d != 0 && is != Copying {
		t.add(ByRank, "rank "+strconv.Itoa(run.RankID(row))+" "+name, d, 0, 1)
	}
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
