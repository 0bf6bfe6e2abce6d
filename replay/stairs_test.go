package replay

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Stairs find, sum and climb as a sorted list does, and what is held back
// stays all that lies behind a place.
func TestStairsAreASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s stairs
		var model []step
		held := 0 // of model, at its end
		place := func(x step) (int, bool) {
			return slices.BinarySearchFunc(model, x, func(a, b step) int {
				if a.level < b.level || a.level == b.level && a.class < b.class {
					return -1
				}
				if a.level == b.level && a.class == b.class {
					return 0
				}
				return 1
			})
		}
		size := rapid.SampledFrom([]int{3, 40, 400}).Draw(t, "classes")
		for range 3 * size {
			x := step{
				level: float64(rapid.IntRange(1, size/2).Draw(t, "level")),
				flow:  float64(rapid.IntRange(1, 9).Draw(t, "flow")),
				mass:  float64(rapid.IntRange(1, 9).Draw(t, "mass")),
				class: int32(rapid.IntRange(0, 2).Draw(t, "class")),
			}
			at, there := place(x)
			switch {
			case !there:
				want := at > len(model)-held
				if got := s.insert(x); got != want {
					t.Fatalf("step %v held back: %t, want %t", x, got, want)
				}
				if want {
					held++
				}
				model = slices.Insert(model, at, x)
			case rapid.Bool().Draw(t, "set"):
				s.set(x)
				model[at] = x
			default:
				is := at >= len(model)-held
				s.remove(x.level, x.class, is)
				if is {
					held--
				}
				model = slices.Delete(model, at, at+1)
			}
			if rapid.IntRange(0, 9).Draw(t, "hold") == 0 {
				level := float64(rapid.IntRange(0, size/2).Draw(t, "up to"))
				_, _, from := s.climb(stair{}, level)
				held = 0
				for i := range s {
					s[i].held = s[i].after(i, from)
					held += s[i].held
				}
				if !s.holdsFrom(from) {
					t.Fatalf("the steps held back do not begin at %v", from)
				}
			}
			checkStairs(t, s, model, held)
		}
	})
}

func checkStairs(t *rapid.T, s stairs, model []step, held int) {
	var all []step
	back := 0
	for _, b := range s {
		if len(b.steps) == 0 || len(b.steps) >= maxSteps || back > 0 && b.held < len(b.steps) {
			t.Fatalf("a block of %d steps, %d held back after %d", len(b.steps), b.held, back)
		}
		all = append(all, b.steps...)
		back += b.held
	}
	if !slices.Equal(all, model) || back != held {
		t.Fatalf("steps %v, %d held back; want %v, %d", all, back, model, held)
	}
	flow, mass := s.sum()
	upTo := math.Inf(1)
	if len(model) > 0 {
		at := rapid.IntRange(0, len(model)-1).Draw(t, "climb to")
		upTo = model[at].level
	}
	var wantFlow, wantMass, climbed float64
	for _, x := range model {
		wantFlow += x.flow
		wantMass += x.mass
		if x.level <= upTo {
			climbed += x.flow
		}
	}
	if flow != wantFlow || mass != wantMass {
		t.Fatalf("sums %g, %g; want %g, %g", flow, mass, wantFlow, wantMass)
	}
	got, _, to := s.climb(stair{}, upTo)
	behind := 0
	for i := range s {
		behind += s[i].after(i, to)
	}
	if s.holdsFrom(to) != (behind == held) {
		t.Fatalf("%d steps behind %v, %d held back; holdsFrom: %t", behind, to, held, s.holdsFrom(to))
	}
	if got != climbed || int(to.block) < len(s) && s.at(to).level <= upTo {
		t.Fatalf("flow up to level %g: %g, want %g", upTo, got, climbed)
	}
}
