package plan

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// What runs before a single iteration and behind it is not of it.
func TestSteady(t *testing.T) {
	one := marked([3]trace.Time{0, 0, 10}, [3]trace.Time{0, 40, 60}, [3]trace.Time{0, 90, 95})
	one.Ops[0].Step, one.Ops[2].Step = -1, -1
	if got, want := MeasuredSteps(one).Steady()[0], (Interval{Start: 40e6, End: 60e6}); got != want {
		t.Errorf("one iteration: %v, want %v", got, want)
	}
	two := marked([3]trace.Time{0, 0, 10}, [3]trace.Time{1, 20, 30})
	if got, want := MeasuredSteps(two).Steady()[0], (Interval{Start: 10e6, End: 30e6}); got != want {
		t.Errorf("two iterations: %v, want %v", got, want)
	}
}
