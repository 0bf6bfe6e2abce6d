package recut

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/lift/pairs"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// build makes the workload from the planned ops.
func (r *recut) build() *workload.Workload {
	w := *r.w
	w.Ops, w.Ranks, w.Origins, w.Scale = nil, nil, nil, nil // durations alone are scaled
	id := make([]int32, len(r.ops))                         // by row
	for _, rows := range r.ranks {
		slices.SortStableFunc(rows, func(a, b int32) int { return cmp.Compare(r.ops[a].op.Start, r.ops[b].op.Start) })
		var ids []int32
		for _, row := range rows {
			id[row] = int32(len(w.Ops))
			ids = append(ids, id[row])
			w.Ops = append(w.Ops, r.ops[row].op)
			w.Origins = append(w.Origins, r.w.Origin(r.ops[row].origin))
		}
		w.Ranks = append(w.Ranks, ids)
	}
	for row := range r.ops {
		p, op := &r.ops[row], &w.Ops[id[row]]
		op.ID, op.After, op.Collective = id[row], nil, p.coll
		latest := trace.Time(0)
		for _, d := range p.after {
			op.After = append(op.After, workload.Dep{Op: id[d.Op], Why: d.Why})
			latest = max(latest, r.ops[d.Op].op.End)
		}
		slices.SortFunc(op.After, func(a, b workload.Dep) int { return cmp.Compare(a.Op, b.Op) })
		op.Gap = op.Start - latest
		if p.coll >= 0 {
			r.colls[p.coll].Members = append(r.colls[p.coll].Members, id[row])
		}
	}
	r.finishCollectives(&w)
	r.carryOver(&w, id)
	return &w
}

// finishCollectives sorts the collectives and sets their times.
func (r *recut) finishCollectives(w *workload.Workload) {
	for i := range r.colls {
		c := &r.colls[i]
		slices.Sort(c.Members)
		c.Arrive, c.Depart = 0, trace.Infinity
		for _, id := range c.Members {
			c.Arrive, c.Depart = max(c.Arrive, w.Ops[id].Start+c.Late), min(c.Depart, w.Ops[id].End)
		}
	}
	order := make([]int32, len(r.colls))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(w.StartOf(&r.colls[a]), w.StartOf(&r.colls[b])), cmp.Compare(a, b))
	})
	w.Collectives = nil
	for at, i := range order {
		w.Collectives = append(w.Collectives, r.colls[i])
		for _, id := range r.colls[i].Members {
			w.Ops[id].Collective = int32(at)
		}
	}
}

// carryOver brings pairs, dataflow, steps and co-runners to the new ops.
func (r *recut) carryOver(w *workload.Workload, id []int32) {
	ids := func(captured []int32) (now []int32) {
		for _, c := range captured {
			if r.at[c].role != outside {
				return nil
			}
			now = append(now, id[r.now[c][0]])
		}
		return now
	}
	w.Pairs = nil
	for _, p := range r.w.Pairs {
		if p.First, p.Second = ids(p.First), ids(p.Second); p.First == nil || p.Second == nil {
			continue
		}
		if p.Collective >= 0 {
			p.Collective = max(w.Ops[p.First[0]].Collective, w.Ops[p.Second[0]].Collective)
		}
		w.Pairs = append(w.Pairs, p)
	}
	if r.joined {
		w.Pairs = append(w.Pairs, r.pairs(w, id)...)
	}
	if r.w.Flow != nil {
		w.Flow = make([][]workload.Edge, len(w.Ops))
		for row := range r.ops {
			w.Flow[id[row]] = r.flowOf(int32(row), id)
		}
	}
	if r.w.Isolation != nil {
		isolation := *r.w.Isolation
		isolation.CoRunners = r.coRunners(w, id)
		w.Isolation = &isolation
	}
	w.Steps = slices.Clone(r.w.Steps)
	w.TimeSteps()
	r.carryHosts(w, id)
}

// pairs are the chains as pairs: what computes last of what is sent, and the collective.
func (r *recut) pairs(w *workload.Workload, id []int32) (list []workload.Pair) {
	heavy := pairs.Heavy(r.w)
	for i := range r.chains {
		c := &r.chains[i]
		p := workload.Pair{Direction: workload.ComputeThenCollective, Evidence: c.Evidence, Confidence: 1}
		for _, member := range r.w.Collectives[c.Collectives[0]].Members {
			before := c.Before[r.w.Ops[member].Rank][0]
			for _, op := range before {
				if heavy(&r.w.Ops[op]) {
					p.First = append(p.First[:len(p.Second)], id[r.now[op][0]])
				}
			}
			p.Second = append(p.Second, id[r.now[member][0]])
			p.Step, p.Joins = r.w.Ops[member].Step, lookupsOf(r.w, before)
		}
		p.Collective = w.Ops[p.Second[0]].Collective
		list = append(list, p)
	}
	return list
}

// lookupsOf counts the lookups among ops.
func lookupsOf(w *workload.Workload, ids []int32) (n int) {
	for _, id := range ids {
		if w.Ops[id].Shape.Kind == workload.Embedding {
			n++
		}
	}
	return n
}

// carryHosts brings what the host did for each op to the new ops: each part of a chain
// costs the host what the captured op did.
func (r *recut) carryHosts(w *workload.Workload, id []int32) {
	w.Hosts = make([]*workload.Host, len(r.w.Hosts))
	from := make([]int32, len(w.Ops)) // by new op: captured op
	for row := range r.ops {
		from[id[row]] = r.ops[row].from
	}
	for rank, old := range r.w.Hosts {
		base := r.w.Ranks[rank][0]
		h := &workload.Host{Issues: make([]workload.Issue, len(w.Ranks[rank])), Latency: old.Latency}
		for i, op := range w.Ranks[rank] {
			if w.Ops[op].Issued != trace.Infinity {
				h.Order = append(h.Order, int32(i))
				h.Issues[i] = old.Issues[from[op]-base]
			}
		}
		slices.SortStableFunc(h.Order, func(a, b int32) int {
			return cmp.Compare(w.Ops[w.Ranks[rank][a]].Issued, w.Ops[w.Ranks[rank][b]].Issued)
		})
		for _, s := range old.Syncs {
			h.Syncs = append(h.Syncs, workload.HostSync{Start: r.movedHost(rank, s.Start), End: r.movedHost(rank, s.End), Before: s.Before})
		}
		w.Hosts[rank] = h
	}
}

// flowOf is the data dependencies of a new op: of its own part within a chain, else of all
// parts.
func (r *recut) flowOf(row int32, id []int32) (flow []workload.Edge) {
	p := &r.ops[row]
	for _, e := range r.w.Flow[p.from] {
		for _, now := range r.now[e.Op] {
			if q := &r.ops[now]; p.role != outside && q.role != outside && q.chain == p.chain && q.part != p.part || now >= row {
				continue
			}
			e.Op = id[now]
			flow = append(flow, e)
		}
	}
	slices.SortStableFunc(flow, func(a, b workload.Edge) int { return cmp.Compare(a.Op, b.Op) })
	return flow
}

// coRunners are, by collective, the ops that compute alongside: those of the capture and,
// for the parts of a chain, the first heavy op of the next part or, for the last part, the
// first op that rearranges what the others brought.
func (r *recut) coRunners(w *workload.Workload, id []int32) [][]workload.CoRun {
	runners := make([][]workload.CoRun, len(w.Collectives))
	heavy := pairs.Heavy(r.w)
	for i, with := range r.w.Isolation.CoRunners {
		first := r.w.Collectives[i].Members[0]
		if r.at[first].role != outside {
			continue
		}
		row := w.Ops[id[r.now[first][0]]].Collective
		for _, run := range with {
			if now := r.now[run.Op]; len(now) > 0 {
				runners[row] = append(runners[row], workload.CoRun{Op: id[now[0]], Time: run.Time})
			}
		}
	}
	for row := range r.ops {
		if p := &r.ops[row]; p.role == moving && r.n > 1 {
			if with := r.alongside(heavy, int32(row)); with >= 0 && r.c.Disturbs(&w.Ops[id[with]]) {
				op := &w.Ops[id[with]]
				runners[w.Ops[id[row]].Collective] = []workload.CoRun{{Op: op.ID, Time: max(1, op.DurAlone())}}
			}
		}
	}
	return runners
}

// alongside is the row of the op that computes alongside a chain's collective, or -1.
func (r *recut) alongside(heavy func(*workload.Op) bool, row int32) int32 {
	p := &r.ops[row]
	if behind := r.chains[p.chain].After[p.op.Rank]; p.part == r.n-1 && (len(behind) == 0 || len(behind[0]) == 0) {
		return -1
	}
	for next := int(row) + 1; next < len(r.ops) && r.ops[next].op.Rank == p.op.Rank; next++ {
		q := &r.ops[next]
		if q.role == outside || q.chain != p.chain {
			continue
		}
		if q.role == receiving && q.part < p.part || q.role == sending && heavy(&q.op) {
			return int32(next)
		}
	}
	return -1
}
