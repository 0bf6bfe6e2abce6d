package dataset

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// Duty cycles made by the law give its parameters back.
func TestCalibrateInvertsTheClock(t *testing.T) {
	base := machinetest.Load(t, "h200")
	truth := base
	truth.Clock = machinetest.Clock()
	var rows []Row
	cycle := func(gap float64, fill string) {
		cool := 1200e-6
		d := machine.Demand{Matrix: 2 * 8192 * 8192 * 7168 / base.GPU.Flops.Value, Time: cool + gap, At: 1}
		switch fill {
		case "triad":
			d.Memory = gap
		case "all_gather":
			d.Link = gap
		}
		d.Time += d.Matrix - cool // the law's GEMMs take all of their time at the full rate
		cool = d.Matrix
		slow := cool / truth.Clock.Settled(d)
		r := Row{
			ID: fmt.Sprint("d", len(rows)), Machine: "h200x4", World: 4, Strategy: "duty_cycle", Us: slow * 1e6, Line: len(rows) + 1,
			Workload: Workload{Kind: "gemm", M: 8192, N: 8192, K: 7168}, Params: Params{Benchmark: Benchmark{GapUs: gap * 1e6, Fill: fill, FilledUs: gap * 1e6}},
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
	res := must.Have(CalibrateMachine(rows, base))(t)
	m := res.Machine
	for _, c := range []struct {
		name      string
		got, want machine.Quantity
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
