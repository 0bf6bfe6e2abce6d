package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// A replayFlags is which strategies are replayed of which trace on which machine.
type replayFlags struct {
	path     string
	machine  string
	strategy string
	clock    string // regimes by name
	lift     workload.Options
}

// flags are those of commands that replay; strategies says what the listed ones are for.
func (q *replayFlags) flags(c *cobra.Command, strategies string) {
	f := c.Flags()
	f.StringVar(&q.machine, "machine", "", "machine to replay on: a profile with its number of GPUs (h200x4) or a YAML file; default: the trace's own")
	f.StringVar(&q.strategy, "strategy", "all", strategies+" behind colons: "+strings.Join(engines.Names(), ", ")+", or all")
	f.StringVar(&q.clock, "clock", "captured", "at which clock iterations are predicted: captured; cool, as the first ones after a pause; or sustained, as those that settle under the power limit")
	f.BoolVar(&q.lift.Unprofiled, "unprofiled", false, "predict a run without the profiler: pauses of the host under 1 ms between launches are the profiler's")
}

// prepare reads a question's strategies in the way that parse does, then its
// trace: what is mistyped is told before anything is read.
func prepare[S any](a *app, q replayFlags, parse func(string) ([]S, error)) ([]S, *workload.Workload, machine.Machine, error) {
	if _, err := regimeOf(q.clock); err != nil {
		return nil, nil, machine.Machine{}, err
	}
	sel, err := parse(q.strategy)
	if err != nil {
		return nil, nil, machine.Machine{}, usageError{err}
	}
	w, m, err := a.subject(q.path, q.machine, q.lift)
	if err != nil {
		return nil, nil, m, err
	}
	w, err = compare.Isolate(w, m, nil)
	return sel, w, m, err
}

// scenario is the one that the flags choose, once prepare has checked them.
func (q *replayFlags) scenario() plan.Scenario {
	regime, _ := regimeOf(q.clock)
	return plan.Scenario{Clock: regime}
}

func regimeOf(clock string) (plan.ClockRegime, error) {
	if clock == "" { // of a command without the flag
		return plan.CapturedClock, nil
	}
	regimes := map[string]plan.ClockRegime{"captured": plan.CapturedClock, "cool": plan.FullClock, "sustained": plan.SettledClock}
	return regimes[clock], choice("clock", clock, "captured", "cool", "sustained")
}

// stopFunc asks whether a simulation is to be given up.
func stopFunc(ctx context.Context) func() bool { return func() bool { return ctx.Err() != nil } }

// failedError is an error where the user named strategies that do not run, and nil
// where all ran or all were asked for.
func (q *replayFlags) failedError(outcomes []compare.Outcome) error {
	if q.strategy == "all" {
		return nil
	}
	var names []string
	for _, out := range outcomes {
		if out.Why != "" && slices.Contains(engines.Names(), out.Strategy.Name) { // the mix is not named
			names = append(names, fmt.Sprintf("%s: %s", strings.TrimSpace(out.Strategy.Name+" "+out.Strategy.String(out.Values)), out.Why))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return strategyError{fmt.Errorf("%s: asked for, but not replayed: %s", q.path, strings.Join(names, "; "))}
}
