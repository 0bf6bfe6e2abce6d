package cost_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// drawnMachine is a shipped machine.
func drawnMachine(t *rapid.T, label string) machine.Machine {
	m, err := profile.Load(rapid.SampledFrom([]string{"h200", "h100", "a100", "mi300x", "b200"}).Draw(t, label))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// drawnKernel is a kernel of any kind, with a grid or without.
func drawnKernel(t *rapid.T, m *machine.Machine) *workload.Op {
	op := &workload.Op{Kind: trace.Compute, End: trace.Time(rapid.IntRange(2_000, 1_000_000).Draw(t, "ns")), Collective: -1, Kernel: &workload.Kernel{
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
	run := &trace.Run{Spans: []trace.Span{{Kind: trace.Copy, Attr: 0}}, Copies: []trace.CopyAttr{{Dir: trace.DeviceToDevice}}}
	return &workload.Workload{Run: run}
}

// A kernel that is asked for as it was seen takes the seen time, by every way of asking.
func TestKernelAsSeen(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		m := drawnMachine(t, "machine")
		op := drawnKernel(t, &m)
		l := &cost.Laws{Machine: &m, Workload: onDevice()}
		for way, took := range map[string]trace.Time{
			"one part":             l.Kernel([]*workload.Op{op}, cost.Part{}).Op.Alone,
			"one part of weights":  l.Kernel([]*workload.Op{op}, cost.Part{Of: 1, Weights: true}).Op.Alone,
			"two parts of two":     l.Kernel([]*workload.Op{op, op}, cost.Part{K: 1, Of: 2}).Op.Alone,
			"on the same machine":  elsewhere(op, &m, &m, 1),
			"on as many workgroup": trace.Time(float64(op.End) * l.TileOn(op, 7, 7, false)),
		} {
			if d := took - op.Dur(); d < -1 || d > 1 {
				t.Errorf("%s %s: %d ns, seen %d", op.Name, way, took, op.Dur())
			}
		}
	})
}

func elsewhere(op *workload.Op, from, to *machine.Machine, share float64) trace.Time {
	w := onDevice()
	l := cost.Laws{Machine: to, Workload: w, Seen: &cost.Laws{Machine: from, Workload: w}}
	return l.Kernel([]*workload.Op{op}, cost.Part{Of: int(1/share + 0.5)}).Op.Alone
}

// A part takes no longer than the whole and no less than its own bytes do; parts together take no more than the whole and a
// launch each where every workgroup has a round of its own, however the kernel is cut.
func TestPartsOfKernels(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		m := drawnMachine(t, "machine")
		op := drawnKernel(t, &m)
		l := &cost.Laws{Machine: &m, Workload: onDevice()}
		n := rapid.IntRange(2, 8).Draw(t, "parts")
		if sh := op.Shape; sh.M > 0 && int64(n) > sh.M {
			n = int(sh.M)
		}
		ways := map[string]func(k int) workload.Op{
			"rows":    func(k int) workload.Op { return l.Kernel([]*workload.Op{op}, cost.Part{K: k, Of: n}).Op },
			"weights": func(k int) workload.Op { return l.Kernel([]*workload.Op{op}, cost.Part{K: k, Of: n, Weights: true}).Op },
			"shard":   func(k int) workload.Op { return workload.Op{Alone: elsewhere(op, &m, &m, 1/float64(n))} },
		}
		for way, part := range ways {
			for k := range n {
				if got := part(k); got.Alone > op.Dur()+1 {
					t.Errorf("%s: %d of %d %s takes %d, whole %d", op.Name, k, n, way, got.Alone, op.Dur())
				}
			}
		}
		a, b := ways["rows"](0).Alone, ways["shard"](0).Alone
		if !op.Matrix() && op.Shape.Kind == workload.NoShape || op.Kind == trace.Copy {
			if r := float64(a) / float64(b); r < 0.95 || r > 1.05 {
				t.Errorf("%s grid %d, read %g: a %d-th takes %d of %d by rows and %d as a shard", op.Name, op.Tiling.WGs, op.Read, n, a, op.Dur(), b)
			}
		}
	})
}

// More rows take no less time.
func TestMoreRows(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		m := drawnMachine(t, "machine")
		op := drawnKernel(t, &m)
		l := &cost.Laws{Machine: &m, Workload: onDevice()}
		last, n := workload.Op{}, rapid.IntRange(1, 8).Draw(t, "parts")
		if sh := op.Shape; sh.M > 0 && int64(n) > sh.M {
			n = int(sh.M)
		}
		for by := 1; by <= 12; by++ {
			x := l.Kernel(slices.Repeat([]*workload.Op{op}, by), cost.Part{Of: n}).Op
			if float64(x.Alone) < 0.98*float64(last.Alone) {
				t.Errorf("%s %s: %d/%d of rows take %d ns (%+v), %d/%d %d (%+v) whole %d", op.Name, op.Shape, by, n, x.Alone, x.Tiling, by-1, n, last.Alone, last.Tiling, op.Dur())
			}
			last = x
		}
	})
}

// A faster machine takes no longer.
func TestFasterMachine(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		from, to := drawnMachine(t, "from"), drawnMachine(t, "to")
		op := drawnKernel(t, &from)
		was := elsewhere(op, &from, &to, 1)
		for name, q := range map[string]*machine.Quantity{"memory": &to.GPU.Memory, "flops": &to.GPU.Flops, "clock": &to.GPU.Clock} {
			old := *q
			q.Value *= 1.5
			if is := elsewhere(op, &from, &to, 1); is > was+1 {
				t.Errorf("%s %s: %d ns, with 1.5 times the %s %d", op.Name, op.Shape, was, name, is)
			}
			*q = old
		}
		_ = fmt.Sprint
	})
}
