package replay

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// The deadlock that a real machine showed: a tile-synchronised pair whose
// consumers came first and hold every slot while they wait for the producers.
func TestDeadlockOfTileSynchronisedPair(t *testing.T) {
	build := func(consumerFirst bool, producerPriority int) *Program {
		p := &Program{}
		var rows [8]Flag
		for i := range rows {
			rows[i] = p.NewFlag("row " + string(rune('0'+i)))
		}
		producer := kernel("producer", 192, nil)
		producer.Kernel.Recipe = func(tile int, buf []Phase) []Phase {
			return append(buf, Phase{Op: Work, Time: 100}, Phase{Op: PostTo, Flag: rows[tile/24], Count: 1})
		}
		consumer := kernel("consumer", 384, nil)
		consumer.Kernel.Recipe = func(tile int, buf []Phase) []Phase {
			return append(buf, Phase{Op: WaitFor, Flag: rows[tile/48], Count: 24}, Phase{Op: Work, Time: 100})
		}
		delay := Time(0)
		if consumerFirst {
			delay = 50
		}
		p.GPUs = []GPU{{Streams: []Stream{
			{Name: "produce", Priority: producerPriority, Commands: []Command{{Op: Delay, Delay: delay}, producer}},
			{Name: "consume", Commands: []Command{consumer}},
		}}}
		return p
	}
	m := small(1, 132)
	if _, err := Simulate(m, build(false, 1), Options{}); err != nil {
		t.Errorf("producer ahead: %v", err)
	}
	_, err := Simulate(m, build(true, 1), Options{})
	var deadlock *DeadlockError
	if !errors.As(err, &deadlock) {
		t.Fatalf("consumer ahead: error %v, want a deadlock", err)
	}
	want := []string{
		`GPU 0: kernel "producer": 192 of 192 workgroups find no slot: held by "consumer"`,
		`GPU 0: kernel "consumer": 132 workgroups hold their slots and wait, the first for flag "row 0" (0 of 24) that kernel "producer" of GPU 0 would post`,
	}
	if !slices.Equal(deadlock.Chain, want) || deadlock.At != 50 {
		t.Errorf("at %d: %s", deadlock.At, strings.Join(deadlock.Chain, "\n"))
	}
}

func TestDeadlockExplanations(t *testing.T) {
	swap := func() *Program { // two collectives in different order on two ranks
		p := &Program{}
		c := func(name string) Command {
			f := p.NewFlag(name + " arrived")
			return kernel(name, 1, []Phase{{Op: PostTo, Flag: f, Count: 1}, {Op: WaitFor, Flag: f, Count: 2}})
		}
		x, y := c("X"), c("Y")
		p.GPUs = []GPU{
			{Streams: []Stream{{Name: "s", Commands: []Command{x, y}}}},
			{Streams: []Stream{{Name: "s", Commands: []Command{y, x}}}},
		}
		return p
	}
	nobody := &Program{}
	f := nobody.NewFlag("never")
	nobody.GPUs = []GPU{{Streams: []Stream{{Name: "s", Commands: []Command{{Op: Wait, Flag: f, Count: 3}}}}}}
	crossed := &Program{}
	a, b := crossed.NewFlag("a"), crossed.NewFlag("b")
	crossed.GPUs = []GPU{{Streams: []Stream{
		{Name: "s", Commands: []Command{{Op: Wait, Flag: a, Count: 1}, {Op: Post, Flag: b, Count: 1}}},
		{Name: "t", Commands: []Command{{Op: Wait, Flag: b, Count: 1}, {Op: Post, Flag: a, Count: 1}}},
	}}}
	for _, c := range []struct {
		name string
		p    *Program
		want string
	}{
		{"collectives in different order", swap(), `
			GPU 0: kernel "X": 1 workgroups hold their slots and wait, the first for flag "X arrived" (1 of 2) that stream "s" of GPU 1 would post
			GPU 1: stream "s" waits for the end of kernel "Y"
			GPU 1: kernel "Y": 1 workgroups hold their slots and wait, the first for flag "Y arrived" (1 of 2) that stream "s" of GPU 0 would post
			GPU 0: stream "s" waits for the end of kernel "X"`},
		{"nobody posts", nobody, `GPU 0: stream "s" waits for flag "never" (0 of 3) that nothing left would post`},
		{"streams in a circle", crossed, `
			GPU 0: stream "s" waits for flag "a" (0 of 1) that stream "t" of GPU 0 would post
			GPU 0: stream "t" waits for flag "b" (0 of 1) that stream "s" of GPU 0 would post`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Simulate(small(len(c.p.GPUs), 1), c.p, Options{})
			var deadlock *DeadlockError
			if !errors.As(err, &deadlock) {
				t.Fatalf("error %v, want a deadlock", err)
			}
			if got := strings.Join(deadlock.Chain, "\n"); got != trim(c.want) {
				got, want := strings.Split(got, "\n"), strings.Split(trim(c.want), "\n")
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) { // a cycle may start anywhere
					t.Errorf("got\n%s", strings.Join(got, "\n"))
				}
			}
		})
	}
}
