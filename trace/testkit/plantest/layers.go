package plantest

import (
	"cmp"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// SelfAttention is three dependent kernels: queries, keys and values side by
// side, the dot product of those of one column, the output projection.
func SelfAttention(m int64) Chain {
	return Chain{Ranks: 1, Steps: 4, M: m, GEMMs: []Dense{
		{Name: "qkv", N: 4608, K: 12288, Dur: 160_000},
		{Name: "dot product", N: 1536, K: 1536, Dur: 40_000},
		{Name: "projection", N: 12288, K: 1536, Dur: 66_000},
	}}
}

// A Sublayer is a GEMM of a transformer whose output an all-reduce sums over
// tensor-parallel ranks: T3's Tables 1 and 2.
type Sublayer struct {
	Model, Name    string
	Hidden, Tokens float64
	Share          float64 // of the GEMM's inner dimension, in units of hidden
	Ranks          int
}

// Sublayers are those that T3 evaluates.
func Sublayers() []Sublayer {
	var all []Sublayer
	for _, model := range []struct {
		name           string
		hidden, tokens float64
	}{{"Mega-GPT-2", 3072, 16 << 10}, {"T-NLG", 4256, 8 << 10}} {
		for _, ranks := range []int{8, 16} {
			for _, sub := range []struct {
				name  string
				share float64
			}{{"OP", 1}, {"FC-2", 4}, {"FC-1", 4}, {"IP", 3}} {
				all = append(all, Sublayer{Model: model.name, Name: sub.name, Hidden: model.hidden, Tokens: model.tokens, Share: sub.share, Ranks: ranks})
			}
		}
	}
	return all
}

// Build is one GEMM and its all-reduce with the times that Table 1 gives them.
func (s Sublayer) Build(t testing.TB, m machine.Machine) (w *workload.Workload, gemm, half trace.Time) {
	k := s.Share * s.Hidden / float64(s.Ranks)
	peak := 80 * 1.4e9 * 1024 * 0.8 * k / (k + 130) // efficiency falls with a short inner dimension
	gemm = trace.Time(2 * s.Tokens * s.Hidden * k / peak * 1e9)
	bytes := int64(s.Tokens * s.Hidden * 2)
	half = trace.Time(m.Library.Time(trace.ReduceScatter, bytes, s.Ranks, 0) * 1e9)
	sp := Spec{Ranks: s.Ranks, Steps: 2, Op: trace.AllReduce, Bytes: bytes, Gemm: gemm, Comm: 2 * half, Channels: 80}
	w = sp.Build(t)
	for i := range w.Ops {
		op := &w.Ops[i]
		op.Footprint = program.Footprint{Threads: 256, Registers: 64, Shared: 32 << 10}
		if op.Collective >= 0 {
			op.Footprint.Registers = 32
			continue
		}
		op.Shape = workload.Shape{Kind: workload.GEMM, M: int64(s.Tokens), N: int64(s.Hidden), K: int64(k), ElemSize: 2}
		tiles := machine.CeilDiv(int(s.Tokens), 128) * machine.CeilDiv(int(s.Hidden), 128)
		op.Tiling = workload.Tiling{TileM: 128, TileN: 128, Tiles: tiles, WGs: tiles}
		op.Read, op.Write = 2*float64((op.Shape.M+op.Shape.N)*op.Shape.K), float64(bytes)
	}
	return w, gemm, half
}

// An Mlp is a chain of two GEMMs in tiles of 128×128, two workgroups a CU:
// batch×ffn over hidden, then batch×hidden over ffn.
type Mlp struct {
	Ranks, Steps       int
	Batch, Hidden, Ffn int64
	Up, Down           trace.Time
}

// Mlp512 is an MLP of GPT-3 with a batch of 512.
var Mlp512 = Mlp{Ranks: 2, Steps: 3, Batch: 512, Hidden: 12288, Ffn: 6144, Up: 144_300, Down: 147_500}

// Build makes the workload.
func (s Mlp) Build(t testing.TB) *workload.Workload {
	t.Helper()
	up := Dense{Name: "up", N: s.Ffn, K: s.Hidden, Dur: s.Up}
	down := Dense{Name: "down", N: s.Hidden, K: s.Ffn, Dur: s.Down}
	return Chain{Ranks: s.Ranks, Steps: s.Steps, M: s.Batch, GEMMs: []Dense{up, down}}.Build(t)
}

// A Chain is a loop of dependent GEMMs over the same m rows.
type Chain struct {
	Ranks, Steps int
	M            int64
	GEMMs        []Dense
}

// A Dense is one GEMM of a chain.
type Dense struct {
	Name   string
	N, K   int64
	Dur    trace.Time
	Rows   int                // of a tile; 0: 128, as columns
	Cols   int                //
	Splits int                // workgroups a tile; 0: 1
	Kind   workload.ShapeKind // 0: GEMM
}

// Build makes the workload that lift.Workload would find.
func (s Chain) Build(t testing.TB) *workload.Workload {
	t.Helper()
	var b trace.Builder
	w := &workload.Workload{World: s.Ranks, Captured: s.Ranks}
	for r := range s.Ranks {
		b.AddRank(trace.Rank{ID: r, World: s.Ranks})
		w.Ranks = append(w.Ranks, nil)
	}
	links := len(s.GEMMs) - 1
	w.Pairs = make([]workload.Pair, s.Steps*links)
	w.Steps = make([]workload.Step, s.Steps)
	for r := range s.Ranks {
		at, prev := trace.Time(10_000), int32(-1)
		for step := range s.Steps {
			w.Steps[step].Start = append(w.Steps[step].Start, at)
			for i, x := range s.GEMMs {
				rows, cols, splits := cmp.Or(x.Rows, 128), cmp.Or(x.Cols, 128), max(1, x.Splits)
				sh := workload.Shape{Kind: max(workload.GEMM, x.Kind), M: s.M, N: x.N, K: x.K, ElemSize: 2}
				tiles := machine.CeilDiv(int(sh.M), rows) * machine.CeilDiv(int(sh.N), cols)
				op := workload.Op{
					ID: int32(len(w.Ops)), Rank: r, Kind: trace.Compute, Queue: 7, Collective: -1,
					Start: at, End: at + x.Dur, Issued: trace.Infinity, Gap: LaunchGap, Step: int32(step),
					Read: 2 * float64(sh.M*sh.K+sh.K*sh.N), Write: 2 * float64(sh.M*sh.N),
					Kernel: &workload.Kernel{
						Name: x.Name, Shape: sh,
						Tiling:    workload.Tiling{TileM: rows, TileN: cols, Tiles: tiles * splits, WGs: tiles * splits},
						Footprint: program.Footprint{Threads: 256, Registers: 116, Shared: 98304},
					},
				}
				add(&b, w, op, prev)
				if i < links {
					p := &w.Pairs[step*links+i]
					p.Direction, p.Collective, p.Step = workload.ComputeThenCompute, -1, int32(step)
					p.First = append(p.First, op.ID)
				}
				if i > 0 {
					p := &w.Pairs[step*links+i-1]
					p.Second = append(p.Second, op.ID)
				}
				prev, at = op.ID, op.End+LaunchGap
			}
			w.Steps[step].End = append(w.Steps[step].End, at-LaunchGap)
		}
	}
	w.Run = b.Finish(trace.Options{Name: "chain", KeepZero: true})
	Spec{}.link(w, nil, nil)
	return w
}

// add puts an operation behind another one of its rank (-1: none) into the workload and its trace. It
// returns the row of its kernel.
func add(b *trace.Builder, w *workload.Workload, op workload.Op, prev int32) int32 {
	if prev >= 0 {
		op.After = []workload.Dep{{Op: prev, Why: workload.StreamOrder}}
	}
	row := b.AddKernel(trace.Kernel{Setup: b.AddSetup(trace.Setup{Stream: op.Queue}), Comm: trace.None, Op: trace.None, Origin: trace.None})
	b.Add(trace.Span{
		Start: op.Start, End: op.End, Kind: op.Kind, Attr: row, Parent: trace.None, Name: b.Intern(op.Name),
		Lane: b.Lane(trace.Lane{Kind: trace.Queue, Rank: int32(op.Rank), ID: op.Queue, Peer: trace.None}),
	})
	w.Ops = append(w.Ops, op)
	w.Ranks[op.Rank] = append(w.Ranks[op.Rank], op.ID)
	return row
}
