package engines

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// Where power is plentiful the clock never falls, whatever is asked; where it is
// scarce it is full only at first.
func TestRegimes(t *testing.T) {
	w := moeDown.build(t)
	times := func(knee float64, regimes ...machine.Regime) (at []float64) {
		m := h200(t, w.World)
		m.Clock.Knee.Value = knee
		for _, m.Regime = range regimes {
			at = append(at, float64(outcome(t, w, m, "bulk", nil).Time))
		}
		return at
	}
	all := []machine.Regime{machine.Cool, machine.Sustained, machine.AsCaptured}
	if at := times(2, all...); at[0] != at[1] || at[0] != at[2] {
		t.Errorf("with power for all it takes %v", at)
	}
	at := times(0.4, all...)
	if at[1] < at[0]*1.05 {
		t.Errorf("with little power it takes %v at first and %v for long", at[0], at[1])
	}
	if at[2] > at[0]*1.01 || at[2] < at[0]*0.99 {
		t.Errorf("as captured it takes %v, captured was %v", at[2], at[0])
	}
}

// For long, a strategy settles where its draw can be kept up.
func TestSustainedDraw(t *testing.T) {
	w := moeDown.build(t)
	m := h200(t, w.World)
	m.Clock.Knee.Value, m.Regime = 0.4, machine.Sustained
	for _, e := range []string{"bulk", "decompose", "multistream"} {
		out := outcome(t, w, m, e, nil)
		c := clockOf(w, &m)
		d := c.taking(&out.machine, out.Time)
		if draw := m.Clock.Draw(d, d.At); math.Abs(draw/0.4-1) > 0.02 {
			t.Errorf("%s settles at %.3f of the clock and draws %.3f", e, d.At, draw)
		}
	}
}

func TestPaced(t *testing.T) {
	pl := &planner{m: h200(t, 1)}
	pl.m.GPU.Memory.Value, pl.m.Pace = 1e12, 1.1 // a MB a µs
	for _, c := range []struct {
		name string
		op   workload.Op
		want int64 // of 1000 µs
	}{
		{"a product", workload.Op{Kernel: &workload.Kernel{Dense: true}, Read: 1e9}, 1_100_000},
		{"all the memory gives", workload.Op{Kernel: &workload.Kernel{}, Read: 6e8, Write: 4e8}, 1_000_000},
		{"half of it", workload.Op{Kernel: &workload.Kernel{}, Read: 5e8}, 1_100_000},
		{"of unknown traffic", workload.Op{Kernel: &workload.Kernel{}}, 1_000_000},
	} {
		c.op.End = 1_000_000
		if got := pl.paced(&c.op, 1_000_000); int64(got) != c.want {
			t.Errorf("%s: %d ns at a pace of 1.1, want %d", c.name, got, c.want)
		}
	}
	pl.m.Pace = 0.5
	if got := pl.paced(&workload.Op{Kernel: &workload.Kernel{}, Read: 8e8, End: 1_000_000}, 1_000_000); got != 800_000 {
		t.Errorf("twice as fast a clock leaves %d ns of 800 µs of traffic", got)
	}
}
