package fluid

import (
	"fmt"
	"math"
)

// Check reports an invariant that does not hold at now, after a Solve: a resource
// that carries more than its capacity, a path whose next completion has no timer,
// or, while no path is stale, a path whose rate is not max-min fair. It solves all
// paths naively and is for tests.
func (s *System) Check(now int64) error {
	carries := make([]float64, len(s.resources))
	for id := range s.paths {
		p, sends := &s.paths[id], 0.0
		if due := p.dueAt(now); due < Last && p.alarm != due {
			return fmt.Errorf("%d: path %d is done at %d; its alarm is %d", now, id, due, p.alarm)
		}
		for _, x := range p.table.rows {
			c := &s.classes[x.class]
			sends += float64(c.n) * s.rateOf(c)
		}
		for _, x := range s.crossed(&s.states[id]) {
			carries[x.resource] += x.cost * sends
		}
	}
	for id := range s.resources {
		r := &s.resources[id]
		all := carries[id] + r.uncontended
		if all > r.capacity*(1+1e-9) || math.Abs(carries[id]-r.used) > 1e-6*r.capacity {
			return fmt.Errorf("%d: resource %d carries %g of %g and accounts %g", now, id, all, r.capacity, r.used+r.uncontended)
		}
	}
	if len(s.approx.stale) > 0 {
		return nil
	}
	for id, want := range s.fair() {
		if got := s.states[id].sends; math.Abs(got-want) > 1e-6*want {
			return fmt.Errorf("%d: path %d sends %g, fair are %g", now, id, got, want)
		}
	}
	return nil
}

// fair is the max-min fair rate of each path with classes: all rows rise together
// until a limit or a full resource stops them.
func (s *System) fair() map[int32]float64 {
	type riser struct {
		row
		path int32
		done bool
	}
	var all []riser
	for id := range s.paths {
		for _, x := range s.paths[id].table.rows {
			all = append(all, riser{row: x, path: int32(id)})
		}
	}
	sends := map[int32]float64{}
	for open := len(all); open > 0; {
		left, weight := map[int32]float64{}, map[int32]float64{}
		level := math.Inf(1)
		for _, x := range all {
			for _, y := range s.crossed(&s.states[x.path]) {
				r := &s.resources[y.resource]
				if _, ok := left[y.resource]; !ok {
					left[y.resource] = r.capacity - r.uncontended
				}
				if !x.done {
					weight[y.resource] += y.cost * x.weight
				}
			}
			if !x.done {
				level = min(level, x.level)
			}
		}
		for path, rate := range sends {
			for _, y := range s.crossed(&s.states[path]) {
				left[y.resource] -= y.cost * rate
			}
		}
		for id, w := range weight {
			level = min(level, max(0, left[id]/w)) // below 0 by rounding, nothing would be full
		}
		for i := range all {
			x := &all[i]
			full := x.level <= level*(1+1e-9)
			for _, y := range s.crossed(&s.states[x.path]) {
				full = full || left[y.resource] <= level*weight[y.resource]*(1+1e-9)
			}
			if full && !x.done {
				x.done = true
				sends[x.path] += x.weight * level
				open--
			}
		}
	}
	return sends
}
