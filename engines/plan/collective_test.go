package plan_test

import (
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A channel waits for itself on the other ranks, and for no other channel; every
// rank waits for the same.
func TestChannelsGoOnByThemselves(t *testing.T) {
	s := plantest.Spec{Ranks: 2, Steps: 1, Op: trace.AllReduce, Bytes: 64 << 20, Gemm: 500_000, Comm: 300_000, Channels: 4}
	w := s.Build(t)
	pl := must.Have(plan.NewPlanner(w, plantest.H200(t, s.Ranks), plan.Scenario{}))(t)
	c := &w.Collectives[0]
	cut := pl.Chunks(c, 2, 0, nil)
	cut.Index = 0
	waits := func(op *workload.Op, channel int) (flags []program.Flag) {
		for _, p := range pl.Collective(op, cut).Phases(channel, nil) {
			if p.Op == program.WaitFor {
				flags = append(flags, p.Flag)
				if p.Count != int64(s.Ranks) {
					t.Errorf("channel %d waits for %d of %d ranks", channel, p.Count, s.Ranks)
				}
			}
		}
		return flags
	}
	seen := map[program.Flag]bool{}
	for channel := range s.Channels {
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
		s := plantest.Spec{Ranks: c.ranks, Steps: 1, Op: trace.AllToAll, Bytes: 96 << 20, Gemm: 500_000, Comm: 300_000, Channels: c.channels}
		w := s.Build(t)
		pl := must.Have(plan.NewPlanner(w, plantest.H200(t, s.Ranks), plan.Scenario{}))(t)
		coll := &w.Collectives[0]
		posted, wanted, late := map[program.Flag]int64{}, map[program.Flag]int64{}, map[program.Flag]bool{}
		waits := make([][]program.Flag, c.ranks)
		sent := make([]map[int32]float64, c.ranks)
		for r, id := range coll.Members {
			sent[r] = map[int32]float64{}
			k := pl.Collective(&w.Ops[id], pl.Chunks(coll, 1, 0, nil))
			for ch := range k.WGs {
				for _, p := range k.Phases(ch, nil) {
					switch p.Op {
					case program.PostTo:
						posted[p.Flag] += p.Count
						late[p.Flag] = late[p.Flag] || r == c.ranks-1
					case program.WaitFor:
						wanted[p.Flag] = p.Count
						waits[r] = append(waits[r], p.Flag)
					case program.Store:
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

// On a ring of nodes even channels send to the next node and odd ones to the one before; through a
// switch all send to the next.
func TestRingsGoBothWays(t *testing.T) {
	for _, c := range []struct {
		topology machine.Topology
		want     [2]int32
	}{{machine.Switch, [2]int32{2, 2}}, {machine.Torus2D, [2]int32{2, 0}}} {
		w, m := plantest.OperatorOf(t, "machine: torus128\nranks: 16\ntype: f16\nchannels: 4\ngraph: [{op: gemm, m: 1024, n: 1024, k: 1024}, {op: all_reduce, count: 1048576}]\n")
		m.Network.Topology = c.topology
		pl := must.Have(plan.NewPlanner(w, m, plan.Scenario{}))(t)
		coll := &w.Collectives[0]
		k := pl.Collective(&w.Ops[coll.Members[1]], pl.Chunks(coll, 1, 0, nil))
		for ch := range k.WGs {
			sent := 0
			for _, p := range k.Phases(ch, nil) {
				if (p.Op == program.Store || p.Op == program.Put) && p.Peer != 1 {
					sent++
					if p.Peer != c.want[ch%2] {
						t.Errorf("%s: channel %d sends to %d, want %d", c.topology, ch, p.Peer, c.want[ch%2])
					}
				}
			}
			if sent == 0 {
				t.Errorf("%s: channel %d sends nothing", c.topology, ch)
			}
		}
	}
}
