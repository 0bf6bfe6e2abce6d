package plan

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// The time of an iteration is the median of the distances between ends, of an even number of them the lower of
// the two in the middle: filling and stalls make iterations longer, never shorter.
func TestBetween(t *testing.T) {
	for _, c := range []struct {
		ends []trace.Time
		want trace.Time
	}{
		{[]trace.Time{10, 30}, 20},
		{[]trace.Time{10, 30, 80}, 20},
		{[]trace.Time{10, 60, 80}, 20},
		{[]trace.Time{10, 30, 80, 110}, 30},
		{[]trace.Time{10, 30, 80, 110, 150}, 30},
	} {
		var ran []Interval
		for _, end := range c.ends {
			ran = append(ran, Interval{Start: end - 5, End: end})
		}
		if got := between(ran, func(i Interval) trace.Time { return i.End }); got != c.want {
			t.Errorf("ends %v: %d, want %d", c.ends, got, c.want)
		}
	}
}
