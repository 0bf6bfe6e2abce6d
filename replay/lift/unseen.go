package lift

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/lift/pairs"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// waitsForUnseen finds how long collectives waited for ranks that nobody captured: what they
// take with nothing else on their captured ranks, which could slow them, beyond the whole time
// of the shortest one of the same operation and group with as many bytes or more, or of the same unknown number (rule C27).
func (l *lifter) waitsForUnseen() {
	if !l.unseen {
		return
	}
	var order []int32
	twins := pairs.Twins(l.Workload)
	for i := range l.Collectives {
		c := &l.Collectives[i]
		if (c.Bytes > 0 || twins[i] > 0) && c.Op != trace.SendRecv && !c.Engines && slices.ContainsFunc(c.Members, func(id int32) bool { return l.Copies[l.Ops[id].Rank] }) {
			order = append(order, int32(i))
		}
	}
	class := func(a, b int32) int {
		x, y := &l.Collectives[a], &l.Collectives[b]
		return cmp.Or(cmp.Compare(x.Op, y.Op), cmp.Compare(x.Group, y.Group), cmp.Compare(len(x.Members), len(y.Members)), cmp.Compare(twins[a], twins[b]))
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(class(a, b), cmp.Compare(l.Collectives[b].Bytes, l.Collectives[a].Bytes))
	})
	alone := l.ranAlone(order)
	waits := slices.Clone(alone)
	least := trace.Infinity // of the class, with so many bytes or more
	for from := 0; from < len(order); {
		if from > 0 && class(order[from-1], order[from]) != 0 {
			least = trace.Infinity
		}
		first, to := order[from], from
		for ; to < len(order) && class(first, order[to]) == 0 && l.Collectives[first].Bytes == l.Collectives[order[to]].Bytes; to++ {
			least = min(least, l.Collectives[order[to]].Transfer())
		}
		for ; from < to; from++ {
			waits[from] -= least
		}
	}
	for k, row := range order {
		if c := &l.Collectives[row]; waits[k] > 0 {
			c.Serial = alone[k] == l.Ops[c.Members[0]].Dur()
			c.Late, c.Arrive, c.Shortest = waits[k], c.Arrive+waits[k], max(1, c.Shortest-waits[k])
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
