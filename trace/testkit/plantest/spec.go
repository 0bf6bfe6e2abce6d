// Package plantest builds workloads and machines for tests of strategies.
package plantest

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Spec is a loop of one GEMM and one collective, as a trace of it would be lifted.
type Spec struct {
	Ranks, Steps int
	Op           trace.CollectiveOp
	Bytes        int64
	Gemm, Comm   trace.Time
	Channels     int
	Late         trace.Time // how much later rank 0 starts
	Reverse      bool       // the collective feeds the GEMM
}

// MoeDown is the down projection of a mixture of experts and its all-to-all.
var MoeDown = Spec{Ranks: 4, Steps: 4, Op: trace.AllToAll, Bytes: 64 << 20, Gemm: 304_000, Comm: 153_000, Channels: 32}

// LaunchGap is the time between two kernels, in ns.
const LaunchGap = 2_000

// Build makes the workload that lift.Workload would find: 8192×4096×3584 in
// tiles of 256×128 on 132 persistent workgroups.
func (s Spec) Build(t testing.TB) *workload.Workload {
	t.Helper()
	var b trace.Builder
	w := &workload.Workload{World: s.Ranks, Captured: s.Ranks}
	group := b.AddGroup(trace.Group{Name: "0", Size: s.Ranks})
	var gemms, comms [][]int32
	for r := range s.Ranks {
		b.AddRank(trace.Rank{ID: r, World: s.Ranks})
		gemms, comms = append(gemms, nil), append(comms, nil)
		w.Ranks = append(w.Ranks, nil)
	}
	for r := range s.Ranks {
		at := trace.Time(10_000)
		prev := int32(-1)
		for step := range s.Steps {
			for half := range 2 {
				isComm := (half == 1) != s.Reverse
				op := workload.Op{
					ID: int32(len(w.Ops)), Rank: r, Kind: trace.Compute, Queue: 7, Collective: -1,
					Start: at, End: at + s.Gemm, Issued: trace.Infinity, Gap: LaunchGap, Step: int32(step),
					Kernel: &workload.Kernel{
						Name:      "gemm_256x128",
						Shape:     workload.Shape{Kind: workload.GEMM, M: 8192, N: 4096, K: 3584, ElemSize: 2},
						Tiling:    workload.Tiling{TileM: 256, TileN: 128, Tiles: 1024, WGs: 132, Persistent: true},
						Footprint: program.Footprint{Threads: 384, Registers: 168, Shared: 213188},
					},
				}
				if isComm {
					op.Kind, op.Name, op.Queue = trace.Collective, "nccl_"+s.Op.String(), 19
					op.End = at + s.Late + s.Comm
					op.Collective = int32(step)
					op.Shape, op.Tiling = workload.Shape{}, workload.Tiling{WGs: s.Channels}
					op.Footprint = program.Footprint{Threads: 640, Registers: 96, Shared: 103808}
					if r == 0 && s.Late > 0 {
						op.Start += s.Late
						op.Gap += s.Late
					}
				}
				row := add(&b, w, op, prev)
				if isComm {
					b.Run.Kernels[row].Comm = b.AddComm(trace.Comm{Op: s.Op, Group: group, Seq: int64(step), In: s.Bytes, Out: s.Bytes, Peer: trace.None})
					comms[r] = append(comms[r], op.ID)
				} else {
					gemms[r] = append(gemms[r], op.ID)
				}
				prev, at = op.ID, op.End+LaunchGap
			}
		}
	}
	w.Run = b.Finish(trace.Options{Name: "spec", KeepZero: true})
	s.link(w, gemms, comms)
	return w
}

// link fills in spans, collectives, pairs and steps.
func (s Spec) link(w *workload.Workload, gemms, comms [][]int32) {
	at := map[string]trace.SpanID{}
	for i, sp := range w.Run.Spans {
		at[fmt.Sprint(w.Run.RankOf(sp), sp.Start, sp.Kind)] = trace.SpanID(i)
	}
	for i := range w.Ops {
		op := &w.Ops[i]
		op.Span = at[fmt.Sprint(op.Rank, op.Start, op.Kind)]
	}
	for step := range s.Steps {
		c := workload.Collective{Op: s.Op, Seq: int64(step), Bytes: s.Bytes, In: s.Bytes, Out: s.Bytes, Channels: s.Channels, Times: workload.Times{Depart: trace.Infinity}}
		p := workload.Pair{Direction: workload.ComputeThenCollective, Collective: int32(step), Step: int32(step)}
		if s.Reverse {
			p.Direction = workload.CollectiveThenCompute
		}
		st := workload.Step{Name: fmt.Sprintf("step#%d", step)}
		for r := range s.Ranks {
			c.Members = append(c.Members, comms[r][step])
			m := &w.Ops[comms[r][step]]
			c.Arrive, c.Depart = max(c.Arrive, m.Start), min(c.Depart, m.End)
			first, second := gemms[r][step], comms[r][step]
			if s.Reverse {
				first, second = second, first
			}
			p.First, p.Second = append(p.First, first), append(p.Second, second)
			st.Start, st.End = append(st.Start, w.Ops[first].Start), append(st.End, w.Ops[second].End)
		}
		w.Collectives, w.Pairs, w.Steps = append(w.Collectives, c), append(w.Pairs, p), append(w.Steps, st)
	}
}
