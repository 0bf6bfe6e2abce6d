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
		if due := p.dueAt(now); due < last && p.alarm != due {
			return fmt.Errorf("%d: path %d is done at %d; its alarm is %d", now, id, due, p.alarm)
		}
		for _, x := range p.table.rows {
			c := &s.classes[x.class]
			sends += float64(c.n) * s.rateOf(c)
		}
		resources, costs := s.crossed(&s.states[id])
		for i, at := range resources {
			carries[at] += costs[i] * sends
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
			resources, costs := s.crossed(&s.states[x.path])
			for i, at := range resources {
				r := &s.resources[at]
				if _, ok := left[at]; !ok {
					left[at] = r.capacity - r.uncontended
				}
				if !x.done {
					weight[at] += costs[i] * x.weight
				}
			}
			if !x.done {
				level = min(level, x.level)
			}
		}
		for path, rate := range sends {
			resources, costs := s.crossed(&s.states[path])
			for i, at := range resources {
				left[at] -= costs[i] * rate
			}
		}
		for id, w := range weight {
			level = min(level, max(0, left[id]/w)) // below 0 by rounding, nothing would be full
		}
		for i := range all {
			x := &all[i]
			full := x.level <= level*(1+1e-9)
			resources, _ := s.crossed(&s.states[x.path])
			for _, at := range resources {
				full = full || left[at] <= level*weight[at]*(1+1e-9)
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
