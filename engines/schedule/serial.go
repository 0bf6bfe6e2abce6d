package schedule

import (
	"cmp"

	"github.com/overlapse/overlapse/replay/workload"
)

// serialOrder orders every rank's operations for a serial schedule, in which no communication
// runs alongside compute: as the host issued them, except where that would have two ranks wait
// for each other's collectives. All ranks have the collectives in the same order, so they cannot
// deadlock. turn is by op its place in the order of all ranks.
func serialOrder(w *workload.Workload) (order [][]int32, turn []int32) {
	order, turn = make([][]int32, w.World), make([]int32, len(w.Ops))
	written, left := make([]bool, len(w.Ops)), make([][]int32, w.World)
	n := int32(0)
	write := func(id int32) {
		rank := w.Ops[id].Rank
		written[id], turn[id], order[rank] = true, n, append(order[rank], id)
		n++
	}
	// advance writes a rank's operations in front of the next collective, or of the given member of one.
	// It returns the next collective, or -1.
	advance := func(rank int, to int32) (next int32) {
		for i, id := range left[rank] {
			switch {
			case written[id]:
			case id == to:
				return -1
			case w.Ops[id].Collective < 0:
				write(id)
			case to < 0:
				left[rank] = left[rank][i:]
				return w.Ops[id].Collective
			}
		}
		left[rank] = nil
		return -1
	}
	for rank := range left {
		left[rank] = w.IssueOrder(rank)
	}
	for {
		came := map[int32]int{} // by collective: members that come next on their rank
		next := int32(-1)       // the one that the most of its members have come to, of those the earliest
		for rank := range left {
			c := advance(rank, -1)
			if c < 0 {
				continue
			}
			came[c]++
			lacks := func(c int32) int { return len(w.Collectives[c].Members) - came[c] }
			if next < 0 || cmp.Or(cmp.Compare(lacks(c), lacks(next)), cmp.Compare(w.Collectives[c].Arrive, w.Collectives[next].Arrive), cmp.Compare(c, next)) < 0 {
				next = c
			}
		}
		if next < 0 {
			return order, turn
		}
		for _, id := range w.Collectives[next].Members {
			advance(w.Ops[id].Rank, id)
			write(id)
		}
	}
}
