package lift

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

// GEMMs of captured graphs have the sizes of the program that was captured (samples/capture/steps.py, serving): exactly
// where the sides follow from collectives, norms, elementwise kernels and grids, else within a quarter, by their time.
func TestShapesInGraphs(t *testing.T) {
	m := machinetest.Load(t, "h200:2")
	for _, c := range []struct {
		trace               string
		rows, hidden, inner int64 // inner: of a rank
		guessed             int   // of the four GEMMs of a layer, those with a side by time
	}{
		{"decode32", 32, 4096, 7168, 1},
		{"decode256", 256, 4096, 7168, 1},
		{"prefill1024", 1024, 4096, 7168, 3},
		{"prefill4096", 4096, 4096, 7168, 3},
		{"prefill16384", 16384, 4096, 7168, 3},
		{"prefill4096_h8192", 4096, 8192, 14336, 3},
	} {
		w := open(t, "samples/measurements/2026-11-24-h200x2-serving/traces/serving_"+c.trace+"_batches1_graphTrue", Options{})
		GuessSizes(w, &m)
		truth := [][2]int64{{3 * c.hidden / 2, c.hidden}, {c.hidden, c.hidden / 2}, {2 * c.inner, c.hidden}, {c.hidden, c.inner}}
		guessed, n := map[workload.Shape]bool{}, 0
		for i := range w.Ops {
			op := &w.Ops[i]
			if !workload.Multiplies(op) || op.Dense {
				continue
			}
			s, want := op.Shape, truth[n%4]
			if n++; s.Guessed != 0 {
				guessed[s] = true
			}
			for side, off := range map[byte]float64{'N': float64(s.N)/float64(want[0]) - 1, 'K': float64(s.K)/float64(want[1]) - 1} {
				if s.M != c.rows || s.Guessed != side && off != 0 || math.Abs(off) > 0.25 {
					t.Errorf("%s: %s is %s, want %d columns and a depth of %d", c.trace, op.Name, s, want[0], want[1])
				}
			}
		}
		if len(guessed) != c.guessed || n == 0 {
			t.Errorf("%s: %d of a layer's GEMMs have a side by time, want %d", c.trace, len(guessed), c.guessed)
		}
	}
}
