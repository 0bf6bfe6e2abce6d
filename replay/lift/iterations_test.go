package lift

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

func TestIterations(t *testing.T) {
	parts := map[byte]part{
		'G': {op: gemm(32, 64, 16)},                    // makes 4096 bytes
		'H': {op: gemm(32, 128, 16)},                   // makes 8192
		'R': comm(trace.AllReduce, trace.None, 0, 640), // of unrelated size
		'S': comm(trace.AllReduce, trace.None, 0, 320),
		'E': comm(trace.AllReduce, trace.None, 0, 4096), // of G's output
		'M': {kind: trace.Copy, copy: trace.Fill, bytes: 4},
	}
	for _, c := range []struct {
		name, text string
		want       string // letters by iteration
		pairs      int
	}{
		{
			"a kernel and a collective of unrelated sizes",
			`0 7 | GG RR GG RR GG RR |
			 1 7 | GG RR GG RR GG RR |`,
			"0G 0R 1G 1R; 0G 0R 1G 1R; 0G 0R 1G 1R", 3,
		},
		{
			"the collective beside the next kernel",
			`0 7  | GGG GGG GGG     |
			 0 19 |    RR  RR  RR   |`,
			"0G 0R; 0G 0R; 0G 0R", 3,
		},
		{
			"several kernels, and more repetitions on the other queue",
			`0 7  | GH.HGH.H |
			 0 19 |  RSRSRSRS|`,
			"0G 0H 0R 0S 0H 0R 0S; 0G 0H 0R 0S 0H 0R 0S", 0,
		},
		{
			"copies belong to the kernel before",
			`0 7  |M GMHMGMHM  |
			 0 19 |      R   R |`,
			"0M 0G 0M 0H 0M 0R; 0G 0M 0H 0M 0R", 0,
		},
		{"one round differs", `0 7 | GG HH RR GG HH RR GG GG RR |`, "", 0},
		{"ranks differ", `0 7 | GH RR GH RR |
		                  1 7 | GHGH RR RR RR |`, "", 0},
		{"one collective", `0 7 | GHGH RR |`, "", 0},
		{
			"layers, of which each needs the one before",
			`0 7 | HH GG EE HH GG EE |`,
			"", 2,
		},
		{
			"a step that the program marks",
			`0 mark |<s#0                  >|
			 0 host | a                     |
			 0 7    | GG HH RR GG HH RR     |`,
			"", 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := lift(t, drawing{text: c.text, parts: parts}, Options{})
			of, n := workload.IterationsOf(w)
			var rounds []string
			for i := range n {
				var ids []int32
				for id, at := range of {
					if at == int32(i) {
						ids = append(ids, int32(id))
					}
				}
				rounds = append(rounds, letters(w, ids))
			}
			got := strings.Join(rounds, "; ")
			if len(w.Steps) > 0 {
				got = ""
			}
			sameText(t, "iterations", got, c.want)
			pairs := 0
			for _, p := range w.Pairs {
				if p.Collective >= 0 {
					pairs++
				}
			}
			if pairs != c.pairs {
				t.Errorf("%d pairs, want %d: %v", pairs, c.pairs, w.Pairs)
			}
		})
	}
}
