package schedule

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A lane's operations share a stream unless they overlapped, or the stream is at a later
// iteration; ranks and queues share none.
func TestLanes(t *testing.T) {
	ranks, of := []*plan.Rank{{ID: 0}, {ID: 1}}, []lanes{{}, {}}
	for i, c := range []struct {
		rank      int
		queue     int64
		iteration int32
		at        trace.Time
		want      int // stream of the rank
	}{{0, 7, 0, 0, 0}, {0, 7, 0, 10, 0}, {0, 7, 0, 5, 1}, {1, 7, 0, 20, 0}, {0, 8, 0, 20, 2}, {0, 7, 1, 20, 0}, {0, 7, 0, 30, 1}, {0, 7, 0, 30, 3}} {
		s := of[c.rank].of(ranks[c.rank], laneKey{c.queue, trace.Compute, false}, c.iteration, c.at)
		s.End, s.iteration = c.at+10, c.iteration
		if got := ranks[c.rank].Streams[c.want]; got != s.Stream {
			t.Errorf("operation %d is not on stream %d", i, c.want)
		}
	}
}

// BenchmarkLanes shows that the time to find a lane does not grow with their number: ns/lane.
func BenchmarkLanes(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				l, r := lanes{}, &plan.Rank{}
				for i := range n {
					l.of(r, laneKey{queue: int64(i)}, 0, 0)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/lane")
		})
	}
}

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

// All tiles are computed with any setting: a GEMM alone takes at least the time of its
// flop on the CUs that it may use.
func TestShapedGridsComputeAllTiles(t *testing.T) {
	m := machinetest.Load(t, "a100x4")
	w := Load{Op: trace.AllReduce, Gemm: 1}.Build(t, m)
	pl := must.Have(plan.NewPlanner(w, m, plan.Scenario{}))(t)
	op := &w.Ops[0]
	base := pl.ApartGrid(op, op.Tiling.Tiles)
	work := float64(base.Time) * base.Pipe * float64(op.Tiling.Tiles) // CU time
	for _, o := range []occupancy{{}, {blocks: 54}, {blocks: 864}, {carve: 8}, {carve: 107}, {shared: 50 << 10, carve: 16}, {blocks: 100, carve: 50}, {shared: 80 << 10, blocks: 300}} {
		g := shaped(pl, op, o)
		k := pl.KernelOf(op, g)
		res, err := replay.Simulate(m, &program.Program{GPUs: []program.GPU{{Streams: []program.Stream{{Commands: []program.Command{{Op: program.Launch, Kernel: k}}}}}}}, replay.Options{})
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		cus := m.GPU.CUs.Value - float64(o.carve)
		if o.blocks > 0 {
			cus = min(cus, float64(o.blocks))
		}
		if least := trace.Time(0.99 * work / cus); res.Makespan < least {
			t.Errorf("%+v: %d ns, its tiles need %d", o, res.Makespan, least)
		}
		if most := trace.Time(2 * work / cus); res.Makespan > most {
			t.Errorf("%+v: %d ns, twice what its tiles need", o, res.Makespan)
		}
	}
}
