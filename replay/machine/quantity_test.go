package machine

import (
	"math"
	"testing"
)

func TestQuantityString(t *testing.T) {
	for _, s := range []string{"381 GB/s", "4.259 TB/s", "1.375 us", "228 KiB", "103808 B", "0 B", "824.4 TFLOP/s", "0.6299", "132"} {
		parsed := false
		for d := range numDimensions {
			if q, err := parseQuantity(s, d); err == nil {
				parsed = true
				if q.String() != s {
					t.Errorf("%s reads as %s", s, q)
				}
			}
		}
		if !parsed {
			t.Errorf("%s is of no dimension", s)
		}
	}
	q, err := parseQuantity("1.5 us", Span)
	if err != nil || q.Value != 1.5e-6 {
		t.Errorf("1.5 us is %v, %v", q.Value, err)
	}
}

func TestUnitsBelongToOneDimension(t *testing.T) {
	seen := map[string]bool{}
	for _, u := range units {
		if seen[u.name] {
			t.Errorf("%s stands twice", u.name)
		}
		seen[u.name] = true
	}
	for d := range numDimensions {
		if u := UsualUnit(d); u != "" && !seen[u] {
			t.Errorf("%v is written in %s, which is no unit", d, u)
		}
	}
}

func TestTableInterpolation(t *testing.T) {
	points := []point{{1, 10}, {4, 40}, {16, 10}}
	for _, c := range []point{{0.5, 10}, {1, 10}, {2, 20}, {4, 40}, {8, 20}, {16, 10}, {99, 10}} {
		if y := at(points, c.X); off(y, c.Y) > 1e-12 {
			t.Errorf("at %v: %v, want %v", c.X, y, c.Y)
		}
	}
}

func off(got, want float64) float64 { return math.Abs(got/want - 1) }
