package lift

// An arena holds small lists in memory that many share, for speed.
type arena[T any] []T

// Keep copies a list; nil for an empty one.
func (a *arena[T]) Keep(list []T) []T {
	const block = 1024
	n := len(list)
	if n == 0 {
		return nil
	}
	if cap(*a)-len(*a) < n {
		*a = make([]T, 0, max(block, n))
	}
	first := len(*a)
	*a = append(*a, list...)
	return (*a)[first : first+n : first+n]
}
