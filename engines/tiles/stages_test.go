package tiles_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/replay"
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
