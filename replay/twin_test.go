package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
)

// The fast simulator and the obvious one agree to the nanosecond, and to the
// byte in what they add up.
func TestEqualsNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		m := drawMachine(t, len(p.GPUs))
		if rapid.Bool().Draw(t, "to everyone") {
			replicate(p, &m)
		}
		naive := runNaive(m, p)
		r, err := Simulate(m, p, Options{Level: Workgroups})
		var deadlock *DeadlockError
		if err != nil && !errors.As(err, &deadlock) {
			t.Fatal(err)
		}
		if naive.stuck != (err != nil) {
			t.Fatalf("error %v; naive deadlocked: %t", err, naive.stuck)
		}
		if err != nil {
			return
		}
		got := logOf(p, r.Run, 1)
		if !slices.Equal(got, naive.log) || r.Makespan != naive.end {
			t.Fatalf("makespan %d, want %d\n%s", r.Makespan, naive.end, differences(got, naive.log))
		}
		if d := naive.differs(r); d != "" {
			t.Fatal(d)
		}
	})
}

func differences(got, want []string) string {
	var b strings.Builder
	for _, l := range got {
		if !slices.Contains(want, l) {
			fmt.Fprintln(&b, "got ", l)
		}
	}
	for _, l := range want {
		if !slices.Contains(got, l) {
			fmt.Fprintln(&b, "want", l)
		}
	}
	return b.String()
}

// logOf writes a run as the naive simulator does, in so many nanoseconds.
func logOf(p *Program, r *trace.Run, unit Time) []string {
	in := func(s trace.Span) string {
		return fmt.Sprint(float64(s.Start)/float64(unit), "-", float64(s.End)/float64(unit))
	}
	streams := make([]int, len(p.GPUs)+1)
	for g := range p.GPUs {
		streams[g+1] = streams[g] + len(p.GPUs[g].Streams)
	}
	var log []string
	for _, s := range r.Spans {
		lane := r.Lanes[s.Lane]
		gpu := int(lane.Rank)
		switch {
		case s.Kind == trace.Workgroup:
			if w := r.Workgroup(s); w.ID != trace.None {
				log = append(log, fmt.Sprintf("tile %d of %s gpu %d cu %d: %s", w.ID, r.NameOf(s), gpu, w.CU, in(s)))
			}
		case s.Kind == trace.Copy:
			log = append(log, fmt.Sprintf("copy gpu %d at %d %s: %s", gpu, streams[gpu]+int(lane.ID), r.NameOf(s), in(s)))
		case s.Kind.OnDevice():
			log = append(log, fmt.Sprintf("kernel gpu %d at %d %s: %s", gpu, streams[gpu]+int(lane.ID), r.NameOf(s), in(s)))
		}
	}
	slices.Sort(log)
	return log
}
