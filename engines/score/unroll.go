package score

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// unroll continues a workload's iterations until there are n of them, each as
// the last captured one: a pipeline of few iterations drains before it shows
// what many do. The workload is returned as it is where it has that many
// already, or fewer than two to go by.
func unroll(w *workload.Workload, n int) *workload.Workload {
	of, have := workload.IterationsOf(w)
	if n <= have || have < 2 {
		return w
	}
	none := func() []int32 { return slices.Repeat([]int32{-1}, len(w.Ops)) }
	u := unroller{old: w, of: of, last: int32(have - 1), next: none()}
	for r := range w.Ranks {
		if !u.rank(r) {
			return w
		}
	}
	for range n - have + 1 {
		u.ids = append(u.ids, none())
	}
	for _, ids := range w.Ranks {
		for j := range u.ids {
			for _, id := range ids {
				if j == 0 || of[id] == u.last {
					u.ids[j][id] = int32(len(u.from))
					u.from = append(u.from, source{id, j})
				}
			}
		}
	}
	return u.build()
}

type unroller struct {
	old   *workload.Workload
	of    []int32    // by op: its iteration
	last  int32      // the iteration that is repeated
	next  []int32    // by op of the iteration before: its counterpart in the last; else -1
	shift trace.Time // from one iteration to the next, the longest of any rank: ranks keep the distances that they had in the last
	ids   [][]int32  // by repetition, 0 for what was captured, and op: its id in the new workload, or -1
	from  []source   // by op of the new workload
}

// A source is an op of the old workload and the repetition of it.
type source struct {
	id int32
	j  int
}

// rank compares the last two iterations of a rank; it reports false where they are not alike.
func (u *unroller) rank(r int) bool {
	ids := u.old.Ranks[r]
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
	u.shift = max(u.shift, u.old.Ops[last[0]].Start-u.old.Ops[before[0]].Start)
	return true
}

func (u *unroller) build() *workload.Workload {
	w := *u.old
	w.Ops = make([]workload.Op, len(u.from))
	if u.old.Flow != nil {
		w.Flow = make([][]workload.Edge, len(u.from))
	}
	w.Ranks = make([][]int32, len(u.old.Ranks))
	w.Steps = slices.Clone(u.old.Steps)
	w.Collectives, w.Pairs = nil, nil
	rows := make([]map[int32]int32, len(u.ids)) // by repetition: new row of a collective
	for j := range u.ids {
		rows[j] = map[int32]int32{}
		u.repeat(&w, j, rows[j])
	}
	for id, s := range u.from {
		u.put(&w, int32(id), s, rows[s.j])
	}
	u.hosts(&w)
	return &w
}

// hosts repeats what the hosts did for each op.
func (u *unroller) hosts(w *workload.Workload) {
	w.Hosts = make([]*workload.Host, len(u.old.Hosts))
	for r, old := range u.old.Hosts {
		h := &workload.Host{Latency: old.Latency, Syncs: old.Syncs}
		for i, id := range w.Ranks[r] {
			h.Issues = append(h.Issues, old.Issues[u.from[id].id-u.old.Ranks[r][0]])
			if w.Ops[id].Issued != trace.Infinity {
				h.Order = append(h.Order, int32(i))
			}
		}
		slices.SortStableFunc(h.Order, func(a, b int32) int {
			return cmp.Compare(w.Ops[w.Ranks[r][a]].Issued, w.Ops[w.Ranks[r][b]].Issued)
		})
		w.Hosts[r] = h
	}
}

// repeat appends the j-th repetition of the last iteration's collectives, pairs and step, or all
// that was captured for 0. rows are the new rows of collectives, by their old ones.
func (u *unroller) repeat(w *workload.Workload, j int, rows map[int32]int32) {
	marked := len(u.old.Steps) > 1
	for i, c := range u.old.Collectives {
		if first := c.Members[0]; j == 0 || u.of[first] == u.last {
			shift := trace.Time(j) * u.shift
			c.Arrive, c.Depart, c.Seq = c.Arrive+shift, c.Depart+shift, c.Seq+int64(j)
			c.Members = u.all(c.Members, j)
			rows[int32(i)] = int32(len(w.Collectives))
			w.Collectives = append(w.Collectives, c)
		}
	}
	for _, p := range u.old.Pairs {
		if j > 0 && u.of[p.First[0]] != u.last {
			continue
		}
		p.First, p.Second = u.all(p.First, j), u.all(p.Second, j)
		if p.Collective >= 0 {
			p.Collective = rows[p.Collective]
		}
		if marked {
			p.Step += int32(j)
		}
		w.Pairs = append(w.Pairs, p)
	}
	if marked && j > 0 {
		w.Steps = append(w.Steps, u.old.Steps[u.last])
	}
}

func (u *unroller) all(old []int32, j int) []int32 {
	list := make([]int32, len(old))
	for i, id := range old {
		list[i] = u.ids[j][id]
	}
	return list
}

// earlier is the new id of an op on which the j-th repetition of one depends: that of
// the same repetition or, if it is of an iteration before the last, of the one before.
func (u *unroller) earlier(old int32, j int) (id int32, ok bool) {
	if j > 0 && u.of[old] != u.last {
		if old = u.next[old]; old < 0 {
			return 0, false
		}
		j--
	}
	return u.ids[j][old], true
}

// put writes an op.
func (u *unroller) put(w *workload.Workload, id int32, s source, rows map[int32]int32) {
	op := u.old.Ops[s.id]
	shift := trace.Time(s.j) * u.shift
	after := op.After
	op.ID, op.After = id, nil
	op.Start, op.End = op.Start+shift, op.End+shift
	if op.Issued != trace.Infinity {
		op.Issued += shift
	}
	if op.Collective >= 0 {
		op.Collective = rows[op.Collective]
	}
	if op.Step >= 0 && len(u.old.Steps) > 1 {
		op.Step += int32(s.j)
	}
	for _, d := range after {
		if same, ok := u.earlier(d.Op, s.j); ok {
			op.After = append(op.After, workload.Dep{Op: same, Why: d.Why})
		}
	}
	if u.old.Flow != nil {
		for _, e := range u.old.Flow[s.id] {
			if same, ok := u.earlier(e.Op, s.j); ok {
				e.Op = same
				w.Flow[id] = append(w.Flow[id], e)
			}
		}
	}
	w.Ops[id] = op
	w.Ranks[op.Rank] = append(w.Ranks[op.Rank], id)
}
