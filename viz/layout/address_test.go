package layout

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// Any address is read as it was written.
func TestAddressIsReadAsWritten(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		time := func(what string) trace.Time { return trace.Time(rapid.Int64Range(-1<<50, 1<<50).Draw(t, what)) }
		a := Address{
			Strategy: rapid.String().Draw(t, "strategy"), Show: rapid.String().Draw(t, "show"), Row: rapid.String().Draw(t, "row"),
			Kernel: rapid.String().Draw(t, "kernel"), Find: rapid.String().Draw(t, "find"), Rank: rapid.IntRange(0, 1000).Draw(t, "rank"),
		}
		if rapid.Bool().Draw(t, "part") {
			a.Window.From = time("from")
			a.Window.To = a.Window.From + 1 + trace.Time(rapid.Int64Range(0, 1<<50).Draw(t, "length"))
		}
		if a.Selected = rapid.Bool().Draw(t, "selected"); a.Selected {
			a.At = time("at")
		}
		got, err := ParseAddress(a.String())
		if err != nil || got != a {
			t.Fatalf("%q is %+v, %v; want %+v", a.String(), got, err, a)
		}
	})
}

func TestAddressErrors(t *testing.T) {
	for text, want := range map[string]string{
		"t=5ms":     `address: t: "5ms" is no range (write one like 1.2ms-3ms)`,
		"t=5ms-1ms": `address: t: "5ms-1ms" ends before it starts`,
		"t=1-2sm":   `address: t: unit "sm" (write ns, us, ms or s)`,
		"at=x":      `address: at: time "x" (write one like 12.5 ms)`,
		"rank=-1":   `address: rank: "-1" is no rank`,
		"color=red": `address: no part "color" (there are strategy, show, rank, kernel, t, find, row and at)`,
		"show=%zz":  `address: show: invalid URL escape "%zz"`,
	} {
		if _, err := ParseAddress(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
