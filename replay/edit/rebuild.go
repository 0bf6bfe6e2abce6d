package edit

import (
	"slices"

	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// build makes the workload from the planned ops.
func (r *recut) build() *workload.Workload {
	e := &workload.Edit{Of: r.w, Collectives: r.colls, Steps: slices.Clone(r.w.Steps)}
	for row := range r.ops {
		p := &r.ops[row]
		latest := trace.Time(0)
		for _, d := range p.after {
			latest = max(latest, r.ops[d.Op].op.End)
		}
		p.op.Start = max(p.op.Start, latest) // behind what was captured in front of the last part
		p.op.End = max(p.op.Start, p.op.End)
		p.op.Gap, p.op.After, p.op.Collective = p.op.Start-latest, p.after, p.coll
		e.Add(workload.Row{Op: p.op, Flow: r.flowOf(int32(row)), Origin: p.origin, Issue: p.from})
	}
	for _, p := range r.w.Pairs {
		e.AddPair(p, func(id int32) int32 {
			if r.at[id].role != outside {
				return -1 // the pair is in a chain
			}
			return r.now[id][0]
		})
	}
	if r.joined {
		e.Pairs = append(e.Pairs, r.pairs()...)
	}
	if r.w.Isolation != nil {
		e.CoRunners = r.coRunners()
	}
	return e.Done()
}

// pairs are the chains as pairs: what computes last of what is sent, and the collective.
func (r *recut) pairs() (list []workload.Pair) {
	heavy := lift.Heavy(r.w)
	for i := range r.chains {
		c := &r.chains[i]
		p := workload.Pair{Direction: workload.ComputeThenCollective, Evidence: c.Evidence, Confidence: 1}
		for _, member := range r.w.Collectives[c.Collectives[0]].Members {
			before := c.Before[r.w.Ops[member].Rank][0]
			for _, op := range before {
				if heavy(&r.w.Ops[op]) {
					p.First = append(p.First[:len(p.Second)], r.now[op][0])
				}
			}
			p.Second = append(p.Second, r.now[member][0])
			p.Step, p.Joins = r.w.Ops[member].Step, lookupsOf(r.w, before)
		}
		p.Collective = r.ops[p.Second[0]].coll
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

// flowOf is the data dependencies of a new op on rows: of its own part within a chain, else of all
// parts.
func (r *recut) flowOf(row int32) (flow []workload.Edge) {
	p := &r.ops[row]
	for _, e := range r.w.Edges(p.from) {
		for _, now := range r.now[e.Op] {
			if q := &r.ops[now]; p.role != outside && q.role != outside && q.chain == p.chain && q.part != p.part || now >= row {
				continue
			}
			e.Op = now
			flow = append(flow, e)
		}
	}
	return flow
}

// coRunners are, by collective, the ops that compute alongside: those of the capture and,
// for the parts of a chain, the first heavy op of the next part or, for the last part, the
// first op that rearranges what the others brought.
func (r *recut) coRunners() map[int32][]workload.CoRun {
	runners := map[int32][]workload.CoRun{}
	heavy := lift.Heavy(r.w)
	for i, with := range r.w.Isolation.CoRunners {
		first := r.w.Collectives[i].Members[0]
		if r.at[first].role != outside {
			continue
		}
		row := r.ops[r.now[first][0]].coll
		for _, run := range with {
			if now := r.now[run.Op]; len(now) > 0 {
				runners[row] = append(runners[row], workload.CoRun{Op: now[0], Time: run.Time})
			}
		}
	}
	for row := range r.ops {
		if p := &r.ops[row]; p.role == moving && r.n > 1 {
			if with := r.alongside(heavy, int32(row)); with >= 0 && r.disturbs(&r.ops[with].op) {
				runners[p.coll] = []workload.CoRun{{Op: with, Time: max(1, r.ops[with].op.DurAlone())}}
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
