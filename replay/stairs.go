package replay

import "slices"

// Stairs are the classes of a path in the order in which they reach their limit
// as its level rises. A thousand workgroups whose phases all differ are a
// thousand steps, so they lie in blocks that know their sums: a change costs a
// block and the number of blocks.
//
//	blocks  | 0.5 0.7 0.7 | 1.2 2.0 2.0 | 2.1 4.0 |
//	          at their limit     held back
type stairs []block

type block struct {
	top   float64 // level of the last step
	flow  float64 // of all steps
	mass  float64
	held  int // the last so many steps are held back
	steps []step
}

// A step is a class in its path.
type step struct {
	level float64 // at which its members reach their limit: limit over favor
	flow  float64 // bytes a nanosecond of all members at their limit
	mass  float64 // favor of all members
	class int32
}

// maxSteps is how many a block holds.
const maxSteps = 32

// A stair is a place among the steps.
type stair struct{ block, at int32 }

// find returns where the class's step is or belongs.
func (s stairs) find(level float64, class int32) stair {
	lo, hi := 0, len(s)
	for lo < hi {
		mid := (lo + hi) / 2
		b := &s[mid]
		if b.top < level || b.top == level && b.steps[len(b.steps)-1].class < class {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(s) {
		if lo == 0 {
			return stair{}
		}
		return stair{int32(lo - 1), int32(len(s[lo-1].steps))}
	}
	steps := s[lo].steps
	at, end := 0, len(steps)
	for at < end {
		mid := (at + end) / 2
		if x := &steps[mid]; x.level < level || x.level == level && x.class < class {
			at = mid + 1
		} else {
			end = mid
		}
	}
	return stair{int32(lo), int32(at)}
}

// insert puts a step in and reports whether it is held back: whether the one before it is.
func (s *stairs) insert(x step) (held bool) {
	if len(*s) == 0 {
		s.open(0)
	}
	at := s.find(x.level, x.class)
	b := &(*s)[at.block]
	if at.at > 0 {
		held = int(at.at) > len(b.steps)-b.held
	} else {
		held = at.block > 0 && (*s)[at.block-1].held > 0
	}
	b.steps = slices.Insert(b.steps, int(at.at), x)
	if held {
		b.held++
	}
	if len(b.steps) < maxSteps {
		b.sum()
		return held
	}
	right := s.open(int(at.block) + 1)
	left := &(*s)[at.block]
	const half = maxSteps / 2
	right.steps = append(slices.Grow(right.steps, maxSteps), left.steps[half:]...)
	left.steps = left.steps[:half]
	right.held = min(left.held, len(right.steps))
	left.held -= right.held
	left.sum()
	right.sum()
	return held
}

// remove takes the class's step out.
func (s *stairs) remove(level float64, class int32, held bool) {
	at := s.find(level, class)
	b := &(*s)[at.block]
	b.steps = slices.Delete(b.steps, int(at.at), int(at.at)+1)
	if held {
		b.held--
	}
	if len(b.steps) > 0 {
		b.sum()
	} else {
		s.close(int(at.block))
	}
}

// open makes room for a block, with the steps of one closed before if there is any.
func (s *stairs) open(at int) *block {
	n := len(*s)
	if n < cap(*s) {
		*s = (*s)[:n+1]
	} else {
		*s = append(*s, block{})
	}
	spare := (*s)[n].steps[:0]
	copy((*s)[at+1:], (*s)[at:n])
	(*s)[at] = block{steps: spare}
	return &(*s)[at]
}

// close takes an empty block out and keeps it beyond the end.
func (s *stairs) close(at int) {
	b, last := (*s)[at], len(*s)-1
	copy((*s)[at:], (*s)[at+1:])
	(*s)[last] = b
	*s = (*s)[:last]
}

// set changes the flow and mass of the class's step.
func (s stairs) set(x step) {
	at := s.find(x.level, x.class)
	b := &s[at.block]
	b.steps[at.at] = x
	b.sum()
}

func (b *block) sum() {
	b.flow, b.mass = 0, 0
	for i := range b.steps {
		b.flow += b.steps[i].flow
		b.mass += b.steps[i].mass
	}
	b.top = b.steps[len(b.steps)-1].level
}

// sum is the flow and mass of all steps.
func (s stairs) sum() (flow, mass float64) {
	for i := range s {
		flow += s[i].flow
		mass += s[i].mass
	}
	return flow, mass
}

func (s stairs) at(x stair) *step { return &s[x.block].steps[x.at] }

// after is the place after one at which there is a step.
func (s stairs) after(x stair) stair {
	if int(x.at)+1 < len(s[x.block].steps) {
		return stair{x.block, x.at + 1}
	}
	return stair{x.block + 1, 0}
}

// climb returns the flow and mass of the steps from a place on that reach
// their limit at the level or below it, and the place of the first that does not.
func (s stairs) climb(at stair, level float64) (flow, mass float64, to stair) {
	for int(at.block) < len(s) {
		b := &s[at.block]
		if at.at == 0 && b.top <= level {
			flow += b.flow
			mass += b.mass
			at.block++
			continue
		}
		for ; int(at.at) < len(b.steps); at.at++ {
			x := &b.steps[at.at]
			if x.level > level {
				return flow, mass, at
			}
			flow += x.flow
			mass += x.mass
		}
		at = stair{at.block + 1, 0}
	}
	return flow, mass, at
}

// holdsFrom reports whether the steps held back begin at the place, as all of
// them do behind the first.
func (s stairs) holdsFrom(at stair) bool {
	before := at.block == 0 || s[at.block-1].held == 0
	return before && (int(at.block) == len(s) || s[at.block].held == len(s[at.block].steps)-int(at.at))
}

// after is how many of the block's steps lie at the place or after it; i is the block's.
func (b *block) after(i int, at stair) int {
	switch {
	case i < int(at.block):
		return 0
	case i > int(at.block):
		return len(b.steps)
	}
	return len(b.steps) - int(at.at)
}
