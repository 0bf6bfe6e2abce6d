package lift

import (
	"fmt"
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
			"marked above the device only: the rank recorded a part of it",
			`0 mark |<s#0    ><s#1    >|
			 0 host | a        b       |
			 0 19   |  CCCCC    DDDDD  |
			 1 mark |         <s#1    >|
			 1 host | c        d       |
			 1 mark'| <s#0  >          |
			 1 19   |   CCCC     DDDD  |`,
			"s#1: 0D 1D", 1,
		},
		{
			"a rank that marks above the device only",
			`0 mark |<s#0    ><s#1    >|
			 0 host | a        b       |
			 0 19   |  CCCCC    DDDDD  |
			 1 host | c        d       |
			 1 mark'|  <s#0  > <s#1   >|
			 1 19   |   CCCC     DDDD  |`,
			"s#0: 0C 1C; s#1: 0D 1D", 0,
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

// A rank that marks no iteration while another does took part in none that is known.
func TestRankWithoutMarks(t *testing.T) {
	for mark, want := range map[string]int{"": 2, "1 mark |<s#0    ><s#1    >|\n": 0} {
		w := lift(t, drawing{text: `0 mark |<s#0    ><s#1    >|
			0 host | c        d       |
			0 19   |  CCCCC    DDDDD  |
			` + mark + `1 host | c        d       |
			1 19   |   CCCC     DDDD  |`, parts: comms}, Options{})
		said := strings.Contains(strings.Join(w.Damage.Sentences, "\n"), "no iteration is marked on 1 rank")
		if w.Damage.Apart != want || said != (want > 0) {
			t.Errorf("%q: %+v", mark, w.Damage)
		}
	}
}

// A step that is short on one rank was cut there; one that is short on all, or beside steps that differ, was not.
func TestCutSteps(t *testing.T) {
	for _, c := range []struct {
		name, one, zero string // by step, the kernels of rank 1 and of rank 0
		want            int    // missing
	}{
		{"as all", "AB CD EF", "AB CD EF", 0},
		{"the last of rank 1", "AB CD E ", "AB CD EF", 1},
		{"the last of all", "AB CD E ", "AB CD E ", 2},
		{"the second of all", "AB C  EF", "AB C  EF", 2},
		{"the first of two", "A  CD", "AB CD", 1},
		{"the last of two", "AB C ", "AB CD", 1},
		{"steps that differ", "AB C  E ", "AB CD EF", 0},
		{"the first of rank 1", "A  CD EF", "AB CD EF", 0},
		{"of a stage with fewer kernels", "A  C  E ", "AB CD EF", 0},
		{"the first of two, without reductions", "G  HR", "G  HR", 0},
		{"the first of two, without products", "Q  HR", "Q  HR", 2},
	} {
		rows := func(kernels string) string {
			host := strings.Map(func(r rune) rune {
				if r == ' ' {
					return ' '
				}
				return r + 'a' - 'A'
			}, kernels)
			return fmt.Sprintf("%%[1]d mark |<s#0><s#1><s#2>|\n%%[1]d host |%s |\n%%[1]d 7 | %s |\n", spread(host), spread(kernels))
		}
		names := map[byte]part{'G': {name: "gemm"}, 'H': {name: "gemm"}, 'Q': {name: "multi_tensor_apply"}, 'R': {name: "multi_tensor_apply"}}
		w := lift(t, drawing{text: fmt.Sprintf(rows(c.zero), 0) + fmt.Sprintf(rows(c.one), 1), parts: names}, Options{})
		if w.Damage.Missing != c.want {
			t.Errorf("%s: %+v", c.name, w.Damage)
		}
	}
}

// spread draws steps of two kernels in five columns each.
func spread(kernels string) string {
	var b strings.Builder
	for step := range strings.SplitSeq(kernels, " ") {
		if step != "" {
			fmt.Fprintf(&b, " %-2s  ", step)
		}
	}
	return b.String()
}

// A range inside another one is of the same step; a step that a recording cut has a part of its collectives.
func TestPartsOfSteps(t *testing.T) {
	for _, c := range []struct {
		name, text, want, note string
	}{
		{
			"ranges inside one another",
			`0 mark |<execute_9_context_1(9)_generation_0(0)   ><execute_9_context_1(9)_generation_0(0)   >|
			 0 mark |   <step[EXTEND bs=1 toks=9]>                 <step[EXTEND bs=1 toks=9]>              |
			 0 host |  a   b                                     c    d                                    |
			 0 7    |    AA BB                                     CC  DD                                  |`,
			"execute_9_context_1(9)_generation_0(0): 0A 0B; execute_9_context_1(9)_generation_0(0): 0C 0D", "",
		},
		{
			"the first of three is a fragment",
			`0 mark |<s#0   ><s#1        ><s#2        >|
			 0 host | ac      bd   e       fg   h      |
			 0 7    |  A       B            F          |
			 0 19   |   C       D   E        G   H     |`,
			"s#1: 0B 0D 0E; s#2: 0F 0G 0H", "s#0 has 1 of the 2 collectives that each other step has: a fragment, no step",
		},
		{
			"the last of three is a fragment",
			`0 mark |<s#0        ><s#1        ><s#2  >|
			 0 host | bd   e       fg   h      ac     |
			 0 7    |  B            F           A     |
			 0 19   |   D   E        G   H       C    |`,
			"s#0: 0B 0D 0E; s#1: 0F 0G 0H", "s#2 has 1 of the 2 collectives that each other step has: a fragment, no step",
		},
		{
			"of two, nothing tells which is whole",
			`0 mark |<s#0   ><s#1        >|
			 0 host | ac      bd   e      |
			 0 7    |  A       B          |
			 0 19   |   C       D   E     |`,
			"s#0: 0A 0C; s#1: 0B 0D 0E", "",
		},
		{
			"steps without collectives accumulate gradients",
			`0 mark |<s#0   ><s#1        ><s#2        >|
			 0 host | a       bd   e       fg   h      |
			 0 7    |  A       B            F          |
			 0 19   |           D   E        G   H     |`,
			"s#0: 0A; s#1: 0B 0D 0E; s#2: 0F 0G 0H", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := lift(t, drawing{text: c.text, parts: map[byte]part{'C': {comm: allReduce}, 'D': {comm: allReduce}, 'E': {comm: allReduce}, 'G': {comm: allReduce}, 'H': {comm: allReduce}}}, Options{})
			if got := stepsOf(w); got != c.want {
				t.Errorf("steps %q, want %q", got, c.want)
			}
			note := ""
			for _, n := range w.Notes {
				if strings.Contains(n, "fragment") {
					note = n
				}
			}
			if note != c.note {
				t.Errorf("note %q, want %q", note, c.note)
			}
		})
	}
}
