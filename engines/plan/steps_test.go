package plan

import (
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// marked is a workload of one rank; ops are iterations in milliseconds: start and end of a kernel each.
func marked(ops ...[3]trace.Time) *workload.Workload {
	w := &workload.Workload{World: 1, Captured: 1, Rows: []int32{0}, Copies: []bool{false}, Ranks: make([][]int32, 1)}
	for i, op := range ops {
		for len(w.Steps) <= int(op[0]) {
			w.Steps = append(w.Steps, workload.Step{})
		}
		w.Ops = append(w.Ops, workload.Op{
			Kernel: &workload.Kernel{Name: "k"}, ID: int32(i), Collective: -1, Kind: trace.Compute, Step: int32(op[0]), Start: 1e6 * op[1], End: 1e6 * op[2],
		})
		w.Ranks[0] = append(w.Ranks[0], int32(i))
	}
	return w
}

func TestStepTime(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  [][3]trace.Time // iteration, start and end in ms
		want trace.Time      // ms
		out  int             // left out
	}{
		{"a first one that starts cold", [][3]trace.Time{{0, 0, 90}, {1, 90, 140}, {2, 140, 190}}, 50, 0},
		{"three unequal ones: the fastest is the one that nothing disturbed", [][3]trace.Time{{0, 0, 40}, {0, 110, 150}, {1, 150, 190}, {1, 210, 250}, {2, 250, 290}, {2, 430, 470}}, 100, 1},
		{"one of three disturbed", [][3]trace.Time{{0, 0, 100}, {1, 100, 150}, {1, 250, 300}, {2, 300, 405}}, 105, 1},
		{"two of three alike, the fastest another", [][3]trace.Time{{0, 0, 90}, {1, 90, 130}, {1, 190, 240}, {2, 240, 285}, {2, 350, 395}}, 150, 0},
		{"the second of two disturbed, from within", [][3]trace.Time{{0, 0, 60}, {0, 62, 110}, {1, 112, 170}, {1, 285, 333}}, 112, 1},
		{"a pause in front of each", [][3]trace.Time{{0, 0, 10}, {1, 60, 70}, {2, 120, 130}}, 60, 0},
		{"iterations of different work: the median", [][3]trace.Time{{0, 0, 10}, {1, 10, 30}, {1, 30, 50}, {2, 50, 90}}, 40, 0},
		{"a microsecond of overlap is none", [][3]trace.Time{{0, 0, 900}, {1, 899, 1400}, {2, 1400, 1900}}, 500, 0},
		{"an iteration that ends after the next one: they overlap", [][3]trace.Time{{0, 0, 100}, {0, 100, 900}, {1, 860, 880}}, 450, 0},
		{"a pipeline of iterations: the mean", [][3]trace.Time{{0, 0, 100}, {1, 60, 160}, {2, 120, 220}}, 73, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := marked(c.ops...)
			steps := MeasuredSteps(w)
			if got := steps.Time() / 1e6; got != c.want {
				t.Errorf("%d ms, want %d", got, c.want)
			}
			if _, _, out := steps.Disturbed(); out != c.out {
				t.Errorf("%d left out, want %d", out, c.out)
			}
			if is, n := steps.Typical(); n == 1 && is.Length() != steps.Time() {
				t.Errorf("the typical one takes %d ns of %d", is.Length(), steps.Time())
			}
		})
	}
}

// Where a part of what disturbed a captured iteration is simulated, that iteration stands for no other; one that was shorter than
// the others was not disturbed, and without another iteration it is what there is.
func TestDisturbedWhenCaptured(t *testing.T) {
	for _, c := range []struct {
		name                string
		captured, simulated [][3]trace.Time
		want                trace.Time // ms
	}{
		{"nothing disturbed", [][3]trace.Time{{0, 0, 100}, {1, 100, 200}, {2, 200, 304}}, [][3]trace.Time{{0, 0, 90}, {1, 90, 180}, {2, 180, 280}}, 90},
		{"the last of three", [][3]trace.Time{{0, 0, 100}, {1, 100, 200}, {2, 350, 450}}, [][3]trace.Time{{0, 0, 100}, {1, 110, 210}, {2, 215, 315}}, 110},
		{"a short one", [][3]trace.Time{{0, 0, 100}, {1, 180, 280}, {2, 460, 560}, {3, 580, 680}}, [][3]trace.Time{{0, 0, 100}, {1, 100, 200}, {2, 200, 300}, {3, 300, 400}}, 100},
		{"the second of two", [][3]trace.Time{{0, 0, 60}, {0, 62, 110}, {1, 112, 170}, {1, 285, 333}}, [][3]trace.Time{{0, 0, 60}, {0, 62, 110}, {1, 111, 170}, {1, 185, 233}}, 111},
	} {
		steps := MeasuredSteps(marked(c.simulated...))
		steps.late = MeasuredSteps(marked(c.captured...)).disturbed()
		if got := steps.Time() / 1e6; got != c.want {
			t.Errorf("%s: %d ms, want %d", c.name, got, c.want)
		}
	}
}
