package calibrate

import (
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
)

// clockLaw reads the clock off duty cycles: a GEMM over and over, with pauses in
// which nothing, memory traffic or a collective runs. All GPUs of a board share
// its power and cooling, so that no two machines agree to better than 3 %. What differs
// most between GPUs of one kind is the draw that they sustain.
func clockLaw() law {
	l := law{
		name: "clock under the power limit",
		keys: []string{"clock.exponent", "clock.knee", "clock.memory", "clock.link"},
		need: "strategy duty_cycle, kind gemm, at three gaps and more, one of them 0; with fill triad, and of a collective",
		rows: func(c *calibration) []Row { return c.pick(isCycle) },
	}
	l.predict = func(c *calibration, r *Row) (predicted, measured float64) {
		x := cycle{*r, c.coolest()[gemmOf(r)]}
		return x.cool / c.m.Clock.Settled(x.demand(&c.m)), r.Us * 1e-6
	}
	const how = "draws at which GEMMs settle, back to back and with pauses, and alongside"
	l.ways = []way{
		{how: "draw at which GEMMs settle, back to back and with pauses", keys: []string{"clock.knee"}, fit: func(c *calibration) bool {
			return c.m.Clock.Known() && c.fitClock()
		}},
		{how: how + " triads and collectives", keys: []string{"clock.knee", "clock.memory", "clock.link"}, fit: func(c *calibration) bool {
			return c.m.Clock.Known() && c.fitClock(&c.m.Clock.Memory, &c.m.Clock.Link)
		}},
		{how: how + " triads and collectives, with the slope over the busy part of the time", keys: l.keys, fit: func(c *calibration) bool {
			return c.fitClock(&c.m.Clock.Memory, &c.m.Clock.Link, &c.m.Clock.Exponent)
		}},
	}
	return l
}

// fitClock searches the knee and, as free says, the draws of what fills pauses and the
// exponent, one after the other, for the least square of log errors. Draws of which there
// are no cycles stay.
func (c *calibration) fitClock(free ...*machine.Quantity) bool {
	list := c.cycles()
	var gaps []float64
	fills := map[bool]bool{} // with triads, with collectives
	for _, x := range list {
		switch {
		case x.Params.Fill != "":
			fills[x.Params.Fill == "triad"] = true
		case !slices.Contains(gaps, x.Params.GapUs):
			gaps = append(gaps, x.Params.GapUs)
		}
	}
	k := &c.m.Clock
	free = slices.DeleteFunc(append(free, &k.Knee), func(q *machine.Quantity) bool {
		return q == &k.Memory && !fills[true] || q == &k.Link && !fills[false]
	})
	if slices.Contains(free, &k.Exponent) && len(gaps) < 3 || len(list) < len(free)+1 {
		return false
	}
	if slices.Contains(free, &k.Exponent) { // where the search begins, whatever the base
		for _, q := range free {
			q.Value = map[*machine.Quantity]float64{&k.Exponent: 0.5, &k.Knee: 0.7, &k.Memory: 0.4, &k.Link: 0.4}[q]
		}
	}
	demands := make([]machine.Demand, len(list))
	for i, x := range list {
		demands[i] = x.demand(&c.m)
	}
	loss := func() (sum float64) {
		for i, x := range list {
			e := math.Log(x.slowdown() * k.Settled(demands[i]))
			sum += e * e
		}
		return sum
	}
	search(free, loss, func(q *machine.Quantity) (least, most float64) {
		if q == &k.Exponent {
			return 0.1, 0.9
		}
		return 0.01, 1.5
	})
	return true
}

// search lowers a loss over quantities, within their bounds: one after the other, then all
// along the way that this took them, which follows a valley (Powell).
func search(free []*machine.Quantity, loss func() float64, bounds func(*machine.Quantity) (least, most float64)) {
	was := make([]float64, len(free))
	for range 20 {
		for i, q := range free {
			least, most := bounds(q)
			was[i], q.Mark = q.Value, machine.Sourced
			q.Value = lowest(func(v float64) float64 {
				q.Value = v
				return loss()
			}, least, most)
		}
		now := make([]float64, len(free))
		for i, q := range free {
			now[i] = q.Value
		}
		move := func(t float64) float64 {
			for i, q := range free {
				least, most := bounds(q)
				q.Value = max(least, min(most, now[i]+t*(now[i]-was[i])))
			}
			return loss()
		}
		move(lowest(move, 0, 8))
	}
}

func clockRules() []rule {
	return []rule{{
		"clock.hold", "time until GEMMs slow down over what the law has it at in times of itself, median", "strategy duty_cycle, kind gemm, with every10_us", readHold,
	}}
}

// A cycle is a duty cycle and what the GEMM takes in it at full clock.
type cycle struct {
	Row
	cool float64 // seconds
}

// A cycleGEMM is the GEMM of a duty cycle, on a machine.
type cycleGEMM struct {
	machine string
	world   int
	m, n, k int64
}

func gemmOf(r *Row) cycleGEMM {
	return cycleGEMM{r.Machine, r.World, r.Workload.M, r.Workload.N, r.Workload.K}
}

func isCycle(r *Row) bool {
	return r.Strategy == "duty_cycle" && r.Workload.Kind == "gemm" && r.Us > 0
}

// coolest is the shortest time of each GEMM in any of its duty cycles, in seconds.
func (c *calibration) coolest() map[cycleGEMM]float64 {
	cool := map[cycleGEMM]float64{}
	for i := range c.all {
		r := &c.all[i]
		if !isCycle(r) {
			continue
		}
		least := slices.Min(append([]float64{r.Us}, r.Params.Every10Us...)) * 1e-6
		if was, ok := cool[gemmOf(r)]; !ok || least < was {
			cool[gemmOf(r)] = least
		}
	}
	return cool
}

// cycles pairs duty cycles with the shortest time of their GEMM on their machine.
func (c *calibration) cycles() (list []cycle) {
	cool := c.coolest()
	for _, r := range c.pick(isCycle) {
		list = append(list, cycle{r, cool[gemmOf(&r)]})
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
