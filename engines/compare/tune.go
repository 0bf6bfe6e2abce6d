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
	"github.com/overlapse/overlapse/trace/guard"
)

// exhaustive is the number of combinations of settings up to which Tune tries all.
const exhaustive = 192

// A Tuning is the result of Tune.
type Tuning struct {
	Ran   []Outcome // candidates that run, by expected time; equal times keep the order of the candidates
	Tried int       // number of candidates that were planned
	Why   string    // reason of the first candidate that does not run; "": all run
}

// Tune simulates the candidates. Of settings without effect the one nearest to the defaults
// comes first. Of more than 192 candidates it tries those that differ from the fastest so
// far, at first from the first candidate, in one parameter, until none is faster by half a
// percent. done is called as each finishes, from several goroutines; nil is allowed.
func Tune(w *workload.Workload, m machine.Machine, candidates []plan.Selection, sc plan.Scenario, o replay.Options, done func()) (found Tuning, err error) {
	if w, err = Isolate(w, m, o.Stop); err != nil {
		return found, err
	}
	t := tuner{w: w, m: m, sc: sc, o: o, done: done, candidates: candidates, all: make([]*Outcome, len(candidates))}
	if len(candidates) <= exhaustive {
		err = t.run(indices(len(candidates)))
	} else {
		err = t.descend()
	}
	if err != nil {
		return found, err
	}
	for _, out := range t.all {
		if out == nil {
			continue
		}
		found.Tried++
		switch {
		case out.Why == "":
			found.Ran = append(found.Ran, *out)
		case found.Why == "":
			found.Why = out.Why
		}
	}
	slices.SortStableFunc(found.Ran, func(a, b Outcome) int { return cmp.Compare(a.Expected, b.Expected) })
	return found, nil
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// A tuner is the state of one Tune.
type tuner struct {
	w          *workload.Workload
	m          machine.Machine
	sc         plan.Scenario
	o          replay.Options
	done       func()
	candidates []plan.Selection
	all        []*Outcome // by candidate; nil: not tried
}

// run simulates candidates that have not been tried.
func (t *tuner) run(list []int) error {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, i := range list {
		if t.all[i] != nil {
			continue
		}
		g.Go(guard.Func(func() error {
			out, err := Run(t.w, t.m, t.candidates[i], t.sc, t.o)
			out.Result, out.Changed = nil, plan.Changes{}
			t.all[i] = &out
			if t.done != nil {
				t.done()
			}
			return err
		}))
	}
	return g.Wait()
}

// descend changes one parameter at a time.
func (t *tuner) descend() error {
	best := 0
	if err := t.run([]int{best}); err != nil {
		return err
	}
	for improved := true; improved; {
		improved = false
		for _, p := range t.candidates[0].Strategy.Params {
			var list []int
			for i, c := range t.candidates {
				if differIn(c.Values, t.candidates[best].Values, p.Name) {
					list = append(list, i)
				}
			}
			if err := t.run(list); err != nil {
				return err
			}
			for _, i := range list {
				if t.better(i, best) {
					best, improved = i, true
				}
			}
		}
	}
	return nil
}

// better reports whether a candidate runs and is worth a change of a setting.
func (t *tuner) better(i, than int) bool {
	a, b := t.all[i], t.all[than]
	return a.Why == "" && (b.Why != "" || float64(a.Expected) < (1-worthwhile)*float64(b.Expected))
}

// differIn reports whether two settings differ in one parameter and no other.
func differIn(a, b plan.Values, name string) bool {
	if a[name] == b[name] {
		return false
	}
	for k, v := range a {
		if k != name && b[k] != v {
			return false
		}
	}
	return true
}
