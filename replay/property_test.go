package replay

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// drawRun simulates a drawn program; a program that deadlocks is drawn anew.
func drawRun(t *rapid.T, o Options) (*program.Program, machine.Machine, *Result) {
	p := drawProgram(t)
	m := drawMachine(t, len(p.GPUs))
	r, err := Simulate(m, p, o)
	skipDeadlock(t, err)
	return p, m, r
}

// skipDeadlock draws another program if this one deadlocks. Any other error fails.
func skipDeadlock(t *rapid.T, err error) {
	var deadlock *DeadlockError
	if errors.As(err, &deadlock) {
		t.Skip("deadlock")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever the numbers, a simulation ends, in a result or in an error.
func TestExtremesEnd(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		m := drawMachine(t, len(p.GPUs))
		number := func(what string) float64 {
			return rapid.SampledFrom([]float64{0, 5e-324, 1e-300, 1e-6, 1, math.Pi, 1e9, 1e18}).Draw(t, what)
		}
		for i, q := range rates(&m) {
			if rapid.Bool().Draw(t, fmt.Sprint("odd rate ", i)) {
				q.Value = rapid.SampledFrom([]float64{0, 1, math.Pi, 1e9, 1e18}).Draw(t, "rate")
			}
		}
		for i, q := range latencies(&m) {
			if rapid.Bool().Draw(t, fmt.Sprint("odd latency ", i)) {
				q.Value = rapid.SampledFrom([]float64{0, 1e-300, 1e-9, 1, 1e6}).Draw(t, "latency")
			}
		}
		var odd []program.Phase
		for range rapid.IntRange(1, 5).Draw(t, "n") {
			odd = append(odd, program.Phase{
				Op:    rapid.SampledFrom([]program.PhaseOp{program.Work, program.Store, program.Put}).Draw(t, "op"),
				Bytes: number("bytes"), Read: number("read"), Write: number("write"),
				Slowdown: rapid.SampledFrom([]float64{0, 1e-300, 1.5, 1e6}).Draw(t, "beside"),
				Weight:   rapid.SampledFrom([]float64{0, 1e-6, 1, 1e6}).Draw(t, "weight"),
				Time:     rapid.SampledFrom([]program.Time{0, 1, 1 << 30, program.MaxTime - 1}).Draw(t, "time"),
			})
		}
		for g := range p.GPUs {
			for _, st := range p.GPUs[g].Streams {
				for _, c := range st.Commands {
					if c.Copy != nil {
						c.Copy.Bytes = number("bytes of a copy")
					}
					if c.Kernel != nil {
						c.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
							x := odd[tile%len(odd)]
							x.Peer = int32((g + tile) % len(p.GPUs))
							return append(buf, x)
						}
					}
				}
			}
		}
		if r, err := Simulate(m, p, Options{}); err == nil && r.Makespan < 0 {
			t.Fatalf("makespan %d", r.Makespan)
		}
	})
}

// Workgroups of a kernel of lower priority that run when one of higher
// priority comes run on; only what has not been placed stands back.
func TestPriorityNeverPreempts(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		low := rapid.IntRange(1, 12).Draw(t, "low")
		high := rapid.IntRange(1, 12).Draw(t, "high")
		cus := rapid.IntRange(1, 4).Draw(t, "cus")
		at := program.Time(rapid.IntRange(1, 25).Draw(t, "at"))
		p := prog([]program.Stream{
			{Name: "low", Commands: []program.Command{kernel("low", low, work(10))}},
			{Name: "high", Priority: 1, Commands: []program.Command{{Op: program.Delay, Delay: at}, kernel("high", high, work(7))}},
		})
		r := must.Have(Simulate(small(1, cus), p, Options{Level: Workgroups}))(t)
		lastHigh := program.Time(0)
		for _, s := range r.Run.Spans {
			if s.Kind == trace.Workgroup && r.Run.NameOf(s) == "high" {
				lastHigh = max(lastHigh, s.Start)
			}
		}
		for _, s := range r.Run.Spans {
			if s.Kind != trace.Workgroup || r.Run.NameOf(s) != "low" {
				continue
			}
			if s.Dur() != 10 {
				t.Fatalf("a workgroup of low ran from %d to %d", s.Start, s.End)
			}
			if s.Start > at && s.Start < lastHigh {
				t.Fatalf("low started at %d, high had workgroups waiting from %d to %d", s.Start, at, lastHigh)
			}
		}
	})
}

// Collective kernels on any ranks, with any channels, behind whatever holds the
// slots: no member stores anything before the last of all is there, then all do
// at once, and each holds its slot to the end.
func TestGangsMoveTogether(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		ranks := rapid.IntRange(2, 5).Draw(t, "ranks")
		channels := rapid.IntRange(1, 4).Draw(t, "channels")
		steps := rapid.IntRange(1, 3).Draw(t, "steps")
		m := small(ranks, rapid.IntRange(channels, channels+2).Draw(t, "CUs"))
		p := &program.Program{GPUs: make([]program.GPU, ranks)}
		var phases []program.Phase
		for range steps {
			f := p.NewFlag("arrived")
			phases = append(phases,
				program.Phase{Op: program.PostTo, Flag: f, Count: 1, Time: 7},
				program.Phase{Op: program.WaitFor, Flag: f, Count: int64(ranks * channels)},
				program.Phase{Op: program.Store, Bytes: 1000})
		}
		for g := range p.GPUs {
			gang := kernel("gang", channels, nil, func(k *program.Kernel) { k.Kind = trace.Collective })
			gang.Kernel.Recipe = func(_ int, buf []program.Phase) []program.Phase {
				buf = append(buf, phases...)
				for i := range buf {
					buf[i].Peer = int32((g + 1) % ranks)
				}
				return buf
			}
			gang.Delay = program.Time(rapid.IntRange(0, 40).Draw(t, "comes"))
			before := kernel("before", rapid.IntRange(0, 6).Draw(t, "before"), work(program.Time(rapid.IntRange(1, 30).Draw(t, "takes"))))
			p.GPUs[g].Streams = []program.Stream{{Commands: []program.Command{before}}, {Queue: 1, Commands: []program.Command{gang}}}
		}
		r := must.Have(Simulate(m, p, Options{Level: Phases}))(t)
		last, stores, ends := program.Time(0), map[program.Time]int{}, map[program.Time]int{}
		for _, s := range r.Run.Spans {
			switch {
			case s.Kind == trace.PhaseStore:
				stores[s.Start]++
			case s.Kind == trace.Workgroup && r.Run.NameOf(s) == "gang":
				last = max(last, s.Start)
				ends[s.End]++
			}
		}
		// Every step: 7 until the flags are seen, then 1000 bytes of each channel through an egress of 100 a nanosecond.
		all, took := ranks*channels, program.Time(10*channels)
		for i := range program.Time(steps) {
			if at := last + 7 + i*(7+took); stores[at] != all {
				t.Fatalf("the last member came at %d; %d of %d store at %d: %v", last, stores[at], all, at, stores)
			}
		}
		if end := last + program.Time(steps)*(7+took); ends[end] != all {
			t.Fatalf("slots are given back at %v, want all %d at %d", ends, all, end)
		}
	})
}
