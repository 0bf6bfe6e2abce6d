package validate

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// unroll continues a workload's iterations until there are n of them, each as
// the last captured one: a pipeline of few iterations drains before it shows
// what many do. The workload is returned as it is where it has that many
// already, or fewer than two to go by (rule V6).
func unroll(w *workload.Workload, n int) *workload.Workload {
	of, have := workload.IterationsOf(w)
	if n <= have || have < 2 {
		return w
	}
	u := unroller{old: w, of: of, last: int32(have - 1), more: n - have}
	for r := range w.Ranks {
		if !u.rank(r) {
			return w
		}
	}
	return u.build()
}

type unroller struct {
	old  *workload.Workload
	of   []int32 // by op: its iteration
	last int32   // the iteration that is repeated
	more int

	base  []int32           // by rank: new id of its first op
	tail  []int32           // by rank: old id of the last iteration's first op
	shift []trace.Time      // by rank: from one iteration to the next
	size  int32             // ops of the new workload
	prev  []map[int32]int32 // by rank: op of the iteration before the last → its counterpart in the last
}

// rank measures one rank; it reports false where the last two iterations are not alike.
func (u *unroller) rank(r int) bool {
	ids := u.old.Ranks[r]
	of := func(i int32) []int32 {
		return slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return u.of[id] != i })
	}
	before, last := of(u.last-1), of(u.last)
	if len(last) == 0 || len(before) != len(last) || last[len(last)-1] != ids[len(ids)-1] || int(last[len(last)-1]-last[0]) != len(last)-1 {
		return false
	}
	prev := map[int32]int32{}
	for k := range last {
		prev[before[k]] = last[k]
	}
	ops := u.old.Ops
	u.base = append(u.base, u.size)
	u.tail = append(u.tail, last[0])
	u.shift = append(u.shift, ops[last[0]].Start-ops[before[0]].Start)
	u.prev = append(u.prev, prev)
	u.size += int32(len(ids) + u.more*len(last))
	return true
}

// id is the new id of an op in the j-th repetition; of the original for j = 0.
func (u *unroller) id(old int32, j int) int32 {
	r := u.old.Ops[old].Rank
	ids := u.old.Ranks[r]
	at := u.base[r] + old - ids[0]
	if j > 0 {
		at += int32(j) * (ids[len(ids)-1] - u.tail[r] + 1)
	}
	return at
}

func (u *unroller) build() *workload.Workload {
	w := *u.old
	w.Ops = make([]workload.Op, u.size)
	if u.old.Flow != nil {
		w.Flow = make([][]workload.Edge, u.size)
	}
	w.Ranks = make([][]int32, len(u.old.Ranks))
	w.Collectives = slices.Clone(u.old.Collectives)
	w.Pairs = slices.Clone(u.old.Pairs)
	w.Steps = slices.Clone(u.old.Steps)
	for i := range w.Collectives {
		w.Collectives[i].Members = u.ids(w.Collectives[i].Members, 0)
	}
	for i := range w.Pairs {
		w.Pairs[i].First, w.Pairs[i].Second = u.ids(w.Pairs[i].First, 0), u.ids(w.Pairs[i].Second, 0)
	}
	colls := u.repeatCollectives(&w)
	for r, ids := range u.old.Ranks {
		for _, id := range ids {
			u.put(&w, id, 0, nil)
		}
		for j := 1; j <= u.more; j++ {
			for id := u.tail[r]; id <= ids[len(ids)-1]; id++ {
				u.put(&w, id, j, colls)
			}
		}
	}
	u.hosts(&w)
	return &w
}

// hosts repeats what the hosts did for each op.
func (u *unroller) hosts(w *workload.Workload) {
	w.Hosts = make([]*workload.Host, len(u.old.Hosts))
	for r, old := range u.old.Hosts {
		h := &workload.Host{Latency: old.Latency, Syncs: old.Syncs}
		first, tail := u.old.Ranks[r][0], u.tail[r]-u.old.Ranks[r][0]
		size := int32(len(u.old.Ranks[r]))
		for i, id := range w.Ranks[r] {
			from := int32(i)
			if from >= size { // the last iteration again
				from = tail + (from-size)%(size-tail)
			}
			h.Issues = append(h.Issues, old.Issues[from])
			if w.Ops[id].Issued != trace.Infinity && u.old.Ops[first+from].Issued != trace.Infinity {
				h.Order = append(h.Order, int32(i))
			}
		}
		slices.SortStableFunc(h.Order, func(a, b int32) int {
			return cmp.Compare(w.Ops[w.Ranks[r][a]].Issued, w.Ops[w.Ranks[r][b]].Issued)
		})
		w.Hosts[r] = h
	}
}

// repeatCollectives appends the last iteration's collectives, pairs and step,
// and returns the new row of a collective by its old row and repetition.
func (u *unroller) repeatCollectives(w *workload.Workload) map[[2]int]int32 {
	rows := map[[2]int]int32{}
	marked := len(u.old.Steps) > 1
	for j := 1; j <= u.more; j++ {
		for i := range u.old.Collectives {
			c := u.old.Collectives[i]
			if first := c.Members[0]; u.of[first] != u.last {
				continue
			}
			shift := trace.Time(j) * u.shift[u.old.Ops[c.Members[0]].Rank]
			c.Arrive, c.Depart, c.Seq = c.Arrive+shift, c.Depart+shift, c.Seq+int64(j)
			c.Members = u.ids(c.Members, j)
			rows[[2]int{i, j}] = int32(len(w.Collectives))
			w.Collectives = append(w.Collectives, c)
		}
		for i := range u.old.Pairs {
			p := u.old.Pairs[i]
			if u.of[p.First[0]] != u.last {
				continue
			}
			p.First, p.Second = u.ids(p.First, j), u.ids(p.Second, j)
			if p.Collective >= 0 {
				p.Collective = rows[[2]int{int(p.Collective), j}]
			}
			if marked {
				p.Step += int32(j)
			}
			w.Pairs = append(w.Pairs, p)
		}
		if marked {
			w.Steps = append(w.Steps, u.old.Steps[u.last])
		}
	}
	return rows
}

func (u *unroller) ids(old []int32, j int) []int32 {
	list := make([]int32, len(old))
	for i, id := range old {
		list[i] = u.id(id, j)
	}
	return list
}

// earlier is the new id of an op on which the j-th repetition of one depends: that of
// the same repetition or, if it is of an iteration before the last, of the one before.
func (u *unroller) earlier(r int, old int32, j int) (id int32, ok bool) {
	if j == 0 || old >= u.tail[r] {
		return u.id(old, j), true
	}
	same, ok := u.prev[r][old]
	if !ok {
		return 0, false
	}
	return u.id(same, j-1), true
}

// put writes an op's j-th repetition.
func (u *unroller) put(w *workload.Workload, id int32, j int, colls map[[2]int]int32) {
	op := u.old.Ops[id]
	r := op.Rank
	shift := trace.Time(j) * u.shift[r]
	after := op.After
	op.ID = u.id(id, j)
	op.Start, op.End = op.Start+shift, op.End+shift
	if op.Issued != trace.Infinity {
		op.Issued += shift
	}
	if j > 0 && op.Collective >= 0 {
		op.Collective = colls[[2]int{int(op.Collective), j}]
	}
	if j > 0 && op.Step >= 0 && len(u.old.Steps) > 1 {
		op.Step += int32(j)
	}
	op.After = nil
	for _, d := range after {
		if same, ok := u.earlier(r, d.Op, j); ok {
			op.After = append(op.After, workload.Dep{Op: same, Why: d.Why})
		}
	}
	if u.old.Flow != nil {
		for _, e := range u.old.Flow[id] {
			if same, ok := u.earlier(r, e.Op, j); ok {
				e.Op = same
				w.Flow[op.ID] = append(w.Flow[op.ID], e)
			}
		}
	}
	w.Ops[op.ID] = op
	w.Ranks[r] = append(w.Ranks[r], op.ID)
}
