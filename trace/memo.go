package trace

// Memo returns the value of a key, which find computes the first time.
func Memo[K comparable, V any](known map[K]V, key K, find func() V) V {
	v, ok := known[key]
	if !ok {
		v = find()
		known[key] = v
	}
	return v
}

// Number returns the number of a key: keys are numbered from 0 in the order in which they come.
func Number[K comparable](known map[K]int32, key K) int32 {
	return Memo(known, key, func() int32 { return int32(len(known)) })
}

// Alike divides a list into stretches of neighbours that are like the first of them.
func Alike[T any](list []T, same func(a, b T) bool) (parts [][]T) {
	for len(list) > 0 {
		n := 1
		for n < len(list) && same(list[0], list[n]) {
			n++
		}
		parts, list = append(parts, list[:n:n]), list[n:]
	}
	return parts
}

// Push appends a value and returns its index.
func Push[T any](list *[]T, v T) int32 {
	*list = append(*list, v)
	return int32(len(*list) - 1)
}
