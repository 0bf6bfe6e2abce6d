package guard

import (
	"runtime"

	"golang.org/x/sync/errgroup"
)

// Each calls f for 0 to n-1, on as many goroutines as there are cores, and returns the first error.
func Each(n int, f func(i int) error) error { return AtMost(n, n, f) }

// AtMost is Each on at most so many goroutines.
func AtMost(most, n int, f func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(max(1, min(most, runtime.GOMAXPROCS(0))))
	for i := range n {
		g.Go(Func(func() error { return f(i) }))
	}
	return g.Wait()
}
