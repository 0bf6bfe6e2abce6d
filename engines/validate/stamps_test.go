package validate

import "testing"

// Sorted times move to their peers in order; stretching moves all in proportion.
func TestMover(t *testing.T) {
	if d := mover([]float64{0, 0, 10, 10}, []float64{0, 4, 10, 12}); d != 1.5 {
		t.Errorf("%v, want (0+4+0+2)/4", d)
	}
	if d := mover([]float64{0, 5, 10}, stretched([]float64{0, 10, 20}, 0.5)); d != 0 {
		t.Errorf("%v, want 0", d)
	}
}
