package replay

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// Workgroups that are stepped as one batch, or placed only when something else happens on the GPU,
// do what single ones do, which is what a run that records phases simulates.
func TestBatchesEqualSingleWorkgroups(t *testing.T) {
	postponed := 0
	rapid.Check(t, func(t *rapid.T) {
		m := small(1, rapid.IntRange(1, 12).Draw(t, "CUs"))
		streams := make([]program.Stream, rapid.IntRange(1, 3).Draw(t, "streams"))
		for i := range streams {
			streams[i].Priority = rapid.IntRange(0, 1).Draw(t, "priority")
			for range rapid.IntRange(1, 6).Draw(t, "kernels") {
				streams[i].Commands = append(streams[i].Commands, drawPlain(t))
			}
		}
		p := prog(streams)
		want, err := Simulate(m, p, Options{Level: Phases})
		if err != nil {
			t.Fatal(err)
		}
		s := newSim(&m, p, Options{})
		for s.instant(); s.next(); s.instant() {
			if s.gpus[0].unplaced != none {
				postponed++
			}
		}
		got, err := Simulate(m, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if a, b := kernelsOf(want), kernelsOf(got); !slices.Equal(a, b) || want.Makespan != got.Makespan {
			t.Fatalf("single workgroups: %v\nbatches:           %v", a, b)
		}
	})
	if postponed == 0 {
		t.Error("no kernel was postponed")
	}
}

// drawPlain draws a kernel of one phase of time alone, or of several that move bytes and are slowed
// by the others.
func drawPlain(t *rapid.T) program.Command {
	c := kernel("k", rapid.IntRange(1, 40).Draw(t, "workgroups"), nil,
		threads(rapid.SampledFrom([]int{0, 1, 2, 4, 8}).Draw(t, "threads")),
		pipe(rapid.SampledFrom([]float64{0, .125, .25, .3, .5, 1}).Draw(t, "pipe")))
	c.Delay = program.Time(rapid.IntRange(0, 30).Draw(t, "delay"))
	k := c.Kernel
	k.Matrix = rapid.Bool().Draw(t, "matrix")
	if rapid.IntRange(0, 2).Draw(t, "kind") == 0 {
		k.Kind = rapid.SampledFrom([]trace.Kind{trace.Compute, trace.Collective}).Draw(t, "kind of kernel")
		phases := []program.Phase{
			{Op: program.Sleep, Time: 7},
			{Op: program.Work, Time: program.Time(rapid.IntRange(1, 50).Draw(t, "time")), Read: 500, Slowdown: 3},
			{Op: program.Work, Time: 5},
		}
		k.Recipe = func(_ int, buf []program.Phase) []program.Phase { return append(buf, phases...) }
		return c
	}
	k.Recipe, k.Each = nil, work(program.Time(rapid.IntRange(1, 50).Draw(t, "time")))
	if rapid.Bool().Draw(t, "persistent") {
		k.Tiles, k.Owned = rapid.IntRange(1, 90).Draw(t, "tiles"), rapid.IntRange(-1, 2).Draw(t, "owned")
	}
	return c
}

func kernelsOf(r *Result) (times []trace.Time) {
	for _, s := range r.Run.Spans {
		if s.Kind.OnDevice() {
			times = append(times, s.Start, s.End)
		}
	}
	return times
}
