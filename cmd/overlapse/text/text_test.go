package text

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// The times of a column have the unit of the largest, and none but zero reads as zero.
func TestUnitOfColumn(t *testing.T) {
	for _, c := range []struct {
		times []trace.Time
		unit  string
		want  []string
	}{
		{[]trace.Time{4_256_300, 19_340_000, 880, 0}, "ms", []string{"4.26", "19.34", "<0.01", "0.00"}},
		{[]trace.Time{880, 9_999_900}, "µs", []string{"0.9", "9999.9"}},
		{[]trace.Time{-2_000_000_000, 5_000_000}, "s", []string{"-2.000", "0.005"}},
		{nil, "µs", nil},
	} {
		u := UnitOf(c.times...)
		if u.Name != c.unit {
			t.Errorf("%v: unit %s, want %s", c.times, u.Name, c.unit)
		}
		for i, want := range c.want {
			if got := u.Number(c.times[i]); got != want {
				t.Errorf("%v: %q, want %q", c.times, got, want)
			}
		}
	}
	if u := UnitOf(20_000_000); u.Signed(-3_300_000) != "-3.30" || u.Signed(0) != "0" || u.Signed(5_200_000) != "+5.20" {
		t.Errorf("signed: %s %s %s", u.Signed(-3_300_000), u.Signed(0), u.Signed(5_200_000))
	}
}
