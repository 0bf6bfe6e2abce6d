package dataset

import (
	"cmp"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
)

// cycles are GEMMs over and over, with pauses in which nothing, memory traffic or a collective runs.
const cycles = "strategy duty_cycle, kind gemm"

// clockLaw reads the clock off duty cycles. All GPUs of a board share
// its power and cooling, so that no two machines agree to better than 3 %. What differs
// most between GPUs of one kind is the draw that they sustain.
func clockLaw() law {
	l := law{
		name: "clock under the power limit",
		keys: []string{"clock.exponent", "clock.knee", "clock.memory", "clock.link"},
		need: cycles + ", at three gaps and more, one of them 0; with fill triad, and of a collective",
		rows: func(c *calibration) []Row { return c.where(cycles) },
		predict: func(c *calibration, r *Row) (predicted, measured float64) {
			return c.cool[gemmOf(r)] / c.m.Clock.Settled(c.demand(r)), seconds(c, r)
		},
	}
	const how = "draws at which GEMMs settle, back to back and with pauses, and alongside"
	l.reads = func(key string, r *Row) bool {
		return fills(r) == key || key != "clock.memory" && key != "clock.link"
	}
	l.ways = []way{
		{how: "draw at which GEMMs settle, back to back and with pauses", keys: l.keys[1:2]},
		{how: how + " triads and collectives", keys: l.keys[1:]},
		{how: how + " triads and collectives, with the slope over the busy part of the time", keys: l.keys},
	}
	return l
}

// fills is the parameter of the draw of what fills the cycle's pauses, or "".
func fills(r *Row) string {
	switch r.Params.Fill {
	case "":
		return ""
	case "triad":
		return "clock.memory"
	}
	return "clock.link"
}

// A gemm is of duty cycles on a machine.
type gemm struct {
	machine string
	world   int
	m, n, k int64
}

func gemmOf(r *Row) gemm {
	return gemm{r.Machine, r.World, r.Workload.M, r.Workload.N, r.Workload.K}
}

// coolest is the shortest time of each GEMM in any of its duty cycles, in seconds: at full clock.
func coolest(rows []Row) map[gemm]float64 {
	cool := map[gemm]float64{}
	for _, r := range (&calibration{rows: rows}).where(cycles) {
		least := slices.Min(append([]float64{r.Us}, r.Params.Every10Us...)) * 1e-6
		if was, ok := cool[gemmOf(&r)]; !ok || least < was {
			cool[gemmOf(&r)] = least
		}
	}
	return cool
}

// slowdown is that of the cycle's GEMM.
func (c *calibration) slowdown(r *Row) float64 { return seconds(c, r) / c.cool[gemmOf(r)] }

// demand is the cycle's in terms of the law, at the clock that it settled at. What fills the
// pause takes as long as it takes.
func (c *calibration) demand(r *Row) machine.Demand {
	w, filled := r.Workload, cmp.Or(number(r, "filled_us"), number(r, "gap_us"))*1e-6
	d := machine.Demand{
		Matrix: 2 * float64(w.M) * float64(w.N) * float64(w.K) / c.m.GPU.Flops.Value,
		Time:   seconds(c, r) + filled,
		At:     1 / c.slowdown(r),
	}
	switch fills(r) {
	case "clock.memory":
		d.Memory = filled
	case "clock.link":
		d.Link = filled
	}
	return d
}

// hold is the time from the first GEMM to the middle of the ten in which
// the clock has come half of the way to where it settles, in times of the law.
func hold(c *calibration, r *Row) float64 {
	d := c.demand(r)
	full := c.m.Clock.Draw(d, 1)
	half := c.cool[gemmOf(r)] * 1e6 * math.Sqrt(c.slowdown(r))
	fell := slices.IndexFunc(r.Params.Every10Us, func(us float64) bool { return us > half })
	if fell < 1 || c.slowdown(r) < 1.05 || full <= c.m.Clock.Knee.Value {
		return math.NaN() // it began warm, or hardly fell
	}
	return (10*float64(fell) - 5) * d.DurationAt(1) / math.Log(full/(full-c.m.Clock.Knee.Value))
}
