package main

import "fmt"

// printApproximation says below the table of which strategies the rates are approximate.
func (a *app) printApproximation(r *replayed) {
	for _, row := range r.Rows {
		if x := row.Approximation; x != nil {
			fmt.Fprintf(a.out, "\n%s: approximate rates, since up to %d transfers contend at once: each is early or late by up to %.2g %% of the time\n",
				row.Strategy, x.Paths, 100*x.Error)
		}
	}
}
