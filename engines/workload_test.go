package engines

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A spec is a loop of one GEMM and one collective, as a trace of it would be lifted.
type spec struct {
	ranks, steps int
	op           trace.CollectiveOp
	bytes        int64
	gemm, comm   trace.Time
	channels     int
	late         trace.Time // how much later rank 0 starts
	reverse      bool       // the collective feeds the GEMM
	experts      int        // so many products of equal parts of the rows, and no pair
}

var moeDown = spec{ranks: 4, steps: 4, op: trace.AllToAll, bytes: 64 << 20, gemm: 304_000, comm: 153_000, channels: 32}

const launchGap = 2_000

// build makes the workload that workload.Lift would find: 8192×4096×3584 in
// tiles of 256×128 on 132 persistent workgroups.
func (s spec) build(t testing.TB) *workload.Workload {
	t.Helper()
	var b trace.Builder
	w := &workload.Workload{World: s.ranks, Captured: s.ranks}
	group := b.AddGroup(trace.Group{Name: "0", Size: s.ranks})
	var gemms, comms [][]int32
	for r := range s.ranks {
		b.AddRank(trace.Rank{ID: r, World: s.ranks})
		gemms, comms = append(gemms, nil), append(comms, nil)
		w.Ranks = append(w.Ranks, nil)
	}
	for r := range s.ranks {
		at := trace.Time(10_000)
		prev := int32(-1)
		for step := range s.steps {
			for half := range 2 {
				isComm := (half == 1) != s.reverse
				parts := 1
				if !isComm {
					parts = max(1, s.experts)
				}
				for e := range parts {
					op := workload.Op{
						ID: int32(len(w.Ops)), Rank: r, Kind: trace.Compute, Queue: 7, Collective: -1,
						Start: at, End: at + s.gemm/trace.Time(parts), Issued: trace.Never, Gap: launchGap, Step: int32(step),
						Kernel: &workload.Kernel{
							Name:      "gemm_256x128",
							Shape:     workload.Shape{Kind: workload.GEMM, M: 8192 / int64(parts), N: 4096, K: 3584, ElemSize: 2},
							Tiling:    workload.Tiling{TileM: 256, TileN: 128, Tiles: 1024 / parts, WGs: 132, Persistent: true},
							Footprint: replay.Footprint{Threads: 384, Registers: 168, Shared: 213188},
						},
					}
					if isComm {
						op.Kind, op.Name, op.Queue = trace.Collective, "nccl_"+s.op.String(), 19
						op.End = at + s.late + s.comm
						op.Collective = int32(step)
						op.Shape, op.Tiling = workload.Shape{}, workload.Tiling{WGs: s.channels}
						op.Footprint = replay.Footprint{Threads: 640, Registers: 96, Shared: 103808}
						if r == 0 && s.late > 0 {
							op.Start += s.late
							op.Gap += s.late
						}
					}
					if prev >= 0 {
						op.After = []workload.Dep{{Op: prev, Why: workload.StreamOrder}}
					}
					row := b.AddKernel(trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None, Stream: op.Queue})
					if isComm {
						b.Kernel(row).Comm = b.AddComm(trace.Comm{Op: s.op, Group: group, Seq: int64(step), In: s.bytes, Out: s.bytes, Peer: trace.None})
					}
					b.Add(trace.Span{
						Start: op.Start, End: op.End, Kind: op.Kind, Attr: row, Parent: trace.None, Name: b.Intern(op.Name),
						Lane: b.Lane(trace.Lane{Kind: trace.Queue, Rank: int32(r), ID: op.Queue, Peer: trace.None}),
					})
					w.Ops = append(w.Ops, op)
					w.Ranks[r] = append(w.Ranks[r], op.ID)
					if isComm {
						comms[r] = append(comms[r], op.ID)
					} else if e == 0 {
						gemms[r] = append(gemms[r], op.ID)
					}
					prev, at = op.ID, op.End+launchGap
				}
			}
		}
	}
	w.Run = b.Finish(trace.Options{Name: "spec", KeepZero: true})
	s.link(w, gemms, comms)
	if s.experts > 1 {
		w.Pairs = nil
	}
	return w
}

// link fills in spans, collectives, pairs and steps.
func (s spec) link(w *workload.Workload, gemms, comms [][]int32) {
	at := map[string]trace.SpanID{}
	for i, sp := range w.Run.Spans {
		at[fmt.Sprint(w.Run.RankOf(sp), sp.Start, sp.Kind)] = trace.SpanID(i)
	}
	for i := range w.Ops {
		op := &w.Ops[i]
		op.Span = at[fmt.Sprint(op.Rank, op.Start, op.Kind)]
	}
	for step := range s.steps {
		c := workload.Collective{Op: s.op, Seq: int64(step), Bytes: s.bytes, In: s.bytes, Out: s.bytes, Channels: s.channels, Depart: trace.Never}
		p := workload.Pair{Direction: workload.ComputeThenCollective, Collective: int32(step), Step: int32(step)}
		if s.reverse {
			p.Direction = workload.CollectiveThenCompute
		}
		st := workload.Step{Name: fmt.Sprintf("step#%d", step)}
		for r := range s.ranks {
			c.Members = append(c.Members, comms[r][step])
			m := &w.Ops[comms[r][step]]
			c.Arrive, c.Depart = max(c.Arrive, m.Start), min(c.Depart, m.End)
			first, second := gemms[r][step], comms[r][step]
			if s.reverse {
				first, second = second, first
			}
			p.First, p.Second = append(p.First, first), append(p.Second, second)
			st.Start, st.End = append(st.Start, w.Ops[first].Start), append(st.End, w.Ops[second].End)
		}
		w.Collectives, w.Pairs, w.Steps = append(w.Collectives, c), append(w.Pairs, p), append(w.Steps, st)
	}
}
