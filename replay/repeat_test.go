package replay

import (
	"reflect"
	"runtime"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// Equal inputs give equal results, whatever ran before, however many processors
// there are, and while others simulate the same program.
func TestRepeatsAreIdentical(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		o := Options{Level: Phases, Causes: true, Limits: true}
		p, m, first := drawRun(t, o)
		again := func() bool {
			r, err := Simulate(m, p, o)
			return err == nil && reflect.DeepEqual(first, r)
		}
		was := runtime.GOMAXPROCS(rapid.IntRange(1, 4).Draw(t, "processors"))
		defer runtime.GOMAXPROCS(was)
		same := [3]bool{}
		var all sync.WaitGroup
		for i := range same {
			all.Go(func() { same[i] = again() })
		}
		all.Wait()
		if same != [3]bool{true, true, true} || !again() {
			t.Fatal("the same program on the same machine gave two results")
		}
	})
}

// Flags are told apart by their numbers, which decide nothing.
func TestNumbersDecideNothing(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p, m, first := drawRun(t, Options{Level: Phases})
		others := append([]program.Flag{program.NoFlag}, rapid.Permutation([]program.Flag{1, 2, 3}).Draw(t, "flags")...)
		names := make([]string, len(others))
		for f, other := range others {
			names[other] = p.Flags.Name(program.Flag(f))
		}
		p.Flags = program.Flags{}
		for _, name := range names[1:] {
			p.NewFlag(name)
		}
		eachPhase(p, func(x *program.Phase) { x.Flag = others[x.Flag] })
		for g := range p.GPUs {
			for _, st := range p.GPUs[g].Streams {
				for i := range st.Commands {
					st.Commands[i].Flag = others[st.Commands[i].Flag]
				}
			}
		}
		second := must.Have(Simulate(m, p, Options{Level: Phases}))(t)
		idle, other := first.Idle(), second.Idle()
		for i := range idle {
			idle[i].Flag = others[idle[i].Flag]
		}
		first.idle, second.idle = idleTimes{}, idleTimes{}
		if !reflect.DeepEqual(first, second) || !reflect.DeepEqual(idle, other) {
			t.Fatalf("%d ns, with other numbers %d", first.Makespan, second.Makespan)
		}
	})
}

// What is recorded does not change what happens.
func TestRecordingObservesOnly(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p, m, deep := drawRun(t, Options{Level: Phases})
		shallow := must.Have(Simulate(m, p, Options{}))(t)
		if shallow.Makespan != deep.Makespan || !reflect.DeepEqual(shallow.Idle(), deep.Idle()) || !reflect.DeepEqual(shallow.Traffic, deep.Traffic) {
			t.Fatalf("makespan %d recording kernels, %d recording phases", shallow.Makespan, deep.Makespan)
		}
	})
}
