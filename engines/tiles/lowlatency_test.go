package tiles_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A shard of 16 KiB for each of three peers, stored by one workgroup at a
// quarter of the link's rate: 390.6 ns a peer, times the bytes of the protocol.
// Nothing else takes time on the bare machine, so a step is the GEMM and that.
func TestLowLatencyByHand(t *testing.T) {
	small := plantest.Spec{Ranks: 4, Steps: 3, Op: trace.AllGather, Bytes: 64 << 10, Gemm: 30_000, Comm: 28_000, Channels: 4, Reverse: true}
	behind := small
	behind.Reverse = false
	for _, c := range []struct {
		name string
		spec plantest.Spec
		op   trace.CollectiveOp
		set  string
		time trace.Time
		sent float64 // bytes a step
	}{
		{"LL: twice the bytes", small, trace.AllGather, "impl=ll", 3 * 781, 3 * 2 * 16384},
		{"multimem: one store for three peers", small, trace.AllGather, "impl=multimem", 781, 2 * 16384},
		{"two workgroups a rank, half each", small, trace.AllGather, "impl=ll:blocks=8", 3 * 391, 3 * 2 * 16384},
		{"behind a kernel", behind, trace.AllGather, "impl=ll", 3 * 781, 3 * 2 * 16384},
		{"all-to-all: peers at once, a workgroup each", small, trace.AllToAll, "impl=ll", 391, 3 * 16384},
	} {
		c.spec.Op = c.op
		for _, lone := range []bool{false, true} {
			w := c.spec.Build(t)
			if lone {
				w.Pairs = nil
			}
			got := enginetest.Outcome(t, w, plantest.Bare(t, 4, machine.Switch), "onesided", enginetest.Settings("graph=on:"+c.set))
			want := c.spec.Gemm + c.time
			if compare.Abs(got.Time-want) > 10 {
				t.Errorf("%s, lone %v: %d ns, want %d (%s)", c.name, lone, got.Time, want, got.Why)
				continue
			}
			if b := enginetest.Sum(enginetest.Sent(got)); !plantest.Near(b, c.sent*float64(c.spec.Steps)) {
				t.Errorf("%s: rank 0 sent %.0f bytes, want %.0f", c.name, b, c.sent*float64(c.spec.Steps))
			}
		}
	}
}

// Low latency is for small messages: large ones, on which its few workgroups are sure to lose to
// the library, stay the library's.
func TestLowLatencyLoses(t *testing.T) {
	m := plantest.H200(t, 4)
	for _, op := range []trace.CollectiveOp{trace.AllGather, trace.AllToAll} {
		s := plantest.Gathered
		s.Op = op
		small := s
		small.Bytes, small.Gemm, small.Comm, small.Channels = 64<<10, 30_000, 28_000, 4
		for _, c := range []struct {
			spec plantest.Spec
			wins bool
		}{{small, true}, {s, false}} {
			w := c.spec.Build(t)
			base := enginetest.Outcome(t, w, m, "bulk", nil)
			got := enginetest.Outcome(t, w, m, "onesided", enginetest.Settings("impl=ll"))
			if c.wins && got.Time >= base.Time || !c.wins && !strings.Contains(got.Why, "impl=ll is for small messages: one of its 4 workgroups needs") {
				t.Errorf("%s of %d bytes: %d ns, library %d (%s)", op, c.spec.Bytes, got.Time, base.Time, got.Why)
			}
		}
	}
}

func TestLowLatencyRefuses(t *testing.T) {
	mi300x, err := machine.Load("mi300x")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec plantest.Spec
		m    machine.Machine
		set  string
		want string
	}{
		{plantest.Gathered, mi300x.Resize(4), "impl=multimem", "a switch that adds and replicates"},
		{plantest.Scattered, plantest.H200(t, 4), "impl=ll", "no all-gather or all-to-all was found"},
		{plantest.MoeDown, plantest.H200(t, 4), "impl=multimem", "no all-gather was found"},
	} {
		if got := enginetest.Outcome(t, c.spec.Build(t), c.m, "onesided", enginetest.Settings(c.set)); got.Result != nil || !strings.Contains(got.Why, c.want) {
			t.Errorf("%s %s: %q, want %q", c.spec.Op, c.set, got.Why, c.want)
		}
	}
}
