package score

import (
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// repeat continues a workload's iterations until there are n of them, each as
// the last captured one: a pipeline of few iterations drains before it shows
// what many do. The workload is returned as it is where it has that many
// already, or fewer than two to go by.
func repeat(w *workload.Workload, n int) *workload.Workload {
	of, have := workload.IterationsOf(w)
	if n <= have || have < 2 {
		return w
	}
	u := repeated{
		Edit: workload.Edit{Of: w, Steps: slices.Clone(w.Steps)}, of: of, last: int32(have - 1),
		rows: make([][]int32, len(w.Ops)),
	}
	u.next = slices.Repeat([]int32{-1}, len(w.Ops))
	for r := range w.Ranks {
		if !u.rank(r) {
			return w
		}
	}
	for j := range n - have + 1 {
		u.repeat(j)
	}
	b := u.Done()
	b.Origins, b.Scale, b.Isolation = w.Origins, w.Scale, w.Isolation
	return b
}

// A repeated is a workload whose last iteration is repeated.
type repeated struct {
	workload.Edit
	of    []int32    // by op: its iteration
	last  int32      // the iteration that is repeated
	next  []int32    // by op of the iteration before: its counterpart in the last; else -1
	shift trace.Time // from one iteration to the next, the longest of any stream: each keeps its captured gap or a longer one
	rows  [][]int32  // by op and repetition; 0 is as captured
}

// rank compares the last two iterations of a rank; it reports false where they are not alike.
func (u *repeated) rank(r int) bool {
	ids := u.Of.Ranks[r]
	of := func(i int32) []int32 {
		return slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return u.of[id] != i })
	}
	before, last := of(u.last-1), of(u.last)
	if len(last) == 0 || len(before) != len(last) || last[len(last)-1] != ids[len(ids)-1] || int(last[len(last)-1]-last[0]) != len(last)-1 {
		return false
	}
	for k := range last {
		u.next[before[k]] = last[k]
	}
	ended := map[int64]trace.Time{} // by queue: from the end of the iteration before to that of the last
	for k := range last {
		was, op := &u.Of.Ops[before[k]], &u.Of.Ops[last[k]]
		ended[op.Queue] = op.End - was.End
	}
	for _, period := range ended {
		u.shift = max(u.shift, period)
	}
	return true
}

// repeat writes the j-th repetition of the last iteration, or all that was captured for 0.
func (u *repeated) repeat(j int) {
	w, marked := u.Of, len(u.Of.Steps) > 1
	again := func(id int32) bool { return j == 0 || u.of[id] == u.last }
	shift, colls := trace.Time(j)*u.shift, map[int32]int32{}
	for i, c := range w.Collectives {
		if again(c.Members[0]) {
			c.Arrive, c.Depart, c.Seq, c.Members = c.Arrive+shift, c.Depart+shift, c.Seq+int64(j), nil
			colls[int32(i)] = int32(len(u.Collectives))
			u.Collectives = append(u.Collectives, c)
		}
	}
	var ids []int32
	for rank := range w.Ranks {
		for _, id := range w.IssueOrder(rank) {
			if again(id) {
				u.rows[id] = append(u.rows[id], int32(len(u.Rows)+len(ids)))
				ids = append(ids, id)
			}
		}
	}
	for _, i := range ids {
		r := workload.Row{Op: w.Ops[i], Origin: i, Issue: i}
		if r.Start, r.End = r.Start+shift, r.End+shift; r.Issued != trace.Infinity {
			r.Issued += shift
		}
		if r.Collective >= 0 {
			r.Collective = colls[r.Collective]
		}
		if marked && r.Step >= 0 {
			r.Step += int32(j)
		}
		r.After = nil
		for _, d := range w.Ops[i].After {
			if row := u.earlier(d.Op, j); row >= 0 {
				r.After = append(r.After, workload.Dep{Op: row, Why: d.Why})
			}
		}
		for _, e := range w.Edges(i) {
			if e.Op = u.earlier(e.Op, j); e.Op >= 0 {
				r.Flow = append(r.Flow, e)
			}
		}
		u.Add(r)
	}
	for _, p := range w.Pairs {
		if again(p.First[0]) {
			u.AddPair(p, func(id int32) int32 { return u.rows[id][j] })
		}
	}
	if marked && j > 0 {
		u.Steps = append(u.Steps, w.Steps[u.last])
	}
}

// earlier is the row of an op on which the j-th repetition of one depends: that of
// the same repetition or, if it is of an iteration before the last, of the one before; -1: none.
func (u *repeated) earlier(id int32, j int) int32 {
	if j > 0 && u.of[id] != u.last {
		if id = u.next[id]; id < 0 {
			return -1
		}
		j--
	}
	return u.rows[id][j]
}
