package lift

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
)

// stepsOf names the steps with their operations: "s#0: 0A 1A".
func stepsOf(w *workload.Workload) string {
	var list []string
	for at, step := range w.Steps {
		var ids []int32
		for i := range w.Ops {
			if w.Ops[i].Step == int32(at) {
				ids = append(ids, int32(i))
			}
		}
		list = append(list, step.Name+": "+letters(w, ids))
	}
	return strings.Join(list, "; ")
}

// An iteration is what all ranks ran at one time under marks of one number.
func TestStepsOfRanks(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
		apart            int // operations in marked iterations that are none
	}{
		{
			"the same numbers",
			`0 mark |<s#0    ><s#1    >|
			 0 host | a        b       |
			 0 19   |  CCCCC    DDDDD  |
			 1 mark |<s#0    ><s#1    >|
			 1 host | c        d       |
			 1 19   |   CCCC     DDDD  |`,
			"s#0: 0C 1C; s#1: 0D 1D", 0,
		},
		{
			"one rank recorded another step in front",
			`0 mark |<s#1    ><s#2    >|
			 0 host | a        b       |
			 0 19   |  CCCCC    DDDDD  |
			 1 mark |         <s#2    >|
			 1 host |          d       |
			 1 19   |           DDDDD  |`,
			"s#2: 0D 1D", 1,
		},
		{
			"numbers off by one: the shared one ran at different times",
			`0 mark |<s#1    ><s#2    >|
			 0 host | a        b       |
			 0 19   |  CCCCC    DDDDD  |
			 1 mark |<s#2    ><s#3    >|
			 1 host | c        d       |
			 1 19   |   CCCC     DDDD  |`,
			"", 4,
		},
		{
			"no number in common",
			`0 mark |<s#1    ><s#2    >|
			 0 host | a        b       |
			 0 19   |  CCCCC    DDDDD  |
			 1 mark |<s#7    ><s#8    >|
			 1 host | c        d       |
			 1 19   |   CCCC     DDDD  |`,
			"", 4,
		},
		{
			"a mark under which nothing was launched is no damage",
			`0 mark |<s#0    ><s#1    >|
			 0 host | a        b       |
			 0 19   |  CCCCC    DDDDD  |
			 1 mark |<s#0 ><s#1>< s#2 >|
			 1 host | c     d          |
			 1 19   |   CCCC   DDDDDD  |`,
			"s#0: 0C 1C; s#1: 0D 1D", 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.NewReplacer(" a ", " c ", " b ", " d ").Replace(c.text)
			w := lift(t, drawing{text: text, parts: comms}, Options{})
			if got := stepsOf(w); got != c.want {
				t.Errorf("steps %q, want %q", got, c.want)
			}
			said := strings.Contains(strings.Join(w.Damage.Sentences, "\n"), "did not run on all ranks at one time")
			if w.Damage.Apart != c.apart || said != (c.apart > 0) {
				t.Errorf("%d operations apart, want %d: %q", w.Damage.Apart, c.apart, w.Damage.Sentences)
			}
		})
	}
}
