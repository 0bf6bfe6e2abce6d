package verdict

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Only what no launch takes is a pause, and only while all streams wait.
func TestStalls(t *testing.T) {
	ms := func(list ...[2]float64) (all []overlap.Interval) {
		for _, x := range list {
			all = append(all, overlap.Interval{Start: trace.Time(1e6 * x[0]), End: trace.Time(1e6 * x[1])})
		}
		return all
	}
	for _, c := range []struct {
		name         string
		busy, late   []overlap.Interval
		sum, longest float64 // ms
	}{
		{"launches", ms([2]float64{0, 1}, [2]float64{1.5, 2}, [2]float64{2.5, 3}), ms([2]float64{1, 1.5}, [2]float64{2, 2.5}), 0, 0},
		{"a pause", ms([2]float64{0, 1}, [2]float64{6, 7}, [2]float64{7.1, 8}), ms([2]float64{1, 6}, [2]float64{7, 7.1}), 5, 5},
		{"one stream waits long, another works", ms([2]float64{0, 3}, [2]float64{3.2, 6}), ms([2]float64{0, 6}), 0, 0},
		{"idle for another cause", ms([2]float64{0, 1}, [2]float64{6, 7}), ms([2]float64{1, 1.2}), 0, 0},
		{"two pauses", ms([2]float64{0, 1}, [2]float64{3, 4}, [2]float64{9, 10}), ms([2]float64{1, 3}, [2]float64{4, 9}), 7, 5},
	} {
		sum, longest := stalls(0, c.busy, c.late)
		if float64(sum) != 1e6*c.sum || float64(longest) != 1e6*c.longest {
			t.Errorf("%s: %d and %d ns, want %v and %v ms", c.name, sum, longest, c.sum, c.longest)
		}
	}
}

// A pause of a few percent is told behind what to change, and once.
func TestShortPausesAreNoHeadline(t *testing.T) {
	w, m := plantest.LiftSample(t, "moe-ep4"), plantest.H200(t, 4)
	captured := enginetest.Outcome(t, w, m, "captured", nil)
	v := Judge(w, captured, nil, nil)
	v.Sentences, v.paused = []string{"what to change"}, "pauses"
	v.waiting(w)
	v.waiting(w)
	if want := []string{"what to change", "pauses"}; !slices.Equal(v.Sentences, want) {
		t.Errorf("%q, want %q", v.Sentences, want)
	}
}
