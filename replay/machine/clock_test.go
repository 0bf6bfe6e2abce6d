package machine

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// made is a clock with round numbers, power as the clock squared, so that what it does can be worked out by hand.
func made() Clock {
	q := func(v float64) Quantity { return Quantity{Value: v, Source: "test"} }
	return Clock{Knee: q(0.64), Exponent: q(0.5), Memory: q(0.5), Link: q(0.25), Hold: q(0.04)}
}

func TestClockSettles(t *testing.T) {
	for _, c := range []struct {
		name string
		d    Demand
		want float64
	}{
		// A second of products a second: c¹ · 1 = 0.64 · 1/c, the clock is 0.8.
		{"products alone", Demand{Matrix: 1, Time: 1, At: 1}, 0.8},
		{"the same, timed at that clock", Demand{Matrix: 1, Time: 1.25, At: 0.8}, 0.8},
		{"the same, at whichever clock", Demand{Matrix: 1, Time: 1.25}, 0.8},
		{"idle for a third", Demand{Matrix: 0.6, Time: 1, At: 1}, 1},
		// 0.6 of products and 0.4 of memory at half the power: 0.8 a second.
		{"memory draws too", Demand{Matrix: 0.6, Memory: 0.4, Time: 0.64 * 1.25, At: 0}, 0.52},
		{"links draw half of that", Demand{Matrix: 0.54, Link: 0.4, Time: 1, At: 1}, 1},
		{"nothing to do", Demand{}, 1},
	} {
		if got := made().Settled(c.d); math.Abs(got-c.want) > 1e-3 {
			t.Errorf("%s: %.4f, want %v", c.name, got, c.want)
		}
	}
	for _, unknown := range []Clock{{}, load(t, "a100").Clock} {
		if got := unknown.Settled(Demand{Matrix: 1, Time: 1, At: 1}); got != 1 {
			t.Errorf("an unknown clock falls to %v", got)
		}
	}
}

// Where it settles, a GPU draws what it may; more to do never makes it faster.
func TestClockProperties(t *testing.T) {
	c := load(t, "h200").Clock
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Float64Range(0, 1)
		d := Demand{Matrix: share.Draw(t, "matrix"), Memory: share.Draw(t, "memory"), Link: share.Draw(t, "link"), At: 1}
		d.Time = d.Matrix + max(d.Memory, d.Link) + share.Draw(t, "idle")
		if d.Time == 0 {
			return
		}
		at := c.Settled(d)
		switch draw := c.Draw(d, at); {
		case at == 1 && draw > c.Knee.Value*1.001, at < 1 && math.Abs(draw/c.Knee.Value-1) > 0.001 && at > lowestClock*1.001:
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
	c := made()
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

// Duty cycles made by the law give its parameters back.
func TestCalibrateInvertsTheClock(t *testing.T) {
	base := load(t, "h200")
	truth := base
	truth.Clock = made()
	var rows []Row
	cycle := func(gap float64, fill string) {
		cool := 1200e-6
		d := Demand{Matrix: 2 * 8192 * 8192 * 7168 / base.GPU.Flops.Value, Time: cool + gap, At: 1}
		switch fill {
		case "triad":
			d.Memory = gap
		case "all_gather":
			d.Link = gap
		}
		d.Time += d.Matrix - cool // the law's products take all of their time at the full rate
		cool = d.Matrix
		slow := cool / truth.Clock.Settled(d)
		r := Row{
			ID: fmt.Sprint("d", len(rows)), Machine: "h200x4", World: 4, Strategy: "duty_cycle", Us: slow * 1e6, Line: len(rows) + 1,
			Workload: Workload{Kind: "gemm", M: 8192, N: 8192, K: 7168}, Params: Params{GapUs: gap * 1e6, Fill: fill, FilledUs: gap * 1e6},
		}
		until := truth.Clock.Lasts(0, truth.Clock.Draw(d, 1))
		for i := range 12 {
			us := cool * 1e6
			if float64(i)*10*d.Time > until {
				us = r.Us
			}
			r.Params.Every10Us = append(r.Params.Every10Us, us)
		}
		rows = append(rows, r)
	}
	for _, gap := range []float64{0, 100e-6, 200e-6, 400e-6, 3200e-6} {
		cycle(gap, "")
	}
	for _, gap := range []float64{100e-6, 200e-6, 400e-6} {
		cycle(gap, "triad")
		cycle(gap, "all_gather")
	}
	m, _, err := Calibrate(rows, base)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name      string
		got, want Quantity
		within    float64
	}{
		{"knee", m.Clock.Knee, truth.Clock.Knee, 0.02},
		{"exponent", m.Clock.Exponent, truth.Clock.Exponent, 0.02},
		{"memory", m.Clock.Memory, truth.Clock.Memory, 0.05},
		{"link", m.Clock.Link, truth.Clock.Link, 0.05},
		{"hold", m.Clock.Hold, truth.Clock.Hold, 0.35}, // ten cycles are 12 ms
	} {
		if off(c.got.Value, c.want.Value) > c.within {
			t.Errorf("%s: %v, made with %v", c.name, c.got, c.want)
		}
	}
}

// A GEMM back to back is 16 % slower on every GPU that was measured, one with memory traffic in its pauses as slow.
func TestClockOfH200(t *testing.T) {
	m := load(t, "h200")
	gemm := 2 * 8192 * 8192 * 7168 / m.GPU.Flops.Value
	for _, c := range []struct {
		d        Demand
		slowdown float64
	}{
		{Demand{Matrix: gemm, Time: 1226e-6, At: 1}, 1.16},
		{Demand{Matrix: gemm, Memory: 206.8e-6, Time: 1433e-6, At: 1}, 1.13},
		{Demand{Matrix: gemm, Time: 2026e-6, At: 1}, 1},
	} {
		if got := 1 / m.Clock.Settled(c.d); off(got, c.slowdown) > 0.02 {
			t.Errorf("%+v: %.3f times slower, measured %v", c.d, got, c.slowdown)
		}
	}
}
