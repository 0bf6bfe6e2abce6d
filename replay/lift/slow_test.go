package lift

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// Collectives are slow that take more than three times the law in every step with nothing beside them. Two columns are the law.
func TestSlowCollectives(t *testing.T) {
	known := func(*machine.Machine) {}
	for _, c := range []struct {
		name, text string
		change     func(m *machine.Machine)
		want       string
	}{
		{"in both steps", `0 7 | CCCCCCCC A DDDDDDD A`, known, "[all_reduce 3.7 times in 2]"},
		{"in one step", `0 7 | CCCCCCCC A DD      A`, known, "[]"},
		{"twice the law", `0 7 | CCCC     A DDDD    A`, known, "[]"},
		{"starved by compute beside it", "0 7 | CCCCCCCC A DDDDDDD A\n0 8 | BBBBBBB    BBBBBBB  ", known, "[]"},
		{"a wait for a captured rank", "0 7 | CCCCCCCC A DDDDDDD A\n1 7 |       CC A      DD A", known, "[]"},
		{"between captured ranks", "0 7 | CCCCCCCC A DDDDDDD A\n1 7 | CCCCCCCC A DDDDDDD A", known, "[all_reduce 3.7 times in 2]"},
		{"on a GPU that is a guess", `0 7 | CCCCCCCC A DDDDDDD A`, func(m *machine.Machine) { m.Guess = "no name" }, "[]"},
		{"on another GPU", `0 7 | CCCCCCCC A DDDDDDD A`, func(m *machine.Machine) { m.GPU.Name = "NVIDIA A100-SXM4-80GB" }, "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := must.Have(machine.Load("h200:2"))(t)
			ranks := []trace.Rank{{World: 2}, {ID: 1, World: 2}}[:strings.Count(c.text, "7 |")]
			w := lift(t, drawing{
				text: strings.ReplaceAll(c.text, "\n", " |\n") + " |", ranks: ranks, device: h200, groups: []trace.Group{{Name: "0", Ranks: []int{0, 1}, Size: 2}},
				parts: map[byte]part{'C': comm(trace.AllReduce, 0, 0, 1<<20), 'D': comm(trace.AllReduce, 0, 1, 1<<20)},
			}, Options{})
			c.change(&m)
			unit := trace.Time(m.Library.Time(trace.AllReduce, 1<<20, 2, w.Collectives[0].Channels)*1e9) / 2
			w.Steps = make([]workload.Step, 2)
			for i := range w.Ops {
				op := &w.Ops[i]
				if op.Start >= 10*column {
					op.Step = 1
				} else {
					op.Step = 0
				}
				op.Start, op.End = op.Start/column*unit, op.End/column*unit
			}
			for i := range w.Collectives {
				w.Collectives[i].Late = 0 // of the text's times
			}
			list := []string{}
			for _, s := range SlowCollectives(w, &m) {
				list = append(list, fmt.Sprintf("%s %.1f times in %d", s.Op, float64(s.Took)/float64(s.Law), s.Iterations))
			}
			if got := fmt.Sprint(list); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
