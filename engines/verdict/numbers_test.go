package verdict

import (
	"math"
	"testing"
)

// The scales of the distribution of changes are those that measured rows gave (rule E8), written out here: an
// edit of a constant must not pass unseen.
func TestScales(t *testing.T) {
	m := Model{Kernels: 0.02, Order: 0.02, Unknown: 0.1}
	scale := func(e Evidence) float64 {
		_, scale := m.errorOf(0, e)
		return scale
	}
	for _, c := range []struct {
		name string
		e    Evidence
		want float64
	}{
		{"two runs of one schedule differ by 0.6 %", Evidence{OtherKernels: true}, math.Sqrt(0.006*0.006 + 0.02*0.02)},
		{"which is left where everything else is known", Evidence{OtherKernels: true, Rest: 1}, 0.006},
		{"ranks that were not captured widen the rest by a tenth", Evidence{OtherKernels: true, Copied: true}, math.Sqrt(0.006*0.006 + 0.022*0.022)},
	} {
		if got := scale(c.e); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: scale %.6f, want %.6f", c.name, got, c.want)
		}
	}
	if got, want := m.unknown(Evidence{}), math.Sqrt(0.006*0.006+0.1*0.1); math.Abs(got-want) > 1e-12 {
		t.Errorf("scale of a prediction that does not hold %.6f, want %.6f", got, want)
	}
}
