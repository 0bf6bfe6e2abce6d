package replay

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Steps stay in order, and those held back stay all that lie behind a place.
func TestStairsAreSorted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s stairs
		there := map[int32]step{}
		for range rapid.IntRange(1, 100).Draw(t, "changes") {
			class := int32(rapid.IntRange(0, 20).Draw(t, "class"))
			x, ok := there[class]
			if ok {
				s.remove(x.level, class, s.find(x.level, class) >= len(s.steps)-s.held)
				delete(there, class)
			} else {
				x = step{level: float64(rapid.IntRange(1, 9).Draw(t, "level")), flow: 2, mass: 1, class: class}
				last := len(s.steps) - s.held
				if held := s.insert(x); held != (s.find(x.level, class) > last) {
					t.Fatalf("step %v held back: %t", x, held)
				}
				there[class] = x
			}
			if rapid.IntRange(0, 3).Draw(t, "hold") == 0 {
				s.held = rapid.IntRange(0, len(s.steps)).Draw(t, "held")
			}
			sorted := slices.IsSortedFunc(s.steps, func(a, b step) int { return int(2*(a.level-b.level)) + int(a.class-b.class)/100 })
			flow, mass := s.sum()
			if n := float64(len(there)); !sorted || s.held < 0 || s.held > len(s.steps) || flow != 2*n || mass != n {
				t.Fatalf("%v of %v: flow %g, mass %g", s, there, flow, mass)
			}
		}
	})
}
