package layout

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// An Axis is labelled ticks at round times. Labels are relative to Base, which
// is 0 unless the window is short and far from 0: "12.345 s +" and then
// "120 ns", "130 ns", so that labels are short at every zoom.
type Axis struct {
	Base  trace.Time
	Label string // of the base: "12.345 s +", "" if Base is 0
	Step  trace.Time
	Ticks []tick // ascending, inside the window
}

// A tick is a place on the axis.
type tick struct {
	At    trace.Time
	Label string
}

type unit struct {
	name string
	ns   trace.Time
}

var units = []unit{{"ns", 1}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}}

// unitFor is the largest unit of which the time holds at least one.
func unitFor(t trace.Time) unit {
	u := units[0]
	for _, v := range units {
		if t >= v.ns {
			u = v
		}
	}
	return u
}

// Ticks places at most so many ticks, and at least one where a multiple of a
// nice step lies in the window. Steps are 1, 2 or 5 times a power of ten nanoseconds.
func Ticks(w Window, most int) Axis {
	step := niceStep(w.Len(), most)
	u := unitFor(w.Len())
	a := Axis{Step: step}
	if group := 1000 * u.ns; w.From >= group && u.ns < 1e9 {
		a.Base = w.From / group * group
		a.Label = Exact(a.Base) + " +"
	}
	decimals := 0
	for unit := u.ns; unit > step; unit /= 10 {
		decimals++
	}
	first := w.From / step * step
	if first < w.From {
		first += step
	}
	for at := first; at < w.To && len(a.Ticks) < most; at += step {
		label := strconv.FormatFloat(float64(at-a.Base)/float64(u.ns), 'f', decimals, 64)
		a.Ticks = append(a.Ticks, tick{at, label + " " + u.name})
	}
	return a
}

func niceStep(length trace.Time, most int) trace.Time {
	for power := trace.Time(1); ; power *= 10 {
		for _, m := range []trace.Time{1, 2, 5} {
			if length <= trace.Time(max(most, 1))*m*power || power > math.MaxInt64/100 {
				return m * power
			}
		}
	}
}

// Exact writes a time in its natural unit without rounding: "1.234567 ms".
func Exact(t trace.Time) string {
	if t < 0 {
		return "-" + Exact(-t)
	}
	u := unitFor(t)
	s := strconv.FormatInt(int64(t/u.ns), 10)
	if rest := t % u.ns; rest != 0 {
		digits := len(strconv.FormatInt(int64(u.ns), 10)) - 1
		s += "." + strings.TrimRight(fmt.Sprintf("%0*d", digits, rest), "0")
	}
	return s + " " + u.name
}

// Short writes a time with four digits: "1.235 ms".
func Short(t trace.Time) string {
	if t < 0 {
		return "-" + Short(-t)
	}
	u := unitFor(t)
	v := float64(t) / float64(u.ns)
	switch {
	case u.ns == 1 || v >= 1000:
		return fmt.Sprintf("%.0f %s", v, u.name)
	case v >= 100:
		return fmt.Sprintf("%.1f %s", v, u.name)
	case v >= 10:
		return fmt.Sprintf("%.2f %s", v, u.name)
	}
	return fmt.Sprintf("%.3f %s", v, u.name)
}

// ParseTime reads "12.5 ms", "300us", "1s"; a bare number is microseconds.
func ParseTime(s string) (trace.Time, error) {
	text := strings.TrimSpace(s)
	number := strings.TrimRight(text, "nuµμms ")
	var ns float64
	switch suffix := strings.TrimSpace(text[len(number):]); suffix {
	case "ns":
		ns = 1
	case "", "us", "µs", "μs":
		ns = 1e3
	case "ms":
		ns = 1e6
	case "s":
		ns = 1e9
	default:
		return 0, fmt.Errorf("unit %q (write ns, us, ms or s)", suffix)
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.Abs(v*ns) > math.MaxInt64/4 || math.IsNaN(v) {
		return 0, fmt.Errorf("time %q (write one like 12.5 ms)", s)
	}
	return trace.Time(math.Round(v * ns)), nil
}
