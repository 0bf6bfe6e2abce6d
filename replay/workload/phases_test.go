package workload

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// Steps are apart where they run other kernels and both take longer and work longer by more than half; the classes are by time.
func TestClassify(t *testing.T) {
	type step struct {
		kernel     string
		took, work trace.Time
		phase      Phase
	}
	for _, c := range []struct {
		name  string
		steps []step
		want  []int
	}{
		{"alike", []step{{"a", 10, 9, NoPhase}, {"a", 11, 9, NoPhase}, {"a", 10, 9, NoPhase}}, []int{0, 0, 0}},
		{"the same kernels, one step disturbed", []step{{"a", 10, 9, NoPhase}, {"a", 30, 27, NoPhase}, {"a", 10, 9, NoPhase}}, []int{0, 0, 0}},
		{"other kernels, 1.4 times", []step{{"a", 10, 9, NoPhase}, {"b", 14, 13, NoPhase}, {"a", 10, 9, NoPhase}}, []int{0, 0, 0}},
		{"other kernels, twice the time and the work", []step{{"a", 10, 9, NoPhase}, {"b", 20, 18, NoPhase}, {"a", 10, 9, NoPhase}}, []int{1, 2, 1}},
		{"other kernels, the host is late", []step{{"a", 10, 9, NoPhase}, {"b", 30, 9, NoPhase}, {"a", 10, 9, NoPhase}}, []int{0, 0, 0}},
		{"a program's start", []step{{"b", 30, 27, NoPhase}, {"a", 10, 9, NoPhase}, {"a", 10, 9, NoPhase}}, []int{0, 0, 0}},
		{"in steps of less than half", []step{{"a", 10, 9, Prefill}, {"b", 14, 13, Prefill}, {"c", 20, 19, Prefill}}, []int{0, 0, 0}},
		{"prompts of two lengths, and decodes", []step{{"b", 30, 27, Prefill}, {"a", 2, 2, Decode}, {"a", 2, 2, Decode}, {"c", 300, 270, Prefill}}, []int{1, 0, 0, 2}},
	} {
		w := &Workload{World: 1, Copies: []bool{false}}
		kernels, now := map[string]*Kernel{}, trace.Time(0)
		for i, s := range c.steps {
			k := kernels[s.kernel]
			if k == nil {
				k = &Kernel{Name: s.kernel}
				kernels[s.kernel] = k
			}
			end := now + s.took
			w.Ops = append(w.Ops, Op{ID: int32(i), Kernel: k, Kind: trace.Compute, Collective: -1, Step: int32(i), Start: end - s.work, End: end})
			w.Steps = append(w.Steps, Step{Batch: Batch{Phase: s.phase}})
			now = end
		}
		w.TimeSteps()
		w.Classify()
		for i, s := range w.Steps {
			if s.Class != c.want[i] {
				t.Errorf("%s: step %d is of class %d, want %d", c.name, i, s.Class, c.want[i])
			}
		}
	}
}
