package plan

import (
	"math"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

func TestPaced(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 1)}
	pl.Machine.GPU.Memory.Value, pl.Scenario.Pace = 1e12, 1.1 // a MB a µs
	for _, c := range []struct {
		name string
		op   workload.Op
		want int64 // of 1000 µs
	}{
		{"a GEMM", workload.Op{Kernel: &workload.Kernel{Dense: true}, Read: 1e9}, 1_100_000},
		{"all the memory gives", workload.Op{Kernel: &workload.Kernel{}, Read: 6e8, Write: 4e8}, 1_000_000},
		{"half of it", workload.Op{Kernel: &workload.Kernel{}, Read: 5e8}, 1_100_000},
		{"of unknown traffic", workload.Op{Kernel: &workload.Kernel{}}, 1_000_000},
	} {
		c.op.End = 1_000_000
		if got := pl.Paced(&c.op, 1_000_000); int64(got) != c.want {
			t.Errorf("%s: %d ns at a pace of 1.1, want %d", c.name, got, c.want)
		}
	}
	pl.Scenario.Pace = 0.5
	if got := pl.Paced(&workload.Op{Kernel: &workload.Kernel{}, Read: 8e8, End: 1_000_000}, 1_000_000); got != 800_000 {
		t.Errorf("twice as fast a clock leaves %d ns of 800 µs of traffic", got)
	}
}

// A captured GEMM keeps its clusters where its grid is one that they fill and
// the machine's groups hold at once; its chunks have those of their own tile.
func TestClustersOfProducts(t *testing.T) {
	planAll := func(m machine.Machine) *Planner {
		var b trace.Builder
		b.Add(trace.Span{End: 1, Kind: trace.Compute, Parent: trace.None, Attr: trace.None, Lane: b.Lane(trace.Lane{Rank: b.AddRank(trace.Rank{})})})
		return &Planner{Machine: m, Workload: &workload.Workload{Run: b.Finish(trace.Options{})}}
	}
	product := func(m, n, k int64, t workload.Tiling) *workload.Op {
		return &workload.Op{
			End: 300_000,
			Kernel: &workload.Kernel{
				Shape: workload.Shape{Kind: workload.GEMM, M: m, N: n, K: k, ElemSize: 2}, Tiling: t,
				Footprint: program.Footprint{Threads: 384, Registers: 168, Shared: 213188},
			},
		}
	}
	persistent := func(tiles, wgs, cluster int) workload.Tiling {
		return workload.Tiling{TileM: 128, TileN: 256, Tiles: tiles, WGs: wgs, Cluster: cluster, Persistent: true}
	}
	known, unknown := plantest.H200(t, 1), machinetest.Load(t, "h100")
	for _, c := range []struct {
		name         string
		m            machine.Machine
		op           *workload.Op
		chunks       int
		cluster, wgs int
	}{
		{"as captured", known, product(8192, 4096, 3584, persistent(1024, 132, 2)), 1, 2, 132},
		{"a chunk of two waves, 256x128", known, product(8192, 4096, 3584, persistent(1024, 132, 2)), 4, 2, 132},
		// 160x128 in clusters of 2 by 4: 28 by 4 tiles, as a kernel of this shape had (grid 8x14).
		{"a chunk of another tile", known, product(8192, 4256, 4256, persistent(960, 132, 2)), 16, 8, 112},
		// 288x128 in clusters of 4: 30 of them, all that the groups hold.
		{"a chunk of large clusters", known, product(8192, 4256, 4256, persistent(960, 132, 2)), 8, 4, 120},
		{"more than groups hold at once", known, product(8192, 4096, 3584, persistent(1024, 132, 4)), 1, 0, 132},
		{"no whole clusters", known, product(8192, 4096, 3584, persistent(1024, 132, 8)), 1, 0, 132},
		{"groups are not known: as many as were captured", unknown, product(8192, 4096, 3584, persistent(1024, 132, 2)), 4, 2, 132},
	} {
		k := planAll(c.m).chunkOf(c.op, 0, c.chunks)
		if k.Cluster != c.cluster || k.WGs != c.wgs {
			t.Errorf("%s: %d workgroups in clusters of %d, want %d of %d", c.name, k.WGs, k.Cluster, c.wgs, c.cluster)
		}
		if k.Cluster > 1 && k.WGs%k.Cluster != 0 {
			t.Errorf("%s: no whole clusters", c.name)
		}
	}
}

// A library's collective that runs alongside compute on all CUs that it leaves takes
// as much longer as was calibrated, its latency included.
func TestSlowdownAsCalibrated(t *testing.T) {
	for _, op := range []trace.CollectiveOp{trace.AllReduce, trace.ReduceScatter, trace.AllToAll} {
		s := plantest.Spec{Ranks: 4, Steps: 1, Op: op, Bytes: 128 << 20, Gemm: 300_000, Comm: 600_000, Channels: 16}
		w, m := s.Build(t), plantest.H200(t, 4)
		pl := must.Have(NewPlanner(w, m, Scenario{}))(t)
		compute := &w.Ops[w.Pairs[0].First[0]]
		alone := pl.Chunks(&w.Collectives[0], 1, 0, nil)
		beside := pl.Chunks(&w.Collectives[0], 1, 0, compute)
		took := func(p Piece) (all float64) {
			k := pl.Collective(&w.Ops[w.Collectives[0].Members[0]], p)
			for _, x := range k.Phases(0, nil) {
				all += float64(x.Time) * max(1, x.Slowdown)
			}
			return all
		}
		factor, _, latency := pl.Laws().Beside(&w.Collectives[0], s.Bytes, alone.Channels, compute, 1)
		if got, want := took(beside), factor*took(alone)+float64(latency); !plantest.Near(got, want) {
			t.Errorf("%s takes %.0f ns alongside compute and %.0f alone, want %.0f", op, got, took(alone), want)
		}
	}
}

// A host is as many times slower than the profile's as its launch calls took
// longer; without either it is that one.
func TestHostPace(t *testing.T) {
	m := plantest.H200(t, 2)
	call := trace.Time(m.Launch.Call.Value * 1e9)
	unknown := plantest.H200(t, 2)
	unknown.Launch.Call = machine.Quantity{Mark: machine.Unknown}
	for _, c := range []struct {
		name  string
		m     machine.Machine
		calls []trace.Time
		want  float64
	}{
		{"the same", m, []trace.Time{call, 2 * call}, 1},
		{"twice as slow", m, []trace.Time{2 * call, call}, 2},
		{"no host in the trace", m, []trace.Time{0, 0}, 1},
		{"none in the profile", unknown, []trace.Time{2 * call, call}, 1},
	} {
		pl := &Planner{Machine: c.m, Workload: &workload.Workload{Calls: c.calls}}
		if got := pl.Workload.HostPace(0, pl.Machine.Launch.Call.Or(0)); math.Abs(got-c.want) > 1e-3 {
			t.Errorf("%s: %g, want %g", c.name, got, c.want)
		}
	}
}

// A plan leaves alone what is neither of its pairs nor a collective that it moves or beside one, in the iteration that it changes
// most: a round is a GEMM of 304 us and a collective of 153 us, and each of four rounds is an iteration, or two are.
func TestLeftAlone(t *testing.T) {
	inPairs := func(w *workload.Workload) { // two rounds are an iteration
		of, _ := workload.IterationsOf(w)
		w.Steps = make([]workload.Step, 2)
		for i := range w.Ops {
			w.Ops[i].Step = of[i] / 2
		}
	}
	for name, c := range map[string]struct {
		change func(*Planner)
		want   float64
	}{
		"all collectives": {func(*Planner) {}, 1 - 2*153.0/457},
		"one pair of four": {func(pl *Planner) {
			pl.Take(func(p *workload.Pair) bool { return p == &pl.Workload.Pairs[0] })
		}, 0},
		"one collective of four": {func(pl *Planner) {
			pl.ChangesOnly = func(c *workload.Collective) bool { return c == &pl.Workload.Collectives[0] }
		}, 1 - 2*153.0/457},
		"one pair of two in each iteration": {func(pl *Planner) {
			inPairs(pl.Workload)
			pl.Take(func(p *workload.Pair) bool { return p == &pl.Workload.Pairs[0] || p == &pl.Workload.Pairs[2] })
		}, 0.5},
		"one pair of two in one iteration": {func(pl *Planner) {
			inPairs(pl.Workload)
			pl.Take(func(p *workload.Pair) bool { return p == &pl.Workload.Pairs[3] })
		}, 0.5},
		"other launches": {func(pl *Planner) { pl.Graph = true }, 0},
		"all cut anew":   {func(pl *Planner) { pl.Workload.Origins = make([]int32, len(pl.Workload.Ops)) }, 0},
	} {
		pl := must.Have(NewPlanner(plantest.MoeDown.Build(t), plantest.H200(t, 4), Scenario{}))(t)
		c.change(pl)
		if got := pl.Changes().Rest; math.Abs(got-c.want) > 1e-3 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Of many operations that one queue is said to have run at once, only the next one begins early; the others keep their order.
func TestQueuedAtOnce(t *testing.T) {
	w := &workload.Workload{}
	for i := range trace.Time(6) {
		w.Ops = append(w.Ops, workload.Op{ID: int32(i), Queue: 7, Start: i, End: 100 - i})
	}
	ran := make([]Queued, len(w.Ops))
	FindQueued(w, []int32{0, 1, 2, 3, 4, 5}, ran)
	var lanes, before []int
	for _, q := range ran {
		id := -1
		if q.Before != nil {
			id = int(q.Before.ID)
		}
		lanes, before = append(lanes, q.Lane), append(before, id)
	}
	if !slices.Equal(lanes, []int{0, 1, 1, 1, 1, 1}) || !slices.Equal(before, []int{-1, -1, 1, 2, 3, 4}) {
		t.Errorf("on streams %v, behind %v", lanes, before)
	}
}
