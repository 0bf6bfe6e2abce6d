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

// A WhatIf is how much shorter or longer an iteration would be on a machine
// that differs in one respect.
type WhatIf struct {
	Name   string  `json:"name"`
	Change float64 `json:"change"` // of the time: -0.1 is 10 % less
}

// whatIfs are the machines that Sensitivity tries.
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

// Sensitivity replays the plan of each outcome that ran on machines that differ
// in one respect each, side by side on the machine's cores. The lists are in
// the order of the outcomes; those of schedules whose kernels hold nothing and
// take what was measured, captured and ideal, are empty. done is called as each
// replay finishes, from several goroutines; nil is fine.
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
				if err == nil { // what cannot run there has no time
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

// WhatIfs is how many replays Sensitivity makes of an outcome that is Sensitive.
func WhatIfs() int { return len(whatIfs) }

// Sensitive reports whether an outcome follows its machine.
func Sensitive(o *compare.Outcome) bool {
	return o.Result != nil && o.Strategy.Name != schedule.Captured.Name && o.Strategy.Name != schedule.Ideal.Name
}
