package workload

import (
	"reflect"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// twoRanks is a kernel and an all-reduce behind it on each of two ranks.
func twoRanks() *Workload {
	w := &Workload{World: 2, Steps: []Step{{Name: "step"}}}
	for rank := range 2 {
		first := int32(len(w.Ops))
		w.Ops = append(w.Ops,
			Op{ID: first, Rank: rank, Start: 10, End: 20, Issued: 1, Collective: -1, Kind: trace.Compute},
			Op{ID: first + 1, Rank: rank, Start: 20, End: 40, Issued: 2, Kind: trace.Collective, After: []Dep{{Op: first, Why: EnqueuedAfter}}})
		w.Ranks = append(w.Ranks, []int32{first, first + 1})
		w.Hosts = append(w.Hosts, &Host{Issues: []Issue{{}, {Work: 1}}, Order: []int32{0, 1}})
	}
	w.Collectives = []Collective{{Group: -1, Members: []int32{1, 3}, Times: Times{Arrive: 20, Depart: 40}}}
	w.Pairs = []Pair{{First: []int32{0, 2}, Second: []int32{1, 3}}}
	w.Flow = [][]Edge{nil, {{Op: 0, Kind: ReadAfterWrite}}, nil, {{Op: 2, Kind: ReadAfterWrite}}}
	w.Isolation = &Isolation{CoRunners: [][]CoRun{{{Op: 0, Time: 5}}}}
	w.TimeSteps()
	return w
}

// rewritten are the rows of all of a workload's operations, as they are.
func rewritten(w *Workload) *Edit {
	e := &Edit{Of: w, Steps: w.Copy().Steps, CoRunners: map[int32][]CoRun{}}
	for i, c := range w.Collectives {
		c.Members = nil
		e.Collectives = append(e.Collectives, c)
		e.CoRunners[int32(i)] = append([]CoRun(nil), w.Isolation.CoRunners[i]...)
	}
	for i := range w.Ops {
		op := w.Ops[i]
		op.After = append([]Dep(nil), op.After...)
		e.Add(Row{Op: op, Flow: append([]Edge(nil), w.Flow[i]...), Origin: int32(i), Issue: int32(i)})
	}
	for _, p := range w.Pairs {
		p.First, p.Second = append([]int32(nil), p.First...), append([]int32(nil), p.Second...)
		e.Pairs = append(e.Pairs, p)
	}
	return e
}

// An edit that changes nothing is the workload itself.
func TestEditOfNothing(t *testing.T) {
	w := twoRanks()
	got := rewritten(w).Done()
	if want := []int32{0, 1, 2, 3}; !reflect.DeepEqual(got.Origins, want) {
		t.Errorf("origins %v, want %v", got.Origins, want)
	}
	if want := [][]int32{{0, 1}, {2, 3}}; !reflect.DeepEqual(got.Order, want) {
		t.Errorf("order of issue %v, want %v", got.Order, want)
	}
	got.Origins, got.Order, got.Isolation.Memo = nil, nil, nil
	if !reflect.DeepEqual(got, w) {
		t.Errorf("got  %+v\nwant %+v", got, w)
	}
}

// A row that is written last and starts first is numbered first and issued last, and all that names operations follows.
func TestEditRenumbers(t *testing.T) {
	w := twoRanks()
	e := rewritten(w)
	op := w.Ops[0]
	op.Start, op.End, op.Issued = 0, 5, 0
	added := e.Add(Row{Op: op, Origin: 0, Issue: -1})
	e.Rows[0].After = []Dep{{Op: added, Why: StreamOrder}}
	got := e.Done()
	for _, x := range []struct {
		what      string
		got, want any
	}{
		{"ranks", got.Ranks, [][]int32{{0, 1, 2}, {3, 4}}},
		{"origins", got.Origins, []int32{0, 0, 1, 2, 3}},
		{"dependencies", [][]Dep{got.Ops[1].After, got.Ops[2].After}, [][]Dep{{{Op: 0, Why: StreamOrder}}, {{Op: 1, Why: EnqueuedAfter}}}},
		{"members", got.Collectives[0].Members, []int32{2, 4}},
		{"pair", [][]int32{got.Pairs[0].First, got.Pairs[0].Second}, [][]int32{{1, 3}, {2, 4}}},
		{"data", got.Flow[4], []Edge{{Op: 3, Kind: ReadAfterWrite}}},
		{"co-runners", got.Isolation.CoRunners, [][]CoRun{{{Op: 1, Time: 5}}}},
		{"host", *got.Hosts[0], Host{Issues: []Issue{{}, {}, {Work: 1}}, Order: []int32{1, 2, 0}}},
		{"first start of the step", got.Steps[0].Start, []trace.Time{0, 10}},
	} {
		if !reflect.DeepEqual(x.got, x.want) {
			t.Errorf("%s: %v, want %v", x.what, x.got, x.want)
		}
	}
}
