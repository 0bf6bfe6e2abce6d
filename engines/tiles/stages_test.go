package tiles_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// onRankZero are the GEMMs and what lies between them, of the first step on
// rank 0, in order of their starts: G, e, and c for copies.
func onRankZero(t *testing.T, w *workload.Workload, out engines.Outcome) string {
	t.Helper()
	if out.Result == nil {
		t.Fatal(out.Why)
	}
	run := out.Result.Run
	spans := slices.Clone(run.Spans)
	slices.SortFunc(spans, func(a, b trace.Span) int { return cmp.Compare(a.Start, b.Start) })
	var order strings.Builder
	for _, s := range spans {
		name := run.NameOf(s)
		switch {
		case run.RankOf(s) != 0 || order.Len() >= 8:
		case s.Kind == trace.Compute && strings.Contains(name, "nvjet"):
			order.WriteByte('G')
		case s.Kind == trace.Compute && strings.Contains(name, "elementwise"):
			order.WriteByte('e')
		case s.Kind == trace.Copy && strings.Contains(name, "Memcpy"):
			order.WriteByte('c')
		}
	}
	return order.String()
}

// Where the second GEMM sums over the first one's columns, chunks of rows go
// from the dispatch through both GEMMs to the combine; else each pair is cut by itself.
func TestGatherAndCombineArePipelined(t *testing.T) {
	m := plantest.H200(t, 4)
	bytes := func(out engines.Outcome) (sent float64) {
		for _, x := range out.Result.Traffic {
			if x.Resource == replay.Egress {
				sent += x.Bytes
			}
		}
		return sent
	}
	for _, c := range []struct {
		name   string
		change func(*workload.Workload)
		want   string
	}{
		{"as captured", func(*workload.Workload) {}, "GeGcGeGc"},
		{"nothing says that the GEMMs depend on each other", func(w *workload.Workload) {
			w.Pairs = slices.DeleteFunc(w.Pairs, func(p workload.Pair) bool { return p.Collective < 0 })
		}, "GGeGcGcG"},
		{"the second reads columns of several rows", func(w *workload.Workload) {
			for _, p := range w.Pairs {
				if p.Collective < 0 {
					for _, id := range p.Second {
						kernel := *w.Ops[id].Kernel // others share it
						kernel.Shape.K *= 9
						w.Ops[id].Kernel = &kernel
					}
				}
			}
		}, "GGeGcGcG"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := plantest.LiftSample(t, "moe-ep4")
			c.change(w)
			out := enginetest.Outcome(t, w, m, "decompose", map[string]string{"chunks": "2"})
			if got := onRankZero(t, w, out); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if got, want := bytes(out), bytes(enginetest.Outcome(t, w, m, "bulk", nil)); got < .999*want || got > 1.001*want {
				t.Errorf("%.0f bytes were sent, bulk sends %.0f", got, want)
			}
		})
	}
}

// The bytes that a ring of pieces reads and writes beyond the GEMMs: a piece
// put in its place is read and written; a sum reads two chunks and writes one (rule W5).
func TestRingCombines(t *testing.T) {
	scatter := plantest.Spec{Ranks: 4, Steps: 2, Op: trace.ReduceScatter, Bytes: 64 << 20, Gemm: 304_000, Comm: 150_000, Channels: 16}
	gather := scatter
	gather.Op, gather.Reverse = trace.AllGather, true
	for _, c := range []struct {
		spec   plantest.Spec
		name   string
		chunks float64 // of the collective's bytes over ranks
	}{
		{scatter, "add partial sums", 3 * 3}, // three arrivals, one after another
		{gather, "place in the whole", 2 * 4 * outputChunk(gather)},
	} {
		w, m := c.spec.Build(t), plantest.H200(t, c.spec.Ranks)
		for i := range w.Ops {
			w.Ops[i].Write = 2 * float64(w.Ops[i].Shape.M*w.Ops[i].Shape.N)
		}
		got := enginetest.Outcome(t, w, m, "decompose", map[string]string{"variant": "ring"})
		want := c.chunks * float64(c.spec.Steps) * float64(c.spec.Bytes) / float64(c.spec.Ranks)
		if b := enginetest.Memory(got)[c.name]; !plantest.Near(b, want) {
			t.Errorf("%s: %s moved %.0f bytes, want %.0f", c.spec.Op, c.name, b, want)
		}
	}
}

// outputChunk is a rank's part of the GEMM's output, in chunks of the collective.
func outputChunk(s plantest.Spec) float64 { return 2 * 8192 * 4096 / float64(s.Bytes) }

// All-reduces of a captured graph have no sizes: the elementwise kernels behind them tell.
// Their replacements start as soon as the graph's other kernels do, and no host launches
// them. Measured: one-shot -1.9 and -2.4 %, two-shot -0.5 and -1.8 %.
func TestAllReduceInGraph(t *testing.T) {
	for _, b := range []string{"b1", "b32"} {
		w := plantest.LiftSample(t, "measurements/2026-11-22-h200x2-steps/traces/h200x2_decode_tp_"+b+"_allreducenccl_graphTrue")
		m := plantest.H200(t, 2)
		lift.GuessSizes(w, &m)
		captured := enginetest.Outcome(t, w, m, "captured", nil)
		for _, impl := range []string{"oneshot", "twoshot"} {
			got := enginetest.Outcome(t, w, m, "onesided", map[string]string{"impl": impl})
			if got.Result == nil {
				t.Fatalf("%s: %s", impl, got.Why)
			}
			if change := float64(got.Time)/float64(captured.Time) - 1; change < -0.04 || change > 0.015 {
				t.Errorf("%s %s: %+.1f %%", b, impl, 100*change)
			}
		}
	}
}
