package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/guard"
)

// Flags are the flags of commands that replay: trace, machine, strategies.
type Flags struct {
	Path     string
	Machine  string
	Strategy string
	Clock    string         // name of a clock regime
	dataflow string         // a file of corrections
	Ranks    string         // N or GROUP=N; "": as captured
	Retarget string         // machine; "": that of the capture
	WhatIf   machine.WhatIf // factors on the machine that is replayed on, after all else
	lift     lift.Options
}

// AddTo adds them to a command; strategies describes the use of --strategy.
func (f *Flags) AddTo(c *cobra.Command, strategies string) {
	set := c.Flags()
	set.StringVar(&f.Machine, "machine", "", "machine to replay on: a profile and a number of GPUs (h200:4), or a YAML file; default: that of the trace")
	set.StringVar(&f.Strategy, "strategy", "all", strategies+" or a file of them after colons: "+
		strings.Join(engines.Names(), ", ")+", or all")
	set.StringVar(&f.Clock, "clock", "captured", "GPU clock of the predicted iterations: captured; cool: the full clock after a pause; sustained: the steady clock under the power limit")
	DataflowFlag(c, &f.dataflow)
	set.StringVar(&f.Ranks, "ranks", "", "replay with this number of ranks in the data-parallel group, or the trace's only one: 16; or in another: GROUP=16, by the name that inspect prints")
	set.StringVar(&f.Retarget, "retarget", "", "scale the captured durations to this machine's GPU and replay there: a profile or a YAML file, as --machine")
}

// Prepare checks the flags, parses the strategies with parse, then reads the trace,
// so that mistyped flags fail at once.
func Prepare[S any](r *Reader, f Flags, parse func(string) ([]S, error)) ([]S, *workload.Workload, machine.Machine, error) {
	if _, err := regimeOf(f.Clock); err != nil {
		return nil, nil, machine.Machine{}, err
	}
	strategy, err := withSettings(f.Strategy)
	if err != nil {
		return nil, nil, machine.Machine{}, err
	}
	sel, err := parse(strategy)
	if err != nil {
		return nil, nil, machine.Machine{}, Wrap(err)
	}
	if f.lift.Dataflow, err = ReadCorrections(f.dataflow); err != nil {
		return nil, nil, machine.Machine{}, err
	}
	for _, name := range []string{f.Machine, f.Retarget} {
		if name != "" {
			if _, _, err := r.readMachine(name); err != nil {
				return nil, nil, machine.Machine{}, err
			}
		}
	}
	f.lift.Unprofiled, f.lift.Sample = true, true
	w, m, err := r.subject(f.Path, f.Machine, f.lift)
	if err != nil {
		return nil, nil, m, err
	}
	if err := plan.Affordable(w); err != nil {
		return nil, nil, m, fmt.Errorf("%s: %w", f.Path, err)
	}
	done := r.Waiting(func() string { return "finding durations alone" }, nil)
	w, err = engines.Isolate(w, m, nil)
	if done(); err == nil {
		w, m, err = r.rescaled(f, w, m)
	}
	if err == nil && len(f.WhatIf) > 0 {
		w, m = edit.WhatIf(w, m, f.WhatIf)
		w, err = engines.Isolate(w, m, nil)
	}
	return sel, w, m, err
}

// withSettings puts the settings of files in place of their names: tilesync:mine.yaml.
func withSettings(selection string) (string, error) {
	list := strings.Split(selection, ":")
	for i := 1; i+1 < len(list); i++ { // C:\x.yaml
		if next := list[i+1]; len(list[i]) == 1 && next != "" && strings.ContainsRune(`\/`, rune(next[0])) {
			list[i] += ":" + next
			list = slices.Delete(list, i+1, i+2)
		}
	}
	for i, word := range list {
		name, after, more := strings.Cut(word, ",")
		if i == 0 || strings.Contains(name, "=") || !IsYAML(name) {
			continue
		}
		f, err := guard.Open(name)
		if err != nil {
			return "", fmt.Errorf("%s: %w (a file of settings)", name, WithoutPath(err))
		}
		list[i], err = engines.ReadSettings(f, name)
		f.Close()
		if err != nil {
			return "", err
		}
		if more {
			list[i] += "," + after
		}
	}
	return strings.Join(list, ":"), nil
}

// Scenario is that of the flags, which prepare has checked.
func (f *Flags) Scenario() plan.Scenario {
	regime, _ := regimeOf(f.Clock)
	return plan.Scenario{Clock: regime}
}

func regimeOf(clock string) (plan.ClockRegime, error) {
	if clock == "" { // of a command without the flag
		return plan.CapturedClock, nil
	}
	regimes := map[string]plan.ClockRegime{"captured": plan.CapturedClock, "cool": plan.FullClock, "sustained": plan.SettledClock}
	return regimes[clock], choice("clock", clock, "captured", "cool", "sustained")
}

// FailedError is an error if a strategy panicked, or if one that the user selected did not run.
func (f *Flags) FailedError(outcomes []engines.Outcome) error {
	if err := engines.Defect(outcomes...); err != nil || f.Strategy == "all" {
		return err
	}
	var names []string
	for _, out := range outcomes {
		if out.Why != "" && slices.Contains(engines.Names(), out.Strategy.Name) { // the mix of --pairs is not selected
			names = append(names, fmt.Sprintf("%s: %s", strings.TrimSpace(out.Strategy.Name+" "+out.Strategy.String(out.Values)), out.Why))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return Exit(Failed, "%s: selected strategies did not run: %s", f.Path, strings.Join(names, "; "))
}
