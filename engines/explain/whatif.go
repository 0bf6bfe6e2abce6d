package explain

import (
	"errors"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
)

// A WhatIf is the change of an iteration's time on a machine with one changed property.
type WhatIf struct {
	Name   string  `json:"name"`
	Change float64 `json:"change"` // relative: -0.1 is 10 % less
}

// whatIfs are the changes that Sensitivity tries.
var whatIfs = []struct {
	name string
	is   program.WhatIf
}{
	{"links twice as fast", program.WhatIf{Links: 2}},
	{"memory twice as fast", program.WhatIf{Memory: 2}},
	{"compute twice as fast", program.WhatIf{Compute: 2}},
	{"launches free", program.WhatIf{Launches: true}},
	{"no latencies", program.WhatIf{Latency: true}},
}

// Sensitivity simulates the plan of each outcome on machines with one changed property
// each, in parallel. The lists are in the order of the outcomes. They are empty for
// captured and ideal, whose kernels have measured durations. done is called as each
// simulation finishes, from several goroutines; nil is allowed.
func Sensitivity(w *workload.Workload, outs []compare.Outcome, stop func() bool, done func()) ([][]WhatIf, error) {
	all := make([][]WhatIf, len(outs))
	ran := make([][]bool, len(outs))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, out := range outs {
		if !Sensitive(&out) {
			continue
		}
		all[i], ran[i] = make([]WhatIf, len(whatIfs)), make([]bool, len(whatIfs))
		for k, x := range whatIfs {
			g.Go(func() error {
				m, p := x.is.Of(out.Machine, out.Program)
				r, err := replay.Simulate(m, p, replay.Options{Stop: stop})
				if done != nil {
					done()
				}
				if errors.Is(err, replay.ErrStopped) {
					return err
				}
				if err == nil { // no time if it cannot run there
					all[i][k], ran[i][k] = WhatIf{x.name, float64(plan.StepTime(w, r.Run))/float64(max(1, out.Time)) - 1}, true
				}
				return nil
			})
		}
	}
	err := g.Wait()
	for i := range all {
		var list []WhatIf
		for k, x := range all[i] {
			if ran[i][k] {
				list = append(list, x)
			}
		}
		all[i] = list
	}
	return all, err
}

// WhatIfs is the number of simulations that Sensitivity runs for a Sensitive outcome.
func WhatIfs() int { return len(whatIfs) }

// Sensitive reports whether an outcome depends on the machine.
func Sensitive(o *compare.Outcome) bool {
	return o.Result != nil && o.Strategy.Name != schedule.Captured.Name && o.Strategy.Name != schedule.Ideal.Name
}
