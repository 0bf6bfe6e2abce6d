package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/validate"
	"github.com/overlapse/overlapse/replay/machine/calibrate"
	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/viz/plain"
)

// plan prints, or writes to a file, the benchmarks that would narrow the
// predictions for a trace.
func (a *app) plan(o question, output string) error {
	sel, w, m, err := prepare(a, o, engines.ParseSelection)
	if err != nil {
		return err
	}
	requests, err := validate.Benchmarks(w, m, sel)
	if err != nil {
		return fmt.Errorf("%s: %w", o.path, err)
	}
	var guesses int
	for _, x := range profile.Assumptions(m) {
		if !x.Absent {
			guesses++
		}
	}
	a.note("%d benchmarks for %s on %s; %d numbers of the profile are assumed (overlapse machines %s; capture.py without --plan measures them)", len(requests), o.path, m.Name, guesses, m.Name)
	write := func(w io.Writer) error { return writeRequests(w, requests) }
	if output != "" {
		return a.writeFile(output, write)
	}
	return write(a.out)
}

func writeRequests(w io.Writer, requests []calibrate.Request) error {
	e := json.NewEncoder(plain.JSON(w))
	for _, r := range requests {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
