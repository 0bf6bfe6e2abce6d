package recut

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A hostMove is by how much host times move from a captured time on.
type hostMove struct{ from, by trace.Time }

// movedHost is a captured host time of a rank in the new workload.
func (r *recut) movedHost(rank int, at trace.Time) trace.Time {
	if rank >= len(r.moves) {
		return at
	}
	moves := r.moves[rank]
	i, found := slices.BinarySearchFunc(moves, at, func(m hostMove, t trace.Time) int { return cmp.Compare(m.from, t) })
	if !found {
		i--
	}
	if i < 0 {
		return at
	}
	return at + moves[i].by
}

// issue sets when the host of a rank issues its new ops: after the same time behind the
// issue before as in the capture. Each part of a chain costs the host what the first one
// did.
func (r *recut) issue(rank int) {
	captured := slices.Clone(r.w.Ranks[rank])
	captured = slices.DeleteFunc(captured, func(id int32) bool { return r.w.Ops[id].Issued == trace.Infinity })
	slices.SortStableFunc(captured, func(a, b int32) int { return cmp.Compare(r.w.Ops[a].Issued, r.w.Ops[b].Issued) })
	since := map[int32]trace.Time{} // by captured op: from the issue before it
	var clock trace.Time
	for i, id := range captured {
		since[id] = 0
		if i > 0 {
			since[id] = r.w.Ops[id].Issued - r.w.Ops[captured[i-1]].Issued
		} else {
			clock = r.w.Ops[id].Issued
		}
	}
	moves := []hostMove(nil)
	put := func(row int32, by trace.Time) {
		clock += by
		r.ops[row].op.Issued = clock
	}
	for _, id := range captured {
		at := r.at[id]
		switch {
		case at.role == outside:
			put(r.now[id][0], since[id])
			moves = append(moves, hostMove{r.w.Ops[id].Issued, clock - r.w.Ops[id].Issued})
		case at.part == 0 && at.index == 0 && at.role != moving:
			r.issueParts(r.sides[id], since, put)
		}
	}
	r.moves = append(r.moves, moves)
}

// issueParts issues all parts of one side of a chain. A later part begins as soon as the host
// usually issues the next op of the first one.
func (r *recut) issueParts(rows [2]int32, since map[int32]trace.Time, put func(int32, trace.Time)) {
	var first []trace.Time
	for row := rows[0]; row < rows[1]; row++ {
		p := &r.ops[row]
		d, known := since[p.from]
		if !known { // not issued by a call that the trace shows
			continue
		}
		switch {
		case p.role == moving:
		case p.part == 0:
			first = append(first, d)
		case p.index == 0:
			d = min(d, overlap.UpperMedian(first))
		}
		put(row, d)
	}
}

// retime gives every new op its times: it starts when all that it waits for has ended and
// it has been issued, after its delay. Members of a collective end together, its transfer
// after the last arrival.
func (r *recut) retime() {
	members := make([][]int32, len(r.colls))
	for row := range r.ops {
		if c := r.ops[row].coll; c >= 0 {
			members[c] = append(members[c], int32(row))
		}
	}
	next := make([]int, len(r.ranks))
	for {
		moved, left := false, false
		for rank, rows := range r.ranks {
			for next[rank] < len(rows) && r.start(rows[next[rank]], members, false) {
				next[rank]++
				moved = true
			}
			left = left || next[rank] < len(rows)
		}
		if !left {
			return
		}
		if !moved { // ranks wait for each other: clocks of ranks disagree
			for rank, rows := range r.ranks {
				if next[rank] < len(rows) {
					r.start(rows[next[rank]], members, true)
					next[rank]++
					break
				}
			}
		}
	}
}

// start sets the times of an op and reports whether all that it waits for has ended.
func (r *recut) start(row int32, members [][]int32, force bool) bool {
	p := &r.ops[row]
	cause := trace.Time(0)
	if p.op.Issued != trace.Infinity {
		cause = p.op.Issued
	}
	for _, d := range p.after {
		before := &r.ops[d.Op]
		if !before.ended && !force {
			return false
		}
		cause = max(cause, before.op.End)
	}
	dur := p.op.Dur()
	if p.role != outside {
		dur = p.op.DurAlone()
	}
	p.op.Start, p.placed = cause+p.delay, true
	p.op.End, p.ended = p.op.Start+dur, p.coll < 0
	if p.coll < 0 {
		return true
	}
	arrive := trace.Time(0)
	for _, m := range members[p.coll] {
		if !r.ops[m].placed {
			return true
		}
		arrive = max(arrive, r.ops[m].op.Start)
	}
	arrive += r.colls[p.coll].Late
	for _, m := range members[p.coll] {
		q := &r.ops[m]
		q.op.End, q.ended = arrive+r.transfer(q), true
	}
	return true
}

// transfer is the time of a member of a collective from the last arrival to its end.
func (r *recut) transfer(p *planned) trace.Time {
	if p.role != outside {
		return r.colls[p.coll].Alone
	}
	op := &r.w.Ops[p.from]
	return max(0, op.End-r.w.Met(op))
}
