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

// A heap is a slice whose first element is the smallest. container/heap takes three
// times as long (BenchmarkContainerHeap, BenchmarkHeap).

// HeapPush adds a value and returns the heap.
func HeapPush[T any](h []T, v T, before func(a, b T) bool) []T {
	h = append(h, v)
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !before(h[i], h[parent]) {
			break
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
	return h
}

// HeapPop returns the smallest value, and the heap without it.
func HeapPop[T any](h []T, before func(a, b T) bool) (first T, rest []T) {
	first = h[0]
	h[0] = h[len(h)-1]
	rest = h[:len(h)-1]
	heapSink(rest, before)
	return first, rest
}

// heapSink restores the order after the first element has grown.
func heapSink[T any](h []T, before func(a, b T) bool) {
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if before(h[child], h[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
