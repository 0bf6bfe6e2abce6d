package lift

import (
	"strings"
	"testing"
)

// What the device still had to do when the profiler began is of no step; launches that are lost later are no lead.
func TestLead(t *testing.T) {
	for _, c := range []struct {
		name, text string
		steps      string // operations by step
		note       string
	}{
		{
			"the device was behind its host",
			`0 mark |     <s#0      ><s#1      >     |
			 0 host |      a c       b              |
			 0 7    |XXXXXXXXYYYYYAAA   BBB         |
			 0 19   |     ZZZZZZZ    CC             |`,
			"0A 0C; 0B",
			"3 operations launched before the profiler recorded (the device was up to 0.007 ms behind its host): of no step, left out",
		},
		{
			"each rank as far as it was behind",
			`0 host |      a    b    |
			 0 7    |XXXXXXX AAA  BBB|
			 1 host |      d    e    |
			 1 7    |      DDD   EEE |`,
			"", "1 operation launched before",
		},
		{
			"an operation of a lost launch behind the first recorded one stays",
			`0 mark |  <s#0          >|
			 0 host |   a  b   d      |
			 0 7    |  AAA XX BBB DDD |`,
			"0A 0X 0B 0D", "",
		},
		{
			"a stream without recorded launches, beside one with them",
			`0 mark |   <s#0          >|
			 0 host |    a  b   d      |
			 0 7    |      AAA BBB DDD |
			 0 19   | XX               |`,
			"0A 0B 0D", "1 operation launched before",
		},
		{
			"where most launches are not recorded, nothing tells",
			`0 mark |<s#0                  >|
			 0 host |   a                   |
			 0 7    |XXX AAA YYY ZZZ WWW    |`,
			"0X 0A 0Y 0Z 0W", "",
		},
		{
			"no launch is recorded",
			`0 mark |<s#0     >|
			 0 7    |XXX YYY   |`,
			"0X 0Y", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := lift(t, drawing{text: c.text, parts: comms}, Options{})
			var steps []string
			for at := range w.Steps {
				var ids []int32
				for i := range w.Ops {
					if w.Ops[i].Step == int32(at) {
						ids = append(ids, int32(i))
					}
				}
				steps = append(steps, letters(w, ids))
			}
			if got := strings.Join(steps, "; "); got != c.steps {
				t.Errorf("steps %q, want %q", got, c.steps)
			}
			note := ""
			for _, n := range w.Notes {
				if strings.Contains(n, "launched before") {
					note = n
				}
			}
			if !strings.HasPrefix(note, c.note) || c.note == "" && note != "" {
				t.Errorf("note %q, want %q", note, c.note)
			}
		})
	}
}
