package engines

import (
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A channel waits for itself on the other ranks, and for no other channel; every
// rank waits for the same.
func TestChannelsGoOnByThemselves(t *testing.T) {
	s := spec{ranks: 2, steps: 1, op: trace.AllReduce, bytes: 64 << 20, gemm: 500_000, comm: 300_000, channels: 4}
	w := s.build(t)
	pl, err := newPlanner(w, h200(t, s.ranks))
	if err != nil {
		t.Fatal(err)
	}
	c := &w.Collectives[0]
	cut := pl.chunks(c, 2, 0, nil)
	cut.index = 0
	waits := func(op *workload.Op, channel int) (flags []replay.Flag) {
		for _, p := range pl.collective(op, cut).Recipe(channel, nil) {
			if p.Op == replay.WaitFor {
				flags = append(flags, p.Flag)
				if p.Count != int64(s.ranks) {
					t.Errorf("channel %d waits for %d of %d ranks", channel, p.Count, s.ranks)
				}
			}
		}
		return flags
	}
	seen := map[replay.Flag]bool{}
	for channel := range s.channels {
		mine, theirs := waits(&w.Ops[c.Members[0]], channel), waits(&w.Ops[c.Members[1]], channel)
		if len(mine) != 2 || len(theirs) != 2 || mine[0] != theirs[0] || mine[1] != theirs[1] {
			t.Fatalf("channel %d waits for %v and %v", channel, mine, theirs)
		}
		for _, f := range mine {
			if seen[f] {
				t.Errorf("channel %d waits for what another does", channel)
			}
			seen[f] = true
		}
	}
}

// Beside chunks whose operands the memory takes longer to read than their tiles
// compute, a collective is slowed as beside any kernel that saturates the memory.
func TestNeighbourOfFewRows(t *testing.T) {
	pl := &planner{m: h200(t, 2)}
	op := &workload.Op{Shape: workload.Shape{Kind: workload.GEMM, M: 2048, N: 16384, K: 8192}, Tiling: workload.Tiling{Persistent: true}}
	if few, many := pl.neighbour(op, 16), pl.neighbour(op, 4); few != machine.BesideMemory || many != machine.BesideLibrary {
		t.Errorf("chunks of 128 rows are %d, of 512 rows %d", few, many)
	}
}
