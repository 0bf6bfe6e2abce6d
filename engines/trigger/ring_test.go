package trigger

import "testing"

// GEMMs that use more of the memory get a lower threshold.
func TestThresholds(t *testing.T) {
	last := 2 * unlimited
	for _, intensity := range []float64{0, 0.3, 0.6, 0.9} {
		if n := threshold(intensity); n >= last {
			t.Errorf("at an intensity of %.1f %d entries, %d below", intensity, n, last)
		} else {
			last = n
		}
	}
}
