package calibrate

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
)

// The clock is read off duty cycles: a GEMM over and over, with pauses in
// which nothing, memory traffic or a collective runs. All GPUs of a board share
// its power and cooling, so that no two machines agree to better than 3 %:
// medians over those measured.
func clockRules() []rule {
	const cycles = "strategy duty_cycle, kind gemm"
	return []rule{
		{
			"clock.exponent", "slope of log slowdown over log busy fraction, of a GEMM with idle pauses", cycles + ", at three gaps and more, one of them 0 and one twice the GEMM's time", readExponent,
		},
		{
			"clock.knee", "draw at which GEMMs back to back settle, median", cycles + ", gap 0, or kind gemm+collective, part compute, once with back_to_back and once without", readKnee,
		},
		{
			"clock.memory", "what is left of the knee alongside GEMMs with a triad between them, over the triad's part of the time, median", cycles + " with fill triad", readFill("triad"),
		},
		{
			"clock.link", "the same of a collective between them", cycles + " with fill of a collective, on two GPUs or more", readFill(""),
		},
		{
			"clock.hold", "time until GEMMs slow down over what the law has it at in times of itself, median", cycles + " with every10_us", readHold,
		},
	}
}

// A cycle is a duty cycle and what the GEMM takes in it at full clock.
type cycle struct {
	Row
	cool float64 // seconds
}

// cycles pairs duty cycles with the shortest time of their GEMM on their machine.
func (c *calibration) cycles() []cycle {
	rows := c.pick(func(r *Row) bool { return r.Strategy == "duty_cycle" && r.Workload.Kind == "gemm" && r.Us > 0 })
	type gemm struct {
		machine string
		world   int
		m, n, k int64
	}
	of := func(r Row) gemm { return gemm{r.Machine, r.World, r.Workload.M, r.Workload.N, r.Workload.K} }
	cool := map[gemm]float64{}
	for _, r := range rows {
		least := slices.Min(append([]float64{r.Us}, r.Params.Every10Us...)) * 1e-6
		if was, ok := cool[of(r)]; !ok || least < was {
			cool[of(r)] = least
		}
	}
	var list []cycle
	for _, r := range rows {
		list = append(list, cycle{r, cool[of(r)]})
	}
	return list
}

func (x cycle) slowdown() float64 { return x.Us * 1e-6 / x.cool }

// filled is the seconds of its pause; what fills it takes as long as it takes.
func (x cycle) filled() float64 {
	if x.Params.FilledUs > 0 {
		return x.Params.FilledUs * 1e-6
	}
	return x.Params.GapUs * 1e-6
}

// demand is the cycle's in terms of the law, at the clock that it settled at.
func (x cycle) demand(m *machine.Machine) machine.Demand {
	w := x.Workload
	d := machine.Demand{
		Matrix: 2 * float64(w.M) * float64(w.N) * float64(w.K) / m.GPU.Flops.Value,
		Time:   x.Us*1e-6 + x.filled(),
		At:     1 / x.slowdown(),
	}
	switch x.Params.Fill {
	case "":
	case "triad":
		d.Memory = x.filled()
	default:
		d.Link = x.filled()
	}
	return d
}

func readExponent(c *calibration) reading {
	var f reading
	var points [][]float64
	var slow []float64
	for _, x := range c.cycles() {
		if x.Params.Fill != "" {
			continue
		}
		f.rows = append(f.rows, x.Row)
		// Below 1.5 % it is noise and leakage, not the cap.
		if s := x.slowdown(); s > 1.015 {
			points = append(points, []float64{1, math.Log(x.Us / (x.Us + x.Params.GapUs))})
			slow = append(slow, math.Log(s))
		}
	}
	if len(f.rows) < 3 || len(points) < 2 {
		return reading{}
	}
	x, ok := solve(points, slow)
	if !ok {
		return reading{}
	}
	f.value = x[1]
	var res []float64
	for i, p := range points {
		res = append(res, off(math.Exp(x[0]+x[1]*p[1]), math.Exp(slow[i])))
	}
	f.residual = median(res)
	return f
}

func readKnee(c *calibration) reading {
	if !c.m.Clock.Exponent.Known() {
		return reading{}
	}
	var f reading
	var knees []float64
	hot := c.backToBack()
	for _, x := range c.cycles() {
		if x.Params.GapUs == 0 {
			hot = append(hot, x)
		}
	}
	for _, x := range hot {
		d := x.demand(&c.m)
		knees = append(knees, c.m.Clock.Draw(d, d.At))
		f.rows = append(f.rows, x.Row)
	}
	f.value = median(knees)
	clock := c.m.Clock
	clock.Knee = machine.Quantity{Value: f.value}
	f.residual = settles(clock, &c.m, hot)
	return f
}

// backToBack is GEMMs of several iterations, as duty cycles without pauses.
func (c *calibration) backToBack() []cycle {
	parts := c.pick(func(r *Row) bool {
		return r.Workload.Kind == "gemm+collective" && r.Workload.Part == "compute" && r.Strategy == "isolated" && r.Workload.Tile == nil
	})
	var list []cycle
	for _, hot := range parts {
		i := slices.IndexFunc(parts, func(r Row) bool {
			w, h := r.Workload, hot.Workload
			return !w.BackToBack && w.M == h.M && w.N == h.N && w.K == h.K
		})
		if hot.Workload.BackToBack && i >= 0 {
			list = append(list, cycle{hot, c.seconds(parts[i])})
		}
	}
	return list
}

// settles is the median of how far the law is from where cycles settled.
func settles(c machine.Clock, m *machine.Machine, list []cycle) float64 {
	var res []float64
	for _, x := range list {
		d := x.demand(m)
		res = append(res, off(d.At, c.Settled(d)))
	}
	return median(res)
}

// readFill is the draw of what fills the pauses: "triad", or "" for collectives.
func readFill(fill string) func(c *calibration) reading {
	return func(c *calibration) reading {
		if !c.m.Clock.Known() {
			return reading{}
		}
		var list []cycle
		var draws []float64
		bare := c.m.Clock
		bare.Memory, bare.Link = machine.Quantity{}, machine.Quantity{}
		f := reading{}
		for _, x := range c.cycles() {
			if is := x.Params.Fill; is == "" || (is == "triad") != (fill == "triad") || x.Params.GapUs == 0 || x.slowdown() < 1.015 {
				continue
			}
			d := x.demand(&c.m)
			draws = append(draws, (c.m.Clock.Knee.Value-bare.Draw(d, d.At))*d.Time/x.filled())
			f.rows, list = append(f.rows, x.Row), append(list, x)
		}
		f.value = median(draws)
		clock := bare
		clock.Memory, clock.Link = machine.Quantity{Value: f.value}, machine.Quantity{Value: f.value} // no cycle has both
		f.residual = settles(clock, &c.m, list)
		return f
	}
}

// readHold takes the time from the first GEMM to the middle of the ten in which
// the clock has come half of the way to where it settles.
func readHold(c *calibration) reading {
	var f reading
	var holds, times, units []float64
	for _, x := range c.cycles() {
		d := x.demand(&c.m)
		full := c.m.Clock.Draw(d, 1)
		half := x.cool * 1e6 * math.Sqrt(x.slowdown())
		fell := slices.IndexFunc(x.Params.Every10Us, func(us float64) bool { return us > half })
		if fell < 1 || x.slowdown() < 1.05 || full <= c.m.Clock.Knee.Value {
			continue // it began warm, or hardly fell
		}
		unit := math.Log(full / (full - c.m.Clock.Knee.Value))
		at := (10*float64(fell) - 5) * d.DurationAt(1)
		holds, times, units = append(holds, at/unit), append(times, at), append(units, unit)
		f.rows = append(f.rows, x.Row)
	}
	f.value = median(slices.Clone(holds))
	var res []float64
	for i := range times {
		res = append(res, off(f.value*units[i], times[i]))
	}
	f.residual = median(res)
	return f
}
