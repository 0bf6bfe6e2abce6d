package cost_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// drawnMachine is a shipped machine.
func drawnMachine(t *rapid.T, label string) machine.Machine {
	m := must.Have(machine.Load(rapid.SampledFrom([]string{"h200", "h100", "a100", "mi300x", "b200"}).Draw(t, label)))(t)
	return m
}

// drawnKernel is a kernel of any kind, with a grid or without.
func drawnKernel(t *rapid.T, m *machine.Machine) *workload.Op {
	op := &workload.Op{Kind: trace.Compute, End: trace.Time(max(0, rapid.IntRange(-10_000, 1_000_000).Draw(t, "ns"))), Collective: -1, Kernel: &workload.Kernel{
		Name:      rapid.SampledFrom([]string{"library", "triton_mm", "gemv", "norm", "bag", "copy", "weights"}).Draw(t, "kernel"),
		Footprint: program.Footprint{Threads: 128 << rapid.IntRange(0, 2).Draw(t, "threads")},
	}}
	side := func(name string) int64 { return 64 * rapid.Int64Range(1, 128).Draw(t, name) }
	sh := workload.Shape{Kind: workload.GEMM, M: side("M"), N: side("N"), K: side("K"), ElemSize: 2}
	if rapid.Bool().Draw(t, "has a grid") {
		op.Tiling.WGs = rapid.IntRange(1, 20_000).Draw(t, "workgroups")
		op.Tiling.Tiles = op.Tiling.WGs
	}
	op.Read = 4000 * float64(op.End) * rapid.Float64Range(0, 0.9).Draw(t, "memory's share")
	op.Write = op.Read * rapid.Float64Range(0, 1).Draw(t, "written")
	op.Read -= op.Write / 2
	switch op.Name {
	case "library":
		op.Name = "nvjet"
		tiling := m.Tiling(sh.M, sh.N, sh.K)
		op.Shape, op.Tiling = sh, workload.Tiling{TileM: tiling.Columns, TileN: tiling.Rows, Tiles: tiling.Tiles, WGs: min(tiling.Tiles, int(m.GPU.CUs.Value)), Persistent: tiling.Tiles > int(m.GPU.CUs.Value)}
		op.End = max(1000, trace.Time(1e9*tiling.Seconds*rapid.Float64Range(0.8, 2).Draw(t, "slower")))
		op.Read, op.Write = sh.Traffic()
	case "triton_mm":
		op.Shape, op.Tiling = sh, workload.Tiling{TileM: 64, TileN: 64, Depth: 64, Tiles: int(sh.M * sh.N >> 12), WGs: int(sh.M * sh.N >> 12)}
		op.Read, op.Write = sh.Traffic()
	case "gemv":
		op.Shape = workload.Shape{Kind: workload.GEMV, M: rapid.Int64Range(1, 8).Draw(t, "rows"), N: sh.N, K: sh.K, ElemSize: 2}
		op.Read, op.Write = op.Shape.Traffic()
	case "bag":
		op.Shape = workload.Shape{Kind: workload.Embedding, M: sh.M, N: sh.N, K: 80, ElemSize: 2}
	case "copy":
		op.Kind, op.Tiling = trace.Copy, workload.Tiling{}
	case "weights":
		op.Name, op.Tiling.TileM, op.Tiling.TileN = "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT", 64, 8
	}
	return op
}

// onDevice is a workload whose copies stay on the device.
func onDevice() *workload.Workload {
	run := &trace.Run{Spans: []trace.Span{{Kind: trace.Copy, Attr: 0}}}
	run.Copies = []trace.CopyAttr{{Dir: trace.DeviceToDevice}}
	return &workload.Workload{Run: run}
}

// between are the laws of a machine for operations that were seen on another one.
func between(from, to *machine.Machine) *cost.Laws {
	w := onDevice()
	return &cost.Laws{Machine: to, Workload: w, Seen: &cost.Laws{Machine: from, Workload: w}}
}

// A kernel that is asked for as it was seen takes the seen time, by every way of asking.
func TestKernelAsSeen(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		m := drawnMachine(t, "machine")
		op := drawnKernel(t, &m)
		one, n := []*workload.Op{op}, rapid.IntRange(1, 8).Draw(t, "parts")
		for on, l := range map[string]*cost.Laws{"seen here": {Machine: &m, Workload: onDevice()}, "seen on the same machine": between(&m, &m)} {
			for way, e := range map[string]cost.Estimate{
				"as seen":               l.Kernel(one, cost.Part{}),
				"one part":              l.Kernel(one, cost.Part{Of: 1}),
				"one part of weights":   l.Kernel(one, cost.Part{Of: 1, Weights: true}),
				"all rows of all parts": l.Kernel(slices.Repeat(one, n), cost.Part{K: n - 1, Of: n}),
			} {
				if d := e.Op.Alone - op.Dur(); d < -1 || d > 1 || math.Abs(e.By-1) > 0.001 || e.Op.Shape.M != op.Shape.M {
					t.Errorf("%s %s, %s: %d ns, seen %d", op.Name, way, on, e.Op.Alone, op.Dur())
				}
			}
		}
		l := cost.Laws{Machine: &m, Workload: onDevice()}
		if by := l.TileOn(op, n, n, false); math.Abs(by-1) > 1e-9 {
			t.Errorf("%s on as many workgroups as seen: %v of the time of a tile", op.Name, by)
		}
	})
}

// A part takes no longer than the whole, wherever it was seen. Parts together take no less than their bytes do, and, where
// every part fills the machine or has no grid, no more than the whole, a launch and the last vectors of a lookup each, and a
// part of a round.
func TestPartsOfKernels(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		m, to := drawnMachine(t, "machine"), drawnMachine(t, "another")
		op := drawnKernel(t, &m)
		n := rapid.IntRange(2, 8).Draw(t, "parts")
		if sh := op.Shape; sh.M > 0 && int64(n) > sh.M {
			n = max(1, int(sh.M))
		}
		l, one := &cost.Laws{Machine: &m, Workload: onDevice()}, []*workload.Op{op}
		there := between(&m, &to)
		whole := there.Kernel(one, cost.Part{}).Op.Alone
		for _, weights := range []bool{false, true} {
			var sum trace.Time
			for k := range n {
				part := l.Kernel(one, cost.Part{K: k, Of: n, Weights: weights}).Op.Alone
				if sum += part; part > op.Dur() {
					t.Errorf("part %d of %d of %s takes %d ns, the whole %d", k, n, op.Name, part, op.Dur())
				}
			}
			least := min(seconds(op.Dur()), (op.Read+op.Write)/m.GPU.Memory.Value)
			if op.Shape.Kind == workload.Embedding {
				least = 0 // reads of rows have a rate of their own
			}
			if seconds(sum) < 0.94*least { // so many workgroups reach up to 5 % less than half as many (gpu.stream)
				t.Errorf("%d parts of %s together take %d ns, the memory %.0f", n, op.Name, sum, 1e9*least)
			}
			if plain := op.Shape.Kind == workload.NoShape && !op.Matrix() || op.Kind == trace.Copy; plain && op.Tiling.WGs == 0 {
				most := seconds(op.Dur()) + float64(n)*(m.Launch.Graph.Or(0)+seconds(2))
				if op.Kind != trace.Copy && seconds(sum) > most {
					t.Errorf("%d parts of %s together take %d ns, the whole %d", n, op.Name, sum, op.Dur())
				}
			}
		}
		if part := there.Kernel(one, cost.Part{Of: n}).Op.Alone; float64(part) > 1.01*float64(whole)+1 {
			t.Errorf("one of %d parts of %s takes %d ns on %s, the whole %d", n, op.Name, part, to.Name, whole)
		}
	})
}

func seconds(t trace.Time) float64 { return float64(t) / 1e9 }

// Fewer rows take no longer than those that were seen. Of a kernel that is no product, more take no less: a library has another
// kernel for more.
func TestMoreRows(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		m := drawnMachine(t, "machine")
		op := drawnKernel(t, &m)
		l, n := &cost.Laws{Machine: &m, Workload: onDevice()}, rapid.IntRange(1, 8).Draw(t, "parts")
		if sh := op.Shape; sh.M > 0 && int64(n) > sh.M {
			n = int(sh.M)
		}
		last := trace.Time(0)
		for by := 1; by <= 12; by++ {
			took := l.Kernel(slices.Repeat([]*workload.Op{op}, by), cost.Part{Of: n}).Op.Alone
			if by < n && took > op.Dur() || op.Shape.Flops() == 0 && float64(took) < 0.98*float64(last)-2 {
				t.Errorf("%s %s: %d/%d of the rows take %d ns, %d/%d %d, those seen %d", op.Name, op.Shape, by, n, took, by-1, n, last, op.Dur())
			}
			last = took
		}
	})
}

// A machine of higher rates takes no longer. More persistent workgroups take no longer over all tiles.
func TestFasterMachine(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		from, to := drawnMachine(t, "from"), drawnMachine(t, "to")
		op := drawnKernel(t, &from)
		one := []*workload.Op{op}
		was := between(&from, &to).Kernel(one, cost.Part{}).Op.Alone
		for name, q := range map[string]*machine.Quantity{"memory": &to.GPU.Memory, "flops": &to.GPU.Flops, "clock": &to.GPU.Clock} {
			old := *q
			q.Value *= 1.5
			if is := between(&from, &to).Kernel(one, cost.Part{}).Op.Alone; is > was+1 {
				t.Errorf("%s %s: %d ns, with 1.5 times the %s %d", op.Name, op.Shape, was, name, is)
			}
			*q = old
		}
		l, n := cost.Laws{Machine: &from, Workload: onDevice()}, rapid.IntRange(1, 500).Draw(t, "workgroups")
		if more, fewer := l.TileOn(op, n+1, n, false)/float64(n+1), 1/float64(n); more > 1.05*fewer {
			t.Errorf("%s: all tiles take %.3g on %d workgroups, %.3g on %d", op.Name, more, n+1, fewer, n)
		}
	})
}

// A collective that is asked for as it was seen takes the seen time, by every way of asking. A part takes no longer than the
// whole, through fewer channels no less, and a larger one no less.
func TestCollectiveAsSeen(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		ranks := rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "ranks")
		m := drawnMachine(t, "machine")
		m = m.Resize(ranks)
		w := &workload.Workload{Ops: make([]workload.Op, ranks)}
		c := &workload.Collective{Op: rapid.SampledFrom([]trace.CollectiveOp{trace.AllReduce, trace.ReduceScatter, trace.AllGather, trace.AllToAll}).Draw(t, "operation")}
		for i := range ranks {
			c.Members = append(c.Members, int32(i))
			w.Ops[i].Rank = i
		}
		c.Bytes = 8 << rapid.IntRange(10, 26).Draw(t, "an eighth")
		c.In, c.Out = c.Bytes, c.Bytes
		c.Channels = rapid.IntRange(1, 32).Draw(t, "channels")
		c.Depart = trace.Time(rapid.IntRange(5_000, 10_000_000).Draw(t, "ns"))
		l := &cost.Laws{Machine: &m, Workload: w}
		same := &cost.Laws{Machine: &m, Workload: w, Seen: l}
		whole, eighths := l.Cut([]*workload.Collective{c}, 1, 0), l.Cut(slices.Repeat([]*workload.Collective{c}, 8), 8, 0)
		for way, e := range map[string]cost.Estimate{
			"as seen": l.Collective(c, c.Bytes, 0), "its channels": l.Collective(c, c.Bytes, c.Channels), "same machine": same.Collective(c, c.Bytes, 0),
			"one part": {Alone: whole.Alone, Channels: whole.Channels}, "eight eighths of eight": {Alone: eighths.Alone, Channels: eighths.Channels},
		} {
			if e.Alone != c.Transfer() || e.Channels != c.Channels {
				t.Errorf("%s: %d ns on %d channels, seen %d on %d", way, e.Alone, e.Channels, c.Transfer(), c.Channels)
			}
		}
		if eighth := l.Cut([]*workload.Collective{c}, 8, 0); eighth.Alone > c.Transfer() || eighth.Bytes != c.Bytes/8 || eighth.Channels > c.Channels {
			t.Errorf("an eighth of %d ns on %d channels takes %d on %d", c.Transfer(), c.Channels, eighth.Alone, eighth.Channels)
		}
		if more := l.Collective(c, 8*c.Bytes, 0); float64(more.Alone) < 0.99*float64(c.Transfer()) {
			t.Errorf("eight times the bytes take %d ns, the seen ones %d", more.Alone, c.Transfer())
		}
		if fewer := l.Collective(c, c.Bytes, max(1, c.Channels/2)); float64(fewer.Alone) < 0.95*float64(c.Transfer()) {
			t.Errorf("%s of %d: %d ns on %d channels, seen %d on %d", c.Op, c.Bytes, fewer.Alone, fewer.Channels, c.Transfer(), c.Channels)
		}
	})
}
