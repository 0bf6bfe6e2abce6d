package compare

import (
	"cmp"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// Tune simulates the candidates and returns those that run, by expected time; equal times
// keep the order of the candidates, so of settings without effect the one nearest to the
// defaults comes first. why is the reason of the first candidate that does not run. done
// is called as each finishes, from several goroutines; nil is allowed.
func Tune(w *workload.Workload, m machine.Machine, candidates []plan.Selection, sc plan.Scenario, o replay.Options, done func()) (ran []Outcome, why string, err error) {
	if w, err = Isolate(w, m, o.Stop); err != nil {
		return nil, "", err
	}
	all := make([]Outcome, len(candidates))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, s := range candidates {
		g.Go(func() error {
			out, err := Run(w, m, s, sc, o)
			out.Result = nil
			all[i] = out
			if done != nil {
				done()
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, "", err
	}
	for _, out := range all {
		switch {
		case out.Why == "":
			ran = append(ran, out)
		case why == "":
			why = out.Why
		}
	}
	slices.SortStableFunc(ran, func(a, b Outcome) int { return cmp.Compare(a.Expected, b.Expected) })
	return ran, why, nil
}
