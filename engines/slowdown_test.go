package engines

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// F takes 100 us in three instances alone and 120 beside an all-reduce.
//
//	stream 7  |F1|F2|F3|F4-|
//	stream 9           |AR---|
func TestSlowdown(t *testing.T) {
	w := plantest.Step(t, 2, `
7 F1 100
7 F2 100
7 F3 100
9 AR1 300 F3 waits F3
7 F4 120`)
	for i := range w.Ops {
		k := *w.Ops[i].Kernel
		k.Name = k.Name[:len(k.Name)-1]
		w.Ops[i].Kernel = &k
	}
	s := SlowdownOf(w)
	if s.Time != 20_000 || s.Kernels != 2 || s.Collectives[trace.AllReduce] != 1 {
		t.Errorf("%+v, want 20 us of a kernel on each of 2 ranks beside 1 all-reduce", s)
	}
	w.Ops[0].Kernel, w.Ops[w.Ranks[1][0]].Kernel = w.Ops[3].Kernel, w.Ops[3].Kernel // of another kernel
	w.Ops[1].Kernel, w.Ops[w.Ranks[1][1]].Kernel = w.Ops[3].Kernel, w.Ops[3].Kernel
	if s := SlowdownOf(w); s.Time != 0 {
		t.Errorf("%+v of too few instances", s)
	}
}
