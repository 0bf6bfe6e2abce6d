package cli

import (
	"strings"
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

// Sentences are wrapped between words, a number stays with its unit, and long words stay whole.
func TestWrapped(t *testing.T) {
	long := strings.Repeat("x", 120)
	for in, want := range map[string]string{
		"short line": "short line",
		strings.Repeat("a", 93) + " 12.5 %, rest":               strings.Repeat("a", 93) + "\n  12.5 %, rest",
		strings.Repeat("a", 60) + " " + long + " b":             strings.Repeat("a", 60) + "\n  " + long + "\n  b",
		strings.Repeat("µ", 50) + " " + strings.Repeat("b", 47): strings.Repeat("µ", 50) + " " + strings.Repeat("b", 47),
	} {
		if got := wrapped(in, 2, 100); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestShellWords(t *testing.T) {
	if got, want := ShellWords([]string{"replay", "a b/x", "it's", "--machine=h200:4", ""}), `replay 'a b/x' 'it'\''s' --machine=h200:4 ''`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
