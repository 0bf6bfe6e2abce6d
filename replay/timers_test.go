package replay

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

type set struct{ at, who int64 }

// Timers are returned by time, equal times in the order in which they were set.
const lastTime = int64(1) << 60 // program.MaxTime

func TestTimersComeOutInOrder(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		var q timerQueue
		var model []set // by time, then by number
		now := int64(0)
		spread := rapid.SampledFrom([]int64{1, 3, 100, 5000, 1 << 40, lastTime / 2}).Draw(t, "spread")
		for who := range int64(300) {
			if rapid.IntRange(0, 3).Draw(t, "do") > 0 {
				x := set{min(now+rapid.Int64Range(0, spread).Draw(t, "in"), 2*lastTime), who}
				q.set(x.at, x.who)
				at, _ := slices.BinarySearchFunc(model, x.at, func(y set, at int64) int {
					if y.at <= at {
						return -1
					}
					return 1
				})
				model = slices.Insert(model, at, x)
				continue
			}
			at, ok := q.advance()
			if ok != (len(model) > 0) || ok && at != model[0].at {
				t.Fatalf("advanced to %d (%t), timers %v", at, ok, model)
			}
			now = max(now, at)
			for _, who := range q.due(nil) {
				if model[0] != (set{at, who}) {
					t.Fatalf("%d is due at %d, want %v", who, at, model[0])
				}
				model = model[1:]
			}
			if len(model) > 0 && model[0].at == at && ok {
				t.Fatalf("%v is not due at %d", model[0], at)
			}
		}
	})
}

// BenchmarkPending measures the cost of one timer among many, with and without ties.
func BenchmarkPending(b *testing.B) {
	for _, pending := range []int{1e2, 1e3, 1e4, 1e5, 1e6} {
		for _, spread := range []struct {
			name string
			ns   uint64
		}{{"ties", 1}, {"distinct", 1e6}} {
			b.Run(fmt.Sprintf("%s/%d", spread.name, pending), func(b *testing.B) {
				var q timerQueue
				x := uint64(1)
				in := func() int64 {
					x = x*6364136223846793005 + 1442695040888963407
					return 1000 + int64(x>>33%spread.ns)
				}
				for i := range int64(pending) {
					q.set(in(), i)
				}
				var due []int64
				for b.Loop() {
					for len(due) == 0 {
						q.advance()
						due = q.due(due[:0])
					}
					q.set(q.now+in(), due[0])
					due = due[1:]
				}
			})
		}
	}
}
