package trace

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
)

// keysOf returns sort keys of spans in file order, with the queues written one after
// another.
func keysOf(n int) []sortKey {
	r := rand.New(rand.NewPCG(1, 2))
	keys := make([]sortKey, n)
	at := Time(0)
	for i := range keys {
		if i%(n/8) == 0 {
			at = 0
		}
		at += Time(r.IntN(20_000))
		keys[i] = sortKey{start: at, span: int32(i)}
	}
	return keys
}

func BenchmarkByStart(b *testing.B) {
	keys := keysOf(500_000)
	for b.Loop() {
		sortByStart(slices.Clone(keys))
	}
}

func BenchmarkByStartSlices(b *testing.B) {
	keys := keysOf(500_000)
	for b.Loop() {
		slices.SortStableFunc(slices.Clone(keys), func(a, b sortKey) int { return cmp.Compare(a.start, b.start) })
	}
}

// BenchmarkNest nests the calls of two threads that were written one source after another.
func BenchmarkNest(b *testing.B) {
	const n = 1_000_000
	var run Builder
	rank := run.AddRank(Rank{})
	r := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		at := Time(i%(n/2)) * 1000
		lane := run.Lane(Lane{Rank: rank, ID: int64(i % 2), Peer: None})
		run.Add(Span{Start: at, End: at + Time(r.IntN(3000)), Lane: lane, Parent: None, Attr: None})
	}
	for b.Loop() {
		run.Nest()
	}
}

// It merges eight sources, as Merge does.
func BenchmarkHeap(b *testing.B) {
	keys := keysOf(500_000)
	before := func(a, b sortKey) bool { return a.start < b.start }
	for b.Loop() {
		h := slices.Clone(keys[:0])
		for _, k := range keys {
			if h = HeapPush(h, k, before); len(h) == 8 {
				_, h = HeapPop(h, before)
			}
		}
	}
}

type keyHeap []sortKey

func (h keyHeap) Len() int           { return len(h) }
func (h keyHeap) Less(i, j int) bool { return h[i].start < h[j].start }
func (h keyHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *keyHeap) Push(x any)        { *h = append(*h, x.(sortKey)) }
func (h *keyHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func BenchmarkContainerHeap(b *testing.B) {
	keys := keysOf(500_000)
	for b.Loop() {
		h := keyHeap(slices.Clone(keys[:0]))
		for _, k := range keys {
			if heap.Push(&h, k); len(h) == 8 {
				heap.Pop(&h)
			}
		}
	}
}
