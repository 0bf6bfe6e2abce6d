package replay

// A slab hands out short slices that lie one behind another in long ones:
// thousands of paths begin with one class each, and most never have more.
//
//	|a|b b b|c|d d|........|   room for a has capacity 1: what outgrows it moves
type slab[T any] struct {
	rest []T
	size int // of the last long slice
}

const slabSize = 1 << 12

// room returns an empty slice with capacity n.
func (s *slab[T]) room(n int) []T {
	if n > len(s.rest) {
		s.size = max(n, min(2*s.size, slabSize), 16)
		s.rest = make([]T, s.size)
	}
	r := s.rest[:0:n]
	s.rest = s.rest[n:]
	return r
}
