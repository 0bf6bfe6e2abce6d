package machine_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

func TestClockSettles(t *testing.T) {
	for _, c := range []struct {
		name string
		d    machine.Demand
		want float64
	}{
		// A second of GEMMs a second: c¹ · 1 = 0.64 · 1/c, the clock is 0.8.
		{"GEMMs alone", machine.Demand{Matrix: 1, Time: 1, At: 1}, 0.8},
		{"the same, timed at that clock", machine.Demand{Matrix: 1, Time: 1.25, At: 0.8}, 0.8},
		{"the same, at whichever clock", machine.Demand{Matrix: 1, Time: 1.25}, 0.8},
		{"idle for a third", machine.Demand{Matrix: 0.6, Time: 1, At: 1}, 1},
		// 0.6 of GEMMs and 0.4 of memory at half the power: 0.8 a second.
		{"memory draws too", machine.Demand{Matrix: 0.6, Memory: 0.4, Time: 0.64 * 1.25, At: 0}, 0.52},
		{"links draw half of that", machine.Demand{Matrix: 0.54, Link: 0.4, Time: 1, At: 1}, 1},
		{"nothing to do", machine.Demand{}, 1},
	} {
		if got := machinetest.Clock().Settled(c.d); math.Abs(got-c.want) > 1e-3 {
			t.Errorf("%s: %.4f, want %v", c.name, got, c.want)
		}
	}
	for _, unknown := range []machine.Clock{{}, machinetest.Load(t, "a100").Clock} {
		if got := unknown.Settled(machine.Demand{Matrix: 1, Time: 1, At: 1}); got != 1 {
			t.Errorf("an unknown clock falls to %v", got)
		}
	}
}

// Where it settles, a GPU draws what it may; more to do never makes it faster.
func TestClockProperties(t *testing.T) {
	c := machinetest.Load(t, "h200").Clock
	rapidtest.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 1)
		d := machine.Demand{Matrix: share.Draw(t, "matrix"), Memory: share.Draw(t, "memory"), Link: share.Draw(t, "link"), At: 1}
		d.Time = d.Matrix + max(d.Memory, d.Link) + share.Draw(t, "idle")
		if d.Time == 0 {
			return
		}
		at := c.Settled(d)
		switch draw := c.Draw(d, at); {
		case at == 1 && draw > c.Knee.Value*1.001, at < 1 && math.Abs(draw/c.Knee.Value-1) > 0.001 && at > 0.3*1.001:
			t.Fatalf("%+v settles at %v and draws %v of %v", d, at, draw, c.Knee.Value)
		}
		more := d
		more.Memory += 0.1
		if now := c.Settled(more); now > at+1e-4 {
			t.Fatalf("%+v at %v, with more traffic at %v", d, at, now)
		}
	})
}

// The full clock lasts until the average draw comes to what can be kept up.
func TestClockLasts(t *testing.T) {
	c := machinetest.Clock()
	if got := c.Lasts(0, 0.64); !math.IsInf(got, 1) {
		t.Errorf("a draw that can be kept up lasts %v s", got)
	}
	// 1 - e^(-t/40 ms) = 0.64.
	long := c.Lasts(0, 1)
	if math.Abs(long-0.04087) > 1e-5 {
		t.Errorf("from idle: %v s", long)
	}
	half := c.Warmed(0, 1, long/2)
	if again := c.Lasts(half, 1); math.Abs(again-long/2) > 1e-9 {
		t.Errorf("after half of it %v s are left of %v", again, long)
	}
	if got := c.Warmed(0, 1, 10); got != 0.64 {
		t.Errorf("after long the average is %v", got)
	}
	if got := c.Lasts(0.64, 1); got != 0 {
		t.Errorf("warm already, it lasts %v s", got)
	}
}

// A GEMM back to back is 16 % slower on every GPU that was measured, one with memory traffic in its pauses as slow.
func TestClockOfH200(t *testing.T) {
	m := machinetest.Load(t, "h200")
	gemm := 2 * 8192 * 8192 * 7168 / m.GPU.Flops.Value
	for _, c := range []struct {
		d        machine.Demand
		slowdown float64
	}{
		{machine.Demand{Matrix: gemm, Time: 1226e-6, At: 1}, 1.16},
		{machine.Demand{Matrix: gemm, Memory: 206.8e-6, Time: 1433e-6, At: 1}, 1.13},
		{machine.Demand{Matrix: gemm, Time: 2026e-6, At: 1}, 1},
	} {
		if got := 1 / m.Clock.Settled(c.d); machinetest.Off(got, c.slowdown) > 0.02 {
			t.Errorf("%+v: %.3f times slower, measured %v", c.d, got, c.slowdown)
		}
	}
}
