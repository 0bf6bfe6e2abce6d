package replay

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// The deadlock that a real machine showed: a tile-synchronised pair whose
// consumers came first and hold every slot while they wait for the producers.
func TestDeadlockOfTileSynchronisedPair(t *testing.T) {
	build := func(consumerFirst bool, producerPriority int) *program.Program {
		p := &program.Program{}
		var rows [8]program.Flag
		for i := range rows {
			rows[i] = p.NewFlag("row " + string(rune('0'+i)))
		}
		producer := kernel("producer", 192, nil)
		producer.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
			return append(buf, program.Phase{Op: program.Work, Time: 100}, program.Phase{Op: program.PostTo, Flag: rows[tile/24], Count: 1})
		}
		consumer := kernel("consumer", 384, nil)
		consumer.Kernel.Recipe = func(tile int, buf []program.Phase) []program.Phase {
			return append(buf, program.Phase{Op: program.WaitFor, Flag: rows[tile/48], Count: 24}, program.Phase{Op: program.Work, Time: 100})
		}
		delay := program.Time(0)
		if consumerFirst {
			delay = 50
		}
		p.GPUs = []program.GPU{{Streams: []program.Stream{
			{Name: "produce", Priority: producerPriority, Commands: []program.Command{{Op: program.Delay, Delay: delay}, producer}},
			{Name: "consume", Commands: []program.Command{consumer}},
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
	swap := func() *program.Program { // two collectives in different order on two ranks
		p := &program.Program{}
		c := func(name string) program.Command {
			f := p.NewFlag(name + " arrived")
			return kernel(name, 1, []program.Phase{{Op: program.PostTo, Flag: f, Count: 1}, {Op: program.WaitFor, Flag: f, Count: 2}})
		}
		x, y := c("X"), c("Y")
		p.GPUs = []program.GPU{
			{Streams: []program.Stream{{Name: "s", Commands: []program.Command{x, y}}}},
			{Streams: []program.Stream{{Name: "s", Commands: []program.Command{y, x}}}},
		}
		return p
	}
	nobody := &program.Program{}
	f := nobody.NewFlag("never")
	nobody.GPUs = []program.GPU{{Streams: []program.Stream{{Name: "s", Commands: []program.Command{{Op: program.Wait, Flag: f, Count: 3}}}}}}
	crossed := &program.Program{}
	a, b := crossed.NewFlag("a"), crossed.NewFlag("b")
	crossed.GPUs = []program.GPU{{Streams: []program.Stream{
		{Name: "s", Commands: []program.Command{{Op: program.Wait, Flag: a, Count: 1}, {Op: program.Post, Flag: b, Count: 1}}},
		{Name: "t", Commands: []program.Command{{Op: program.Wait, Flag: b, Count: 1}, {Op: program.Post, Flag: a, Count: 1}}},
	}}}
	for _, c := range []struct {
		name string
		p    *program.Program
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

// A message has the beginning of a long name, and all of what is between two names.
func TestDeadlockNamesAreCut(t *testing.T) {
	long := "void at::native::" + strings.Repeat("é", 400)
	err := &DeadlockError{At: 7, Chain: []string{fmt.Sprintf("GPU 0: stream %q waits for the end of kernel %q", "host", long), fmt.Sprintf("GPU 0: kernel %q: 1 of 2 workgroups find no slot: held by %q", long, "b")}}
	short := `"void at::native::` + strings.Repeat("é", 60-17) + `…"`
	want := `deadlock at 7 ns: GPU 0: stream "host" waits for the end of kernel ` + short + `; GPU 0: kernel ` + short + `: 1 of 2 workgroups find no slot: held by "b"`
	if got := err.Error(); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// Consumers that come first deadlock with the producers that they wait for when
// they hold every slot, and only then.
func TestDeadlockWhenConsumersHoldEverySlot(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		cus, each := rapid.IntRange(1, 5).Draw(t, "CUs"), rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "slots of each")
		consumers, producers := rapid.IntRange(1, 20).Draw(t, "consumers"), rapid.IntRange(1, 20).Draw(t, "producers")
		at := program.Time(rapid.IntRange(1, 9).Draw(t, "at"))
		p := &program.Program{}
		f := p.NewFlag("produced")
		size := threads(8 / each)
		p.GPUs = []program.GPU{{Streams: []program.Stream{
			{Name: "consume", Commands: []program.Command{kernel("consumer", consumers, []program.Phase{{Op: program.WaitFor, Flag: f, Count: int64(producers)}}, size)}},
			{Name: "produce", Priority: 1, Commands: []program.Command{
				{Op: program.Delay, Delay: at}, kernel("producer", producers, []program.Phase{{Op: program.Work, Time: 10}, {Op: program.PostTo, Flag: f, Count: 1}}, size),
			}},
		}}}
		_, err := Simulate(small(1, cus), p, Options{})
		var deadlock *DeadlockError
		if slots := cus * each; errors.As(err, &deadlock) != (consumers >= slots) {
			t.Fatalf("%d consumers on %d slots: %v", consumers, slots, err)
		}
		if deadlock == nil {
			return
		}
		checkChain(t, deadlock)
		text := strings.Join(deadlock.Chain, "\n")
		who := fmt.Sprintf("%q: %d of %d workgroups find no slot: held by %q", "producer", producers, producers, "consumer")
		if deadlock.At != at || len(deadlock.Chain) != 2 || !strings.Contains(text, who) {
			t.Fatalf("at %d:\n%s\nwant at %d: %s", deadlock.At, text, at, who)
		}
	})
}

// Whoever is named waits for the one who is named next, the last for the first
// or for what nothing would bring about.
func TestDeadlocksNameACycle(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		var deadlock *DeadlockError
		if _, err := Simulate(drawMachine(t, len(p.GPUs)), p, Options{}); errors.As(err, &deadlock) {
			checkChain(t, deadlock)
		}
	})
}

var (
	waiterOf = regexp.MustCompile(`^GPU (\d+): (kernel|stream) ("[^"]*")`)
	posterOf = regexp.MustCompile(` that (kernel|stream) ("[^"]*") of GPU (\d+) would post$`)
	endOf    = regexp.MustCompile(` (?:for the end of kernel|held by) ("[^"]*")$`)
)

func checkChain(t *rapid.T, deadlock *DeadlockError) {
	for i, line := range deadlock.Chain {
		is := waiterOf.FindStringSubmatch(line)
		if is == nil {
			t.Fatalf("who waits? %s", line)
		}
		var want string
		if by := posterOf.FindStringSubmatch(line); by != nil {
			want = fmt.Sprintf("GPU %s: %s %s", by[3], by[1], by[2])
		} else if by := endOf.FindStringSubmatch(line); by != nil {
			want = fmt.Sprintf("GPU %s: kernel %s", is[1], by[1])
		} else if !strings.HasSuffix(line, " that nothing left would post") || i < len(deadlock.Chain)-1 {
			t.Fatalf("for what? %s", line)
		}
		if next := deadlock.Chain[(i+1)%len(deadlock.Chain)]; !strings.HasPrefix(next, want) {
			t.Fatalf("%s\nis followed by\n%s", line, next)
		}
	}
}
