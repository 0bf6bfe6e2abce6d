package edit

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// Recut is the workload with its chains in n equal parts on a machine, and their collectives through the given channels (0: as
// captured). Parts run one after another, each collective behind its part; the operations behind the collectives follow the
// last one. All operations keep their captured times: the parts of a side of a chain share those of the side. Operations around
// the chains keep their dependencies, and each part costs the host what the first one did (rule V21). Chains that cannot be cut
// stay as captured. only limits it to some chains; nil: all. It returns the workload itself and the reason if there is nothing
// to cut.
func Recut(w *workload.Workload, m machine.Machine, n, channels int, only func(*lift.Chain) bool) (cut *workload.Workload, why string) {
	var chains []lift.Chain
	for _, c := range lift.Chains(w) {
		if only != nil && !only(&c) {
			continue
		}
		if short := chainTooShort(w, &c, n); short != "" {
			why = short
			continue
		}
		chains = append(chains, c)
	}
	if len(chains) == 0 {
		return w, why
	}
	return newRecut(w, m, recut{n: n, channels: channels, chains: chains}).run(), ""
}

// Joined is the workload with each of its chains in one part, whose lookups are one operation behind what prepares them, for
// strategies that serve a kernel and its collective (rule V20). Each chain is a pair there: the lookups, or what else computes,
// and the collective. It is the workload itself if it has none.
func Joined(w *workload.Workload, m machine.Machine) *workload.Workload {
	chains := lift.Chains(w)
	if len(chains) == 0 {
		return w
	}
	return newRecut(w, m, recut{n: 1, chains: chains, joined: true}).run()
}

// Undecomposed is the workload with its chains in one part each and its pipelined collectives (async tensor parallelism) as
// the library's, each with one GEMM (rule V22); the workload itself if it has neither.
func Undecomposed(w *workload.Workload, m machine.Machine, channels int) *workload.Workload {
	w, _ = Recut(w, m, 1, channels, func(c *lift.Chain) bool { return c.Parts() > 1 })
	if pipelines := Pipelines(w); len(pipelines) > 0 {
		w = newRecut(w, m, recut{n: 1, channels: channels, pipelines: pipelines}).run()
	}
	return w
}

// mostOps bounds the operations of a workload in other parts.
const mostOps = 1 << 22

// chainTooShort is the reason why a chain cannot be cut into n parts; "" if it can.
func chainTooShort(w *workload.Workload, c *lift.Chain, n int) string {
	if n > mostOps/max(1, len(w.Ops)) {
		return fmt.Sprintf("chunks=%d makes more than %d operations", n, mostOps)
	}
	for _, parts := range c.Before {
		for _, part := range parts {
			for _, id := range part {
				p := workload.Pair{First: []int32{id}, Second: []int32{id}}
				if why := TooFewRows(w, &p, max(1, n/c.Parts())); why != "" {
					return why
				}
			}
		}
	}
	return ""
}

// TooFewRows is the reason why a pair cannot be cut into n parts; "" if it can. Every part
// needs at least one row.
func TooFewRows(w *workload.Workload, p *workload.Pair, n int) string {
	for _, id := range append(p.First[:1:1], p.Second[:1]...) {
		if op := &w.Ops[id]; op.Shape.Kind == workload.GEMM && op.Shape.M > 0 && op.Shape.M < int64(n) {
			return fmt.Sprintf("chunks=%d: %s has %d rows", n, trace.Short(op.Name), op.Shape.M)
		} else if k := int64(max(1, p.Experts)); k > 1 && op.Shape.Kind == workload.GEMM && op.Shape.M/k < int64(n) {
			return fmt.Sprintf("chunks=%d: %s has rows of %d tokens", n, trace.Short(op.Name), op.Shape.M/k)
		}
	}
	return ""
}

func newRecut(w *workload.Workload, m machine.Machine, r recut) *recut {
	r.w, r.laws = w, &cost.Laws{Machine: &m, Workload: w}
	return &r
}

func nanoseconds(seconds float64) trace.Time { return trace.Time(seconds*1e9 + 0.5) }

// wholeOf is an operation in place of several equal parts.
func (r *recut) wholeOf(parts []*workload.Op) workload.Op {
	return r.laws.Kernel(parts, cost.Part{Of: 1}).Op
}

// disturbs reports whether an operation slows a collective alongside it (rule I1). Lookups
// that read less than half of the memory's rate do not: they wait for single reads.
func (r *recut) disturbs(op *workload.Op) bool {
	return op.Shape.Kind != workload.Embedding || 2*r.laws.Moving(op) > float64(op.DurAlone())/1e9
}

func (r *recut) run() *workload.Workload {
	w := r.w
	r.at, r.now = make([]place, len(w.Ops)), make([][]int32, len(w.Ops))
	r.mark()
	r.cutCollectives()
	for rank := range w.Ranks {
		r.list(rank)
	}
	r.link()
	return r.build()
}

// A recut is the state of one cut.
type recut struct {
	w        *workload.Workload
	n        int
	channels int // of the collectives; 0: as captured
	laws     *cost.Laws
	chains   []lift.Chain
	joined   bool      // lookups of a chain are one op
	at       []place   // by captured op
	now      [][]int32 // by captured op: rows of ops that replace it
	ops      []planned // by rank, in the order in which the host issues them
	ranks    [][]int32 // by rank: rows of ops
	colls    []workload.Collective
	outer    []int32 // by captured collective: its row in colls, outside of chains
	first    []int32 // by chain, then Pipelined: row in colls of the first part

	pipelines []Pipelined
}

// A place is an op's place in a chain.
type place struct {
	chain, part, index int
	role               chainRole
}

// chainRole is what an op does in a chain.
type chainRole uint8

const (
	outside   chainRole = iota
	sending             // Before
	moving              // a member of the collective
	receiving           // After
	fused               // of a Pipelined, whose number comes after those of the chains
)

// A planned op is one of the new workload.
type planned struct {
	op     workload.Op
	from   int32          // captured op that it is, or whose place it takes
	origin int32          // captured op that it stands for; 0: from
	place                 // part is the new one's
	after  []workload.Dep // rows of ops
	coll   int32          // row of colls, or -1
}

// mark finds the place of every op of a chain.
func (r *recut) mark() {
	for i := range r.chains {
		c := &r.chains[i]
		for role, ids := range map[chainRole][][][]int32{sending: c.Before, receiving: c.After} {
			for _, parts := range ids {
				for p, part := range parts {
					for x, id := range part {
						r.at[id] = place{i, p, x, role}
					}
				}
			}
		}
		for p, row := range c.Collectives {
			for _, id := range r.w.Collectives[row].Members {
				r.at[id] = place{i, p, 0, moving}
			}
		}
	}
	for i := range r.pipelines {
		for _, ids := range r.pipelines[i].Ops {
			for x, id := range ids {
				r.at[id] = place{len(r.chains) + i, 0, x, fused}
			}
		}
	}
}

// cutCollectives lists the collectives outside of chains, then n for each chain, then one
// for each Pipelined.
func (r *recut) cutCollectives() {
	for i := range r.w.Collectives {
		r.outer = append(r.outer, int32(len(r.colls)))
		if c := &r.w.Collectives[i]; r.at[c.Members[0]].role == outside {
			r.colls = append(r.colls, *c)
		}
	}
	for i := range r.chains {
		var captured []*workload.Collective
		for _, row := range r.chains[i].Collectives {
			captured = append(captured, &r.w.Collectives[row])
		}
		r.first = append(r.first, int32(len(r.colls)))
		for range r.n {
			c := r.laws.Cut(captured, r.n, r.channels)
			c.Shortest = 0
			r.colls = append(r.colls, c)
		}
	}
	for i := range r.pipelines {
		r.first = append(r.first, int32(len(r.colls)))
		r.colls = append(r.colls, r.collectiveFor(&r.pipelines[i]))
	}
	for i := range r.colls {
		r.colls[i].Members, r.colls[i].Depart = nil, 0
	}
}

// list writes one rank's ops in the order of issue. Those of a chain are written where the first one of their side was issued.
func (r *recut) list(rank int) {
	var rows []int32
	until := map[int]trace.Time{} // by chain: end of the last side that was written
	add := func(p planned, replaces ...int32) {
		at := int32(len(r.ops))
		rows = append(rows, at)
		for _, id := range replaces {
			r.now[id] = append(r.now[id], at)
		}
		p.origin = cmp.Or(p.origin, p.from)
		r.ops = append(r.ops, p)
	}
	for _, id := range r.w.IssueOrder(rank) {
		op, at := &r.w.Ops[id], r.at[id]
		switch {
		case at.role == outside:
			coll := int32(-1)
			if op.Collective >= 0 {
				coll = r.outer[op.Collective]
			}
			add(planned{op: *op, from: id, coll: coll}, id)
		case at.part == 0 && at.index == 0 && at.role != moving:
			first := len(r.ops)
			if at.role == fused {
				r.inOne(rank, at, add)
			} else {
				for k := range r.n {
					r.part(rank, at, k, add)
				}
			}
			until[at.chain] = r.spread(rank, at, r.ops[first:], until[at.chain])
		}
	}
	r.ranks = append(r.ranks, rows)
}

// part writes part k of one side of a chain, and its collective.
func (r *recut) part(rank int, at place, k int, add func(planned, ...int32)) {
	c := &r.chains[at.chain]
	side := c.Before[rank]
	if at.role == receiving {
		side = c.After[rank]
	}
	var lookups []int32
	left := lookupsOf(r.w, side[0])
	for x, first := range side[0] {
		var captured []*workload.Op
		var replaces []int32
		for p := range side {
			captured, replaces = append(captured, &r.w.Ops[side[p][x]]), append(replaces, side[p][x])
		}
		if r.joined && captured[0].Shape.Kind == workload.Embedding {
			if lookups, left = append(lookups, replaces...), left-1; left == 0 {
				add(r.lookups(lookups, at), lookups...)
			}
			continue
		}
		add(planned{
			op: r.laws.Kernel(captured, cost.Part{K: k, Of: r.n}).Op, from: first,
			place: place{at.chain, k, x, at.role}, coll: -1,
		}, replaces...)
	}
	if at.role == receiving {
		return
	}
	var own []int32
	for _, row := range c.Collectives {
		for _, id := range r.w.Collectives[row].Members {
			if r.w.Ops[id].Rank == rank {
				own = append(own, id)
			}
		}
	}
	op, last := r.w.Ops[own[0]], &r.w.Ops[own[len(own)-1]]
	op.Alone, op.Issued, op.Start, op.End = 0, last.Issued, last.Start, last.End
	if r.n > 1 && op.Queue == r.w.Ops[side[0][0]].Queue { // parts cannot overlap on one stream
		op.Queue = r.freeQueue(rank)
	}
	add(planned{op: op, from: own[0], place: place{at.chain, k, 0, moving}, coll: r.first[at.chain] + int32(k)}, own...)
}

// lookups is the lookups of a chain as one op, with the tiles of all of them.
func (r *recut) lookups(ids []int32, at place) planned {
	var captured []*workload.Op
	tiles := 0
	for _, id := range ids {
		captured = append(captured, &r.w.Ops[id])
		tiles += r.w.Ops[id].Tiling.Tiles
	}
	p := planned{op: r.wholeOf(captured), from: ids[0], place: place{at.chain, 0, len(ids), at.role}, coll: -1}
	p.op.Tiling.WGs, p.op.Tiling.Tiles = tiles, tiles // wholeOf has made the kernel its own
	return p
}

// freeQueue is the number of a queue that a rank does not use.
func (r *recut) freeQueue(rank int) (free int64) {
	for _, id := range r.w.Ranks[rank] {
		free = max(free, r.w.Ops[id].Queue+1)
	}
	return free
}

// spread gives the new ops of one side of a chain the captured times of what they replace: those that compute one after another,
// not before the side in front ends, and the parts of a collective within the last one that was captured. It returns the end
// of the last op.
func (r *recut) spread(rank int, side place, ops []planned, until trace.Time) trace.Time {
	if side.role == fused {
		return r.spreadPipelined(rank, &r.pipelines[side.chain-len(r.chains)], ops)
	}
	chain := &r.chains[side.chain]
	captured := chain.Before[rank]
	if side.role == receiving {
		captured = chain.After[rank]
	}
	in := overlap.Interval{Start: trace.Infinity, End: until}
	for _, part := range captured {
		for _, id := range part {
			in.Start, in.End = min(in.Start, r.w.Ops[id].Start), max(in.End, r.w.Ops[id].End)
		}
	}
	in.Start = max(in.Start, until)
	n, k := trace.Time(len(ops)), trace.Time(0)
	if side.role == sending {
		n -= trace.Time(r.n)
	}
	for i := range ops {
		if op := &ops[i].op; ops[i].role != moving {
			op.Start, op.End = in.Start+in.Length()*k/n, in.Start+in.Length()*(k+1)/n
			if k++; k > 1 {
				op.Start = min(op.Start+nanoseconds(r.laws.Machine.Launch.Gap.Value), op.End)
			}
			until = op.End
		}
	}
	if side.role == receiving {
		return until
	}
	c := &r.w.Collectives[chain.Collectives[len(chain.Collectives)-1]]
	moves := max(0, c.Depart-c.Arrive)
	for i := range ops {
		if p := &ops[i]; p.role == moving { // its times are those of the last captured part
			from, to := trace.Time(p.part), trace.Time(p.part+1)
			if p.part > 0 {
				p.op.Start = c.Arrive + moves*from/trace.Time(r.n)
			}
			if until = p.op.End; p.part < r.n-1 {
				p.op.End = c.Arrive + moves*to/trace.Time(r.n)
			}
		}
	}
	return until
}

// link finds what every new op waits for: what the captured op did, and in a chain what is
// of its own part.
func (r *recut) link() {
	for _, rows := range r.ranks {
		last := map[int64]int32{}
		type chunk struct{ chain, part int }
		moves := map[chunk]int32{} // rows of collectives
		for _, row := range rows {
			p := &r.ops[row]
			if before, ok := last[p.op.Queue]; ok && p.role != outside {
				p.after = append(p.after, workload.Dep{Op: before, Why: workload.StreamOrder})
			}
			switch {
			case p.role == moving, p.role == fused && p.index > 0:
				p.after = append(p.after, workload.Dep{Op: row - 1, Why: workload.EnqueuedAfter})
				moves[chunk{p.chain, p.part}] = row
			case p.role == receiving && p.index == 0:
				if before, ok := moves[chunk{p.chain, p.part}]; ok {
					p.after = append(p.after, workload.Dep{Op: before, Why: workload.HostWait})
				}
			}
			for _, d := range r.w.Ops[p.from].After {
				// The first part has waited for what is outside of the chain.
				if now := r.now[d.Op]; len(now) > 0 && (p.role == outside ||
					p.part == 0 && !(p.role == fused && p.index > 0) && (r.at[d.Op].role == outside || r.at[d.Op].chain != p.chain)) {
					p.after = append(p.after, workload.Dep{Op: now[len(now)-1], Why: d.Why})
				}
			}
			p.after = slices.DeleteFunc(p.after, func(d workload.Dep) bool { return d.Op >= row })
			slices.SortStableFunc(p.after, func(a, b workload.Dep) int { return cmp.Compare(a.Op, b.Op) })
			p.after = slices.CompactFunc(p.after, func(a, b workload.Dep) bool { return a.Op == b.Op })
			last[p.op.Queue] = row
		}
	}
}
