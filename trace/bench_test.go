package trace

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
)

// startsOf returns the starts of spans in file order, with the queues written one after
// another.
func startsOf(n int) []Time {
	r := rand.New(rand.NewPCG(1, 2))
	starts := make([]Time, n)
	at := Time(0)
	for i := range starts {
		if i%(n/8) == 0 {
			at = 0
		}
		at += Time(r.IntN(20_000))
		starts[i] = at
	}
	return starts
}

func BenchmarkByStart(b *testing.B) {
	var run Builder
	for _, t := range startsOf(500_000) {
		run.Add(Span{Start: t})
	}
	for b.Loop() {
		run.order = nil
		run.byStart()
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
	keys := startsOf(500_000)
	before := func(a, b Time) bool { return a < b }
	for b.Loop() {
		h := slices.Clone(keys[:0])
		for _, k := range keys {
			if h = HeapPush(h, k, before); len(h) == 8 {
				_, h = HeapPop(h, before)
			}
		}
	}
}

type keyHeap []Time

func (h keyHeap) Len() int           { return len(h) }
func (h keyHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h keyHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *keyHeap) Push(x any)        { *h = append(*h, x.(Time)) }
func (h *keyHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func BenchmarkContainerHeap(b *testing.B) {
	keys := startsOf(500_000)
	for b.Loop() {
		h := keyHeap(slices.Clone(keys[:0]))
		for _, k := range keys {
			if heap.Push(&h, k); len(h) == 8 {
				heap.Pop(&h)
			}
		}
	}
}
