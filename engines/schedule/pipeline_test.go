package schedule_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A made is a pipeline of equal stages in GPipe's order: layers of a stage are a GEMM of us µs in
// forward and, in backward, one for the input and one for the weights.
type made struct {
	stages, micros, layers int
	us                     trace.Time
	inference, ring, data  bool  // data: what operations read is recorded
	rows                   int64 // of a micro-batch; 0: 1024
	tensor                 int   // ranks of a stage, which add up what every layer of forward makes; 0: one
	oneQueue               bool  // for all messages of a rank; else one for each peer
}

const messageTime = 1000 // ns

func (s made) build(t testing.TB) *workload.Workload {
	t.Helper()
	var b trace.Builder
	width := max(1, s.tensor)
	world := s.stages * width
	w := &workload.Workload{World: world, Captured: world}
	group := b.AddGroup(trace.Group{Name: "0", Size: world})
	for r := range world {
		b.AddRank(trace.Rank{ID: r, World: world})
		w.Ranks, w.Rows, w.Copies = append(w.Ranks, nil), append(w.Rows, int32(r)), append(w.Copies, false)
	}
	rows := s.rows
	if rows == 0 {
		rows = 1024
	}
	now := make([]trace.Time, world)
	last := make([]int32, world)
	arrived := map[[3]int]trace.Time{} // part, micro-batch, stage
	messages := map[[3]int]int32{}
	var ops [][]workload.Op
	for range world {
		ops = append(ops, nil)
	}
	sums := map[[2]int]int32{} // by stage and number
	count := make([]int, world)
	add := func(r int, name string, kind trace.Kind, took trace.Time, shape workload.Shape, back bool, coll int32) {
		op := workload.Op{
			Rank: r, Kind: kind, Queue: 7, Collective: coll, Issued: trace.Infinity, Step: -1, Start: now[r], End: now[r] + took, Launched: workload.Launched{Backward: back},
			Kernel: &workload.Kernel{Name: name, Shape: shape, Tiling: workload.Tiling{WGs: 120}, Footprint: program.Footprint{Threads: 256, Registers: 32}},
		}
		if kind == trace.Collective {
			op.Queue, op.Tiling.WGs = 19, 1
			var peer int64
			if _, err := fmt.Sscanf(name, "SendRecv peer %d", &peer); err == nil && !s.oneQueue {
				op.Queue += 1 + peer
			}
		}
		now[r] = op.End
		ops[r] = append(ops[r], op)
	}
	message := func(r, peer int, key [3]int, receives bool) {
		row, ok := messages[key]
		if !ok {
			row = int32(len(w.Collectives))
			messages[key] = row
			w.Collectives = append(w.Collectives, workload.Collective{Op: trace.SendRecv, Group: group, Bytes: 1 << 20, In: 1 << 20, Out: 1 << 20, Channels: 1})
		}
		took := trace.Time(messageTime)
		if receives {
			took = max(took, arrived[key]-now[r])
		} else {
			arrived[key] = now[r] + messageTime
		}
		add(r, fmt.Sprintf("SendRecv peer %d", peer), trace.Collective, took, workload.Shape{}, false, row)
	}
	sum := func(r int) {
		if s.tensor < 2 {
			return
		}
		key := [2]int{r / width, count[r]}
		count[r]++
		row, ok := sums[key]
		if !ok {
			row = int32(len(w.Collectives))
			sums[key] = row
			w.Collectives = append(w.Collectives, workload.Collective{Op: trace.AllReduce, Group: group, Seq: int64(row), Bytes: 1 << 20, In: 1 << 20, Out: 1 << 20, Channels: 1})
		}
		add(r, "AllReduce", trace.Collective, messageTime, workload.Shape{}, false, row)
	}
	gemm := func(r int, name string, m, n, k int64, back bool) {
		add(r, name, trace.Compute, s.us*1000, workload.Shape{Kind: workload.GEMM, M: m, N: n, K: k, ElemSize: 2}, back, -1)
	}
	for i := range s.micros {
		for r := range world {
			if r >= width || s.ring {
				message(r, (r+world-width)%world, [3]int{0, i, r}, true)
			}
			for range s.layers {
				gemm(r, "forward", rows, 4096, 2048, false)
				sum(r)
			}
			if r < world-width || s.ring {
				message(r, (r+width)%world, [3]int{0, i, (r + width) % world}, false)
			}
		}
	}
	for i := range s.micros {
		for r := world - 1; r >= 0 && !s.inference; r-- {
			if r < world-width {
				message(r, r+width, [3]int{1, i, r}, true)
			}
			for range s.layers {
				gemm(r, "inputs", rows, 2048, 4096, true)
				gemm(r, "weights", 4096, 2048, rows, true)
			}
			if r >= width {
				message(r, r-width, [3]int{1, i, r - width}, false)
			}
		}
	}
	at := map[string]int32{}
	reads := func(from int32) workload.Edge {
		return workload.Edge{Op: from, Kind: workload.ReadAfterWrite, Evidence: workload.Exact, Bytes: 2 << 20}
	}
	for r := range ops {
		var forward []int32
		grad, backs := int32(-1), 0
		for i, op := range ops[r] {
			op.ID = int32(len(w.Ops))
			if i > 0 {
				op.After = []workload.Dep{{Op: last[r], Why: workload.HostWait}}
			}
			var flow []workload.Edge
			switch {
			case op.Name == "forward":
				if len(forward)%s.layers > 0 {
					flow = append(flow, reads(last[r]))
				}
				forward = append(forward, op.ID)
			case op.Name == "inputs":
				if grad >= 0 {
					flow = append(flow, reads(grad))
				}
			case op.Name == "weights":
				layer := backs/s.layers*s.layers + s.layers - 1 - backs%s.layers
				flow = append(flow, reads(forward[layer]))
				if grad >= 0 {
					flow = append(flow, reads(grad))
				}
				backs++
				grad = last[r]
			case len(forward) == s.micros*s.layers && op.Name != "AllReduce": // a message of backward
				if backs > 0 && grad >= 0 {
					flow = append(flow, reads(grad))
				}
				grad = op.ID
			}
			if s.data {
				w.Flow = append(w.Flow, flow)
			}
			last[r] = op.ID
			row := b.AddKernel(trace.Kernel{Setup: b.AddSetup(trace.Setup{Stream: op.Queue}), Comm: trace.None, Op: trace.None, Origin: trace.None, Launch: trace.None})
			if op.Collective >= 0 {
				peer, c := int32(-1), &w.Collectives[op.Collective]
				if _, err := fmt.Sscanf(op.Name, "SendRecv peer %d", &peer); err != nil {
					peer = trace.None
				}
				b.Run.Kernels[row].Comm = b.AddComm(trace.Comm{Op: c.Op, Group: group, In: 1 << 20, Out: 1 << 20, Seq: c.Seq, Peer: peer})
				c.Members = append(c.Members, op.ID)
			}
			b.Add(trace.Span{
				Start: op.Start, End: op.End, Kind: op.Kind, Attr: row, Parent: trace.None, Name: b.Intern(op.Name),
				Lane: b.Lane(trace.Lane{Kind: trace.Queue, Rank: int32(r), ID: op.Queue, Peer: trace.None}),
			})
			at[fmt.Sprint(r, op.Start, op.Kind)] = op.ID
			w.Ops, w.Ranks[r] = append(w.Ops, op), append(w.Ranks[r], op.ID)
		}
	}
	for i := range w.Collectives {
		c := &w.Collectives[i]
		for _, id := range c.Members {
			c.Arrive, c.Depart = max(c.Arrive, w.Ops[id].Start), w.Ops[id].End
		}
		c.Shortest = messageTime
	}
	w.Run = b.Finish(trace.Options{Name: "pipeline", KeepZero: true})
	for i, sp := range w.Run.Spans {
		w.Ops[at[fmt.Sprint(w.Run.RankOf(sp), sp.Start, sp.Kind)]].Span = trace.SpanID(i)
	}
	return w
}

func outcome(t *testing.T, w *workload.Workload, settings string) engines.Outcome {
	t.Helper()
	return enginetest.Outcome(t, w, plantest.H200(t, max(2, w.World)), "multistream", enginetest.Settings(settings))
}

// rowsOf returns how long a micro-batch of other rows takes, in times of a captured GEMM of 1024: by the
// law of the library in rows and, of what sums over the rows, in depth.
func rowsOf(t *testing.T) func(rows int64) float64 {
	m := plantest.H200(t, 2)
	return func(rows int64) float64 {
		sum := m.Tiling(4096, 2048, rows).Seconds / m.Tiling(4096, 2048, 1024).Seconds
		for _, sides := range [][2]int64{{4096, 2048}, {2048, 4096}} {
			sum += m.Tiling(rows, sides[0], sides[1]).Seconds / m.Tiling(1024, sides[0], sides[1]).Seconds
		}
		return sum
	}
}

// Simulated, stages of equal times have the published bubbles; messages, gaps and events add less
// than 1.5 %.
func TestStepsHaveThePublishedBubbles(t *testing.T) {
	const p, n, layers, us = 4, 8, 4, 1000
	w := made{stages: p, micros: n, layers: layers, us: us}.build(t)
	chunk := float64(layers * us)
	rows := rowsOf(t)
	for settings, want := range map[string]float64{
		"schedule=gpipe":                  (n + p - 1) * 3 * chunk,
		"schedule=1f1b":                   (n + p - 1) * 3 * chunk,
		"schedule=interleaved":            n*3*chunk + (p-1)*3*chunk/2,
		"schedule=interleaved:groups=4":   n*3*chunk + (p-1)*3*chunk/4,
		"schedule=zb":                     n*3*chunk + (p-1)*chunk/2,
		"schedule=zb:groups=1":            n*3*chunk + (p-1)*chunk,
		"schedule=1f1b:microbatches=4":    (4 + p - 1) * rows(2048) * chunk,
		"schedule=1f1b:microbatches=16":   (16 + p - 1) * rows(512) * chunk,
		"schedule=gpipe:microbatches=100": 0,
	} {
		out := outcome(t, w, settings)
		if want == 0 {
			if !strings.Contains(out.Why, "multiple") {
				t.Errorf("%s: %q", settings, out.Why)
			}
			continue
		}
		if out.Why != "" {
			t.Errorf("%s: %s", settings, out.Why)
			continue
		}
		if got := float64(out.Time) / 1000; math.Abs(got/want-1) > 0.015 {
			t.Errorf("%s: %.0f µs, not %.0f", settings, got, want)
		}
		// A message is matched with its own receipt: it transfers for its own time, and the rest is waiting.
		if x := verdict.TimesOf(w, out); x.Transfer > out.Time/100 {
			t.Errorf("%s: %v of exposed transfers", settings, x.Transfer)
		}
	}
}

// A host that takes longer than the device issues every part of a captured operation in the time that it took for the
// whole: twice as many micro-batches take twice as long.
func TestHostsOfMoreMicroBatches(t *testing.T) {
	const each = 100_000 // ns an operation
	w := made{stages: 2, micros: 4, layers: 2, us: 10}.build(t)
	w.Unprofiled = true
	for _, ids := range w.Ranks {
		h := &workload.Host{}
		for i, id := range ids {
			w.Ops[id].Issued = trace.Time(i)
			h.Order, h.Issues = append(h.Order, int32(i)), append(h.Issues, workload.Issue{Work: each})
		}
		w.Hosts = append(w.Hosts, h)
	}
	few, many := outcome(t, w, "schedule=1f1b:microbatches=4"), outcome(t, w, "schedule=1f1b:microbatches=8")
	if few.Why != "" || many.Why != "" {
		t.Fatal(few.Why, many.Why)
	}
	if times := float64(many.Time) / float64(few.Time); times < 1.8 || times > 2.2 {
		t.Errorf("8 micro-batches take %.2f times as long as 4: %d and %d ns", times, many.Time, few.Time)
	}
}
