package schedule

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Two ranks issue two collectives in another order, each behind a kernel that makes its data: both
// have them in one order, and every kernel stays in front of its collective.
func TestSerialOrder(t *testing.T) {
	w := &workload.Workload{World: 2, Ops: make([]workload.Op, 8), Ranks: [][]int32{{0, 1, 2, 3}, {4, 5, 6, 7}}}
	for i := range w.Ops {
		w.Ops[i] = workload.Op{ID: int32(i), Rank: i / 4, Collective: -1, Start: trace.Time(i % 4), Issued: trace.Infinity}
	}
	for c, members := range [][]int32{{1, 7}, {3, 5}} {
		w.Collectives = append(w.Collectives, workload.Collective{Members: members, Times: workload.Times{Arrive: trace.Time(3 + c)}})
		for _, id := range members {
			w.Ops[id].Collective = int32(c)
		}
	}
	order, turn := serialOrder(w)
	if got := fmt.Sprint(order); got != "[[0 1 2 3] [4 6 7 5]]" {
		t.Errorf("%s", got)
	}
	if turn[1] >= turn[3] || turn[7] >= turn[5] || turn[6] >= turn[7] {
		t.Errorf("turns %v", turn)
	}
}
