package schedule

import (
	"fmt"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/trace"
)

// A lane's operations share a stream unless they overlapped, or the stream is at a later
// iteration; ranks and queues share none.
func TestLanes(t *testing.T) {
	ranks, of := []*plan.Rank{{ID: 0}, {ID: 1}}, []lanes{{}, {}}
	for i, c := range []struct {
		rank      int
		queue     int64
		iteration int32
		at        trace.Time
		want      int // stream of the rank
	}{{0, 7, 0, 0, 0}, {0, 7, 0, 10, 0}, {0, 7, 0, 5, 1}, {1, 7, 0, 20, 0}, {0, 8, 0, 20, 2}, {0, 7, 1, 20, 0}, {0, 7, 0, 30, 1}, {0, 7, 0, 30, 3}} {
		s := of[c.rank].of(ranks[c.rank], laneKey{c.queue, trace.Compute, false}, c.iteration, c.at)
		s.End, s.iteration = c.at+10, c.iteration
		if got := ranks[c.rank].Streams[c.want]; got != s.Stream {
			t.Errorf("operation %d is not on stream %d", i, c.want)
		}
	}
}

// BenchmarkLanes shows that the time to find a lane does not grow with their number: ns/lane.
func BenchmarkLanes(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				l, r := lanes{}, &plan.Rank{}
				for i := range n {
					l.of(r, laneKey{queue: int64(i)}, 0, 0)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/lane")
		})
	}
}
