package replay

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// The series of every GPU covers the makespan without gap, in a bounded number
// of pieces, and changes nothing else.
func TestLimitsCoverTheRun(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p, _, r, with := drawTwice(t, Options{Limits: true})
		next := 0
		for g := range p.GPUs {
			at, n := program.Time(0), 0
			for ; next < len(with.Limits) && with.Limits[next].GPU == g; next++ {
				l := with.Limits[next]
				if l.Start != at || l.End <= at || l.By == "" {
					t.Fatalf("GPU %d: %+v after %d", g, l, at)
				}
				at, n = l.End, n+1
			}
			if at != r.Makespan || n > maxParts {
				t.Fatalf("GPU %d: %d pieces until %d, the makespan is %d", g, n, at, r.Makespan)
			}
		}
	})
}

// Whatever is added in whatever order, no time is lost, and each part holds
// what lies in it.
func TestParts(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		var p parts
		type interval struct{ start, end program.Time }
		var all []interval
		for range rapid.IntRange(0, 20).Draw(t, "n") {
			start := program.Time(rapid.IntRange(0, 1<<rapid.IntRange(0, 20).Draw(t, "bits")).Draw(t, "start"))
			end := start + program.Time(rapid.IntRange(1, 5000).Draw(t, "length"))
			all = append(all, interval{start, end})
			p.add(start, end)
		}
		width := p.width << rapid.IntRange(0, 3).Draw(t, "wider")
		for i := range maxParts {
			var want program.Time
			for _, x := range all {
				want += max(0, min(x.end, program.Time(i+1)*width)-max(x.start, program.Time(i)*width))
			}
			if got := p.at(i, width); got != want {
				t.Fatalf("part %d of %d: %d, want %d", i, width, got, want)
			}
		}
	})
}

// drawTwice simulates a program, and once more with something recorded, which must change
// no time.
func drawTwice(t *rapid.T, o Options) (p *program.Program, m machine.Machine, r, with *Result) {
	p, m, _ = drawRun(t, Options{})
	enlarge(p, float64(rapid.SampledFrom([]int{1, 100, 10_000}).Draw(t, "larger")))
	r, err := Simulate(m, p, Options{})
	skipDeadlock(t, err)
	if with, err = Simulate(m, p, o); err != nil || with.Makespan != r.Makespan {
		t.Fatalf("makespan %d, recorded %d (error %v)", r.Makespan, with.Makespan, err)
	}
	return p, m, r, with
}
