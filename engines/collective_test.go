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

// A channel of an all-to-all waits for the one rank that it serves, so that a rank
// that is late keeps few of the others' workgroups; where ranks do not divide the
// channels it waits for all. Every rank gets its share of the bytes from every other.
func TestAllToAllServesPairs(t *testing.T) {
	for _, c := range []struct{ ranks, channels, kept int }{{2, 32, 16}, {4, 32, 8}, {8, 32, 4}, {4, 4, 1}, {4, 2, 2}, {3, 32, 32}} {
		s := spec{ranks: c.ranks, steps: 1, op: trace.AllToAll, bytes: 96 << 20, gemm: 500_000, comm: 300_000, channels: c.channels}
		w := s.build(t)
		pl, err := newPlanner(w, h200(t, s.ranks))
		if err != nil {
			t.Fatal(err)
		}
		coll := &w.Collectives[0]
		posted, wanted, late := map[replay.Flag]int64{}, map[replay.Flag]int64{}, map[replay.Flag]bool{}
		waits := make([][]replay.Flag, c.ranks)
		sent := make([]map[int32]float64, c.ranks)
		for r, id := range coll.Members {
			sent[r] = map[int32]float64{}
			k := pl.collective(&w.Ops[id], pl.chunks(coll, 1, 0, nil))
			for ch := range k.WGs {
				for _, p := range k.Recipe(ch, nil) {
					switch p.Op {
					case replay.PostTo:
						posted[p.Flag] += p.Count
						late[p.Flag] = late[p.Flag] || r == c.ranks-1
					case replay.WaitFor:
						wanted[p.Flag] = p.Count
						waits[r] = append(waits[r], p.Flag)
					case replay.Store:
						sent[r][p.Peer] += p.Bytes
					}
				}
			}
		}
		for f, n := range wanted {
			if posted[f] != n {
				t.Errorf("%+v: %d posts to a flag that is to reach %d", c, posted[f], n)
			}
		}
		kept := 0
		for _, f := range waits[0] {
			if late[f] {
				kept++
			}
		}
		if kept != 2*c.kept { // to arrive and to depart
			t.Errorf("%+v: %d channels wait for the last rank", c, kept/2)
		}
		for r := range sent {
			if len(sent[r]) < c.ranks-1 {
				t.Errorf("%+v: rank %d sends to %d ranks", c, r, len(sent[r]))
			}
			for peer, bytes := range sent[r] {
				if want := float64(coll.Bytes) / float64(c.ranks); bytes < .999*want || bytes > 1.001*want {
					t.Errorf("%+v: rank %d sends %.0f bytes to %d, want %.0f", c, r, bytes, peer, want)
				}
			}
		}
	}
}

// Beside chunks whose operands the memory takes longer to read than their tiles
// compute, a collective is slowed as beside any kernel that saturates the memory.
func TestNeighbourOfFewRows(t *testing.T) {
	pl := &planner{m: h200(t, 2)}
	op := &workload.Op{Kernel: &workload.Kernel{Shape: workload.Shape{Kind: workload.GEMM, M: 2048, N: 16384, K: 8192}, Tiling: workload.Tiling{Persistent: true}}}
	if few, many := pl.neighbour(op, 16), pl.neighbour(op, 4); few != machine.BesideMemory || many != machine.BesideLibrary {
		t.Errorf("chunks of 128 rows are %d, of 512 rows %d", few, many)
	}
}

// A library's collective that runs beside compute on all CUs that it leaves takes
// as much longer as was calibrated, its latency included.
func TestSlowdownAsCalibrated(t *testing.T) {
	for _, op := range []trace.CollectiveOp{trace.AllReduce, trace.ReduceScatter, trace.AllToAll} {
		s := spec{ranks: 4, steps: 1, op: op, bytes: 128 << 20, gemm: 300_000, comm: 600_000, channels: 16}
		w, m := s.build(t), h200(t, 4)
		pl, err := newPlanner(w, m)
		if err != nil {
			t.Fatal(err)
		}
		compute := &w.Ops[w.Pairs[0].First[0]]
		alone := pl.chunks(&w.Collectives[0], 1, 0, nil)
		beside := pl.chunks(&w.Collectives[0], 1, 0, compute)
		took := func(p part) (all float64) {
			k := pl.collective(&w.Ops[w.Collectives[0].Members[0]], p)
			for _, x := range k.Recipe(0, nil) {
				all += float64(x.Time) * max(1, x.Beside)
			}
			return all
		}
		factor, _, latency := m.Library.Beside(op, s.bytes, s.ranks, alone.channels, pl.neighbour(compute, 1))
		if got, want := took(beside), factor*took(alone)+1e9*latency; !near(got, want) {
			t.Errorf("%s takes %.0f ns beside compute and %.0f alone, want %.0f", op, got, took(alone), want)
		}
	}
}
