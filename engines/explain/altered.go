package explain

import (
	"errors"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
)

// Altered simulates the plan of each outcome, made with causes, on the machine changed by
// x. The list is in the order of the outcomes; Name is "" for an outcome that is not
// Sensitive or cannot run there.
func Altered(w *workload.Workload, outs []compare.Outcome, name string, x program.WhatIf, stop func() bool, done func()) ([]WhatIf, error) {
	all := make([]WhatIf, len(outs))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, out := range outs {
		if !Sensitive(&out) {
			continue
		}
		g.Go(func() error {
			m, p := x.Of(out.Machine, out.Program)
			r, err := replay.Simulate(m, p, replay.Options{Stop: stop})
			if done != nil {
				done()
			}
			if errors.Is(err, replay.ErrStopped) {
				return err
			}
			if err == nil {
				all[i] = WhatIf{name, float64(plan.StepTime(w, r.Run))/float64(max(1, out.Time)) - 1}
			}
			return nil
		})
	}
	return all, g.Wait()
}
