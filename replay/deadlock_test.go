package replay

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

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
