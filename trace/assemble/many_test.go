package assemble

import (
	"fmt"
	"testing"
	"time"

	"github.com/overlapse/overlapse/trace"
)

// A file may name a process and a GPU on every row: the time of a lookup must not grow
// with the number of rows.
func TestManyProcesses(t *testing.T) {
	const n = 60_000
	s := New("many")
	done := make(chan *trace.Run)
	go func() {
		for i := range n {
			p := s.Process(fmt.Sprint(i), int64(i), "x")
			s.Describe(p, Description{GPU: true, OfKind: trace.None})
			s.AddKernel(p, &Dispatch{
				Agent: s.Agent(p, "GPU 0"), Name: s.Builder.Intern("ncclDevKernel"), Start: trace.Time(i), End: trace.Time(i + 1),
			})
			s.AddCall(p, &Call{Name: s.Builder.Intern("ncclAllReduce"), Start: trace.Time(i), End: trace.Time(i + 1), Collective: true})
		}
		done <- s.Finish(0)
	}()
	select {
	case run := <-done:
		if len(run.Ranks) != n || len(run.Spans) != 2*n || run.Comms[n-1].Op != trace.AllReduce {
			t.Errorf("%d ranks, %d spans", len(run.Ranks), len(run.Spans))
		}
	case <-time.After(time.Minute): // a linear lookup takes hours
		t.Fatal("not done in a minute")
	}
}
