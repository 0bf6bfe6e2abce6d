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

// Push appends a value and returns its index.
func Push[T any](list *[]T, v T) int32 {
	*list = append(*list, v)
	return int32(len(*list) - 1)
}
