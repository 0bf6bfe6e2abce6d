package lift

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// waitsForUnseen finds how long collectives waited for ranks that nobody captured: what they
// take with nothing else on their captured ranks, which could slow them, beyond the whole time
// of the shortest one of the same operation and group with as many bytes or more (rule C27).
func (l *lifter) waitsForUnseen() {
	if !l.unseen {
		return
	}
	var order []int32
	for i := range l.Collectives {
		c := &l.Collectives[i]
		if c.Bytes > 0 && c.Op != trace.SendRecv && !c.Engines && slices.ContainsFunc(c.Members, func(id int32) bool { return l.Copies[l.Ops[id].Rank] }) {
			order = append(order, int32(i))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		x, y := &l.Collectives[a], &l.Collectives[b]
		return cmp.Or(cmp.Compare(x.Op, y.Op), cmp.Compare(x.Group, y.Group), cmp.Compare(len(x.Members), len(y.Members)), cmp.Compare(y.Bytes, x.Bytes))
	})
	waits := l.ranAlone(order)
	for from := 0; from < len(order); {
		first, least, to := &l.Collectives[order[from]], trace.Infinity, from
		for to < len(order) {
			c, end := &l.Collectives[order[to]], to
			if c.Op != first.Op || c.Group != first.Group || len(c.Members) != len(first.Members) {
				break
			}
			for ; end < len(order) && l.Collectives[order[end]].Bytes == c.Bytes; end++ {
				least = min(least, l.Collectives[order[end]].Transfer())
			}
			for ; to < end; to++ {
				waits[to] -= least
			}
		}
		from = to
	}
	for k, row := range order {
		c := &l.Collectives[row]
		if c.Late = max(0, waits[k]); c.Late > 0 {
			c.Arrive, c.Shortest = c.Arrive+c.Late, max(1, c.Shortest-c.Late)
		}
	}
}

// ranAlone is, by collective, the time in which nothing else ran on a member's rank, of the member with the least.
func (l *lifter) ranAlone(collectives []int32) []trace.Time {
	until := make([]trace.Time, len(l.Ops)) // by op: the latest end of its rank's ops in front of it
	for _, ids := range l.Ranks {
		latest := trace.Time(0)
		for _, id := range ids {
			until[id], latest = latest, max(latest, l.Ops[id].End)
		}
	}
	alone := make([]trace.Time, len(collectives))
	for k, row := range collectives {
		alone[k] = trace.Infinity
		for _, id := range l.Collectives[row].Members {
			op := &l.Ops[id]
			others := []overlap.Interval{{Start: op.Start, End: max(op.Start, min(until[id], op.End))}}
			for next := id + 1; int(next) < len(l.Ops) && l.Ops[next].Rank == op.Rank && l.Ops[next].Start < op.End; next++ {
				others = append(others, overlap.Interval{Start: l.Ops[next].Start, End: min(l.Ops[next].End, op.End)})
			}
			alone[k] = min(alone[k], op.Dur()-overlap.Covered(others))
		}
	}
	return alone
}
