package replay

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// However much larger what comes and goes is than what stays, a total is the sum
// of the steps that are there.
func TestTotalDoesNotDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s stairs
		var sums total
		there := map[int32]step{}
		for i := range int32(rapid.IntRange(1, 40).Draw(t, "rounds") * maxSteps) {
			class, size := int32(jitter(int(i), 20*maxSteps)), rapid.SampledFrom([]float64{1e-6, .1, 3}).Draw(t, "size")
			if jitter(int(i), 5) == 0 {
				class, size = none, boundless
			}
			if x, ok := there[class]; ok {
				s.remove(x.level, class, false)
				sums.add(-x.flow, -x.mass)
				delete(there, class)
			} else {
				x := step{level: size, flow: size / 3, mass: size / 7, class: class}
				s.insert(x)
				sums.add(x.flow, x.mass)
				there[class] = x
			}
			flow, mass := sums.of(s)
			wantFlow, wantMass := s.sum()
			if math.Abs(flow-wantFlow) > 1e-10*wantFlow || math.Abs(mass-wantMass) > 1e-10*wantMass {
				t.Fatalf("after %d changes flow %g, mass %g; want %g, %g", i+1, flow, mass, wantFlow, wantMass)
			}
		}
	})
}
