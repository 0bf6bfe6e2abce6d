package verdict

import (
	"errors"
	"slices"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/guard"
)

// A WhatIf is a strategy's time on a machine with changed properties: the strategy planned
// for that machine, from durations that are scaled to it (rule Z7).
type WhatIf struct {
	Name   string   `json:"name"` // "links=2"
	Time   int64    `json:"time_ns"`
	Change float64  `json:"change"` // relative to the strategy on the machine as it is: -0.1 is 10 % less
	Phases []WhatIf `json:"-"`      // of each that is answered apart
}

// WhatIfs are the changes that --explain tries, one property each.
func WhatIfs(m *machine.Machine) []machine.WhatIf {
	var all []machine.WhatIf
	for _, p := range machine.Properties {
		switch {
		case p.Name == "nics" && m.Nodes() < 2:
		case p.Name == "latency":
			all = append(all, machine.WhatIf{{Name: p.Name, By: 0}})
		default:
			all = append(all, machine.WhatIf{{Name: p.Name, By: 2}})
		}
	}
	return all
}

// Under replays the strategy of each outcome on machines with the given changes. The lists
// are in the order of the outcomes and of the changes; what cannot run there is missing. All
// outcomes are of machine m. done is called as each replay finishes, from several
// goroutines; nil is allowed.
func Under(w *workload.Workload, m machine.Machine, outs []engines.Outcome, changes []machine.WhatIf, stop func() bool,
	done func(),
) ([][]WhatIf, error) {
	w, err := engines.Isolate(w, m, stop)
	if err != nil {
		return nil, err
	}
	if outs, err = simulated(w, m, outs, stop); err != nil {
		return nil, err
	}
	all := make([][]WhatIf, len(outs))
	for _, x := range changes {
		found, err := under(w, m, outs, x, stop, done)
		if err != nil {
			return nil, err
		}
		for i, f := range found {
			if f != nil {
				all[i] = append(all[i], *f)
			}
		}
	}
	return all, nil
}

// simulated replaces the outcomes of a measured workload by those of its simulation, as they
// are on a changed machine: a change is then that of the machine only. On a changed machine the
// captured schedule is simulated, and no time is scaled to the captured one (rule L6).
func simulated(w *workload.Workload, m machine.Machine, outs []engines.Outcome, stop func() bool) ([]engines.Outcome, error) {
	if !plan.WasMeasured(w) {
		return outs, nil
	}
	outs = slices.Clone(outs)
	same := edit.To(w, m, m)
	return outs, guard.Each(len(outs), func(i int) error {
		out := outs[i]
		if out.Result == nil || out.Strategy.Kind == plan.Bound {
			return nil
		}
		sc := plan.Scenario{Clock: out.Scenario.Clock, Rest: out.Scenario.Rest}
		is, err := engines.Run(same, m, out.Selection, sc, replay.Options{Like: true, Stop: stop})
		if err == nil {
			outs[i] = is
		}
		return err
	})
}

// under replays all strategies on one machine; nil for one that cannot run.
func under(w *workload.Workload, m machine.Machine, outs []engines.Outcome, x machine.WhatIf, stop func() bool,
	done func(),
) ([]*WhatIf, error) {
	found := make([]*WhatIf, len(outs))
	w, changed := edit.WhatIf(w, m, x)
	return found, guard.Each(len(outs), func(i int) error {
		out := outs[i]
		if out.Result == nil {
			return nil
		}
		sc := plan.Scenario{Clock: out.Scenario.Clock, Rest: out.Scenario.Rest}
		is, err := engines.Run(w, changed, out.Selection, sc, replay.Options{Like: true, Stop: stop})
		if done != nil {
			done()
		}
		if errors.Is(err, replay.ErrStopped) {
			return err
		}
		if err == nil && is.Result != nil {
			found[i] = whatIf(x, out, is)
		}
		return nil
	})
}

// whatIf is an outcome on a changed machine against that on the machine as it is, of each phase too.
func whatIf(x machine.WhatIf, was, is engines.Outcome) *WhatIf {
	found := &WhatIf{Name: x.String(), Time: int64(is.Expected), Change: is.ChangeFrom(was.Expected)}
	for _, phase := range is.Each() {
		if is.Phase == 0 && phase > 0 {
			found.Phases = append(found.Phases, *whatIf(x, was.Of(phase), is.Of(phase)))
		}
	}
	return found
}
