package main

import (
	"fmt"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/viz/plain"
)

// printAdvice says which strategy to choose.
func (a *app) printAdvice(r *replayed) {
	d := engines.Advise(r.outcomes)
	if d.Take < 0 || d.Bulk < 0 || len(r.Rows) < 2 {
		return
	}
	name := func(i int) string {
		return plain.Line(strings.TrimSpace(r.Rows[i].Strategy + " " + r.Rows[i].settings))
	}
	less := func(i int) string {
		return fmt.Sprintf("%.1f %% less than bulk", 100*(1-float64(r.Rows[i].Time)/float64(max(1, r.Rows[d.Bulk].Time))))
	}
	switch {
	case d.Plain >= 0:
		fmt.Fprintf(a.out, "\nno clear difference: %s is expected to take %s, and two runs of one program differ by %.0f %%\n", name(d.Take), less(d.Take), 100*engines.RunsDiffer)
	case d.Take == d.Bulk:
		fmt.Fprintf(a.out, "\nleast time expected: bulk\n")
	default:
		fmt.Fprintf(a.out, "\nleast time expected: %s, %s (confidence %s)\n", name(d.Take), less(d.Take), r.Rows[d.Take].Confidence.Level)
	}
}
