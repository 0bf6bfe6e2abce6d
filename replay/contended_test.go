package replay

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// While 40 workgroups share 1000 bytes a nanosecond each has 25, whatever more
// it could have. Once 20 are done at 520 the others are not alike any more:
//
//	ns          400        520           645    665
//	20 of  30   |25 -------|
//	10 of 200   |25 -------|40, its limit |
//	10 of 125   |25 -------|60 ----------|100 --|
func TestLevelRisesOverLimits(t *testing.T) {
	second := func(wg int) program.Phase {
		switch {
		case wg < 20:
			return program.Phase{Op: program.Work, Time: 30, Read: 3000}
		case wg < 30:
			return program.Phase{Op: program.Work, Time: 200, Read: 8000}
		}
		return program.Phase{Op: program.Work, Time: 125, Read: 12500}
	}
	k := kernel("k", 40, nil)
	k.Kernel.Recipe = func(wg int, buf []program.Phase) []program.Phase {
		return append(buf, program.Phase{Op: program.Work, Time: 100, Read: 10000}, second(wg))
	}
	p := prog([]program.Stream{{Commands: []program.Command{k}}})
	r := mustSimulate(t, small(1, 40), p, Options{Level: Workgroups, Usage: true})
	want := map[program.Time]int{520: 20, 645: 10, 665: 10}
	for _, s := range r.Run.Spans {
		if s.Kind == trace.Workgroup {
			want[s.End]--
		}
	}
	for at, n := range want {
		if n != 0 {
			t.Errorf("%d workgroups too few end at %d ns", n, at)
		}
	}
}

// Whatever limits and weights meet in memory, and whoever comes and goes, each
// ends when it would with a class to itself.
func TestContendedEqualsNaive(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawContended(t)
		m := machine.Machine{Name: "contended", GPUs: 1, GPU: machine.GPU{CUs: q(4), Threads: q(8), WGs: q(8), MemoryRates: machine.MemoryRates{Memory: q(40e9)}}}
		naive := runNaive(m, p)
		r := must.Have(Simulate(m, p, Options{Level: Workgroups, Usage: true}))(t)
		if got := logOf(p, r.Run, 1); !slices.Equal(got, naive.log) || r.Makespan != naive.end {
			t.Fatalf("makespan %d, want %d\n%s", r.Makespan, naive.end, differences(got, naive.log))
		}
		if d := naive.differs(r); d != "" {
			t.Fatal(d)
		}
	})
}

// drawContended draws kernels of phases that no two tiles have alike.
func drawContended(t *rapid.T) *program.Program {
	var streams []program.Stream
	for i := range rapid.IntRange(1, 3).Draw(t, "kernels") {
		seed := rapid.IntRange(0, 1<<20).Draw(t, "seed")
		bytes, spread := rapid.IntRange(1, 5000).Draw(t, "bytes"), rapid.IntRange(1, 2000).Draw(t, "spread")
		weight := rapid.SampledFrom([]float64{0, 0, 0, 2}).Draw(t, "weight")
		rests := rapid.SampledFrom([]int{0, 0, 60}).Draw(t, "rests")
		wgs := rapid.IntRange(1, 20).Draw(t, "wgs")
		k := kernel(fmt.Sprint("k", i), wgs, nil, threads(rapid.IntRange(1, 2).Draw(t, "threads")),
			pipe(rapid.SampledFrom([]float64{.1, .1, .3}).Draw(t, "pipe")), persistent(wgs*rapid.IntRange(1, 5).Draw(t, "rounds"), -1))
		k.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
			at := seed + 3*tile
			buf = append(buf, program.Phase{
				Op: program.Work, Time: program.Time(jitter(at, 100)), Read: float64(bytes + jitter(at+1, spread)), Weight: weight,
			})
			if rests > 0 {
				buf = append(buf, program.Phase{Op: program.Sleep, Time: program.Time(jitter(at+2, rests))})
			}
			return buf
		}
		k.Delay = program.Time(rapid.IntRange(0, 500).Draw(t, "delay"))
		streams = append(streams, program.Stream{Commands: []program.Command{k}})
	}
	return prog(streams)
}
