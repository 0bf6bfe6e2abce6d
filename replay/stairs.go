package replay

import (
	"cmp"
	"slices"
)

// Stairs are the classes of a path in the order in which they reach their limit
// as its level rises. Those from some place on are held back.
//
//	0.5 0.7 0.7 1.2 | 2.0 2.0 2.1 4.0
//	at their limit    held back
type stairs struct {
	steps []step
	held  int // the last so many steps are held back
}

// A step is a class in its path.
type step struct {
	level float64 // at which its members reach their limit: limit over favor
	flow  float64 // bytes a nanosecond of all members at their limit
	mass  float64 // favor of all members
	class int32
}

// find returns where the class's step is or belongs.
func (s *stairs) find(level float64, class int32) int {
	at, _ := slices.BinarySearchFunc(s.steps, step{level: level, class: class}, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.class, b.class))
	})
	return at
}

// insert puts a step in and reports whether it is held back: whether the one before it is.
func (s *stairs) insert(x step) (held bool) {
	at := s.find(x.level, x.class)
	if held = at > len(s.steps)-s.held; held {
		s.held++
	}
	s.steps = slices.Insert(s.steps, at, x)
	return held
}

// remove takes the class's step out.
func (s *stairs) remove(level float64, class int32, held bool) {
	at := s.find(level, class)
	s.steps = slices.Delete(s.steps, at, at+1)
	if held {
		s.held--
	}
}

// set changes the flow and mass of the class's step.
func (s *stairs) set(x step) { s.steps[s.find(x.level, x.class)] = x }

// sum is the flow and mass of all steps.
func (s *stairs) sum() (flow, mass float64) {
	for i := range s.steps {
		flow += s.steps[i].flow
		mass += s.steps[i].mass
	}
	return flow, mass
}

// climb returns the flow and mass of the steps from a place on that reach
// their limit at the level or below it, and the place of the first that does not.
func (s *stairs) climb(at int, level float64) (flow, mass float64, to int) {
	for ; at < len(s.steps) && s.steps[at].level <= level; at++ {
		flow += s.steps[at].flow
		mass += s.steps[at].mass
	}
	return flow, mass, at
}
