package verdict

import (
	"cmp"
	"maps"
	"slices"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/guard"
)

// A Ladder is the result of Climb: changes of the captured schedule, one at a time, each of
// which is likely to gain.
type Ladder struct {
	Rungs      []Rung // in the order of the changes
	Tried      []Rung // all that run, rungs included, fastest first; equal times keep the order of the candidates
	Strategies []Tally
	Last       []Prediction // what remains to be judged: the last rung or, without one, the fastest of each strategy
}

// A Tally is how many settings of a strategy were tried.
type Tally struct {
	Strategy string `json:"strategy"`
	Tried    int    `json:"tried"`
	Ran      int    `json:"ran"`
	TooLarge int    `json:"too_large,omitempty"` // do not fit into the memory limit
	Why      string `json:"why,omitempty"`       // why the first that does not run does not
	Defect   error  `json:"-"`                   // of the first that panicked
}

// A Rung is an outcome, without its result, against the captured schedule and against the rung
// before it, or for those that are none against the last rung that they were compared with.
type Rung struct {
	Prediction
	Step       float64 // change of the time of the rung before
	StepChance Chance  // that it is faster than the rung before
}

// Climb searches for the fastest schedule by one change at a time: first each strategy with its
// defaults and with one other setting, then each other value of one parameter of the last rung.
// The fastest of those that are likely to gain at least 1 % is the next rung; it ends where
// there is none. The first candidate of each strategy is its defaults. done is called as each
// finishes, from several goroutines.
func Climb(w *workload.Workload, m machine.Machine, captured compare.Outcome, candidates [][]plan.Selection, sc plan.Scenario, o replay.Options, done func()) (Ladder, error) {
	w, err := compare.Isolate(w, m, o.Stop)
	if err != nil {
		return Ladder{}, err
	}
	if captured.Result != nil {
		t := explain.TimesOf(w, captured)
		captured.Times = &t
	}
	c := climber{w: w, m: m, captured: captured, candidates: candidates, sc: sc, o: o, done: done, tried: map[place]*Rung{}}
	var start []place
	for i := range candidates {
		c.Strategies = append(c.Strategies, Tally{Strategy: candidates[i][0].Strategy.Name})
		start = append(append(start, place{i, 0}), c.neighbours(place{i, 0})...)
	}
	from := captured.Expected
	for next := start; ; {
		if err := c.try(next); err != nil {
			return c.Ladder, err
		}
		var best *Rung
		var at place
		for _, p := range next {
			r := c.tried[p]
			if r.Why != "" {
				continue
			}
			r.Step = r.ChangeFrom(from)
			if r.StepChance = r.Evidence.Confidence(r.Step).Chance; r.StepChance.PFaster >= Likely && r.likely() && (best == nil || r.Expected < best.Expected) {
				best, at = r, p
			}
		}
		if best == nil {
			break
		}
		c.Rungs, from, next = append(c.Rungs, *best), best.Expected, c.neighbours(at)
	}
	return c.Ladder, c.finish()
}

// A place is a candidate: its strategy and its index.
type place struct{ strategy, index int }

// A climber is the state of Climb.
type climber struct {
	Ladder
	w          *workload.Workload
	m          machine.Machine
	captured   compare.Outcome
	candidates [][]plan.Selection
	sc         plan.Scenario
	o          replay.Options
	done       func()
	tried      map[place]*Rung
}

// Others are what was tried, as predictions.
func (l *Ladder) Others() (list []Prediction) {
	for _, r := range l.Tried {
		list = append(list, r.Prediction)
	}
	return list
}

// neighbours are the candidates that differ in one parameter.
func (c *climber) neighbours(p place) (list []place) {
	all := c.candidates[p.strategy]
	for i := range all {
		if differ(all[i].Values, all[p.index].Values) == 1 {
			list = append(list, place{p.strategy, i})
		}
	}
	return list
}

// differ is the number of parameters in which settings differ.
func differ(a, b plan.Values) (n int) {
	for k, v := range a {
		if b[k] != v {
			n++
		}
	}
	return n
}

// try simulates candidates that have not been tried.
func (c *climber) try(list []place) error {
	list = slices.DeleteFunc(slices.Clone(list), func(p place) bool { return c.tried[p] != nil })
	for _, p := range list {
		c.tried[p] = &Rung{}
	}
	return guard.Each(len(list), func(i int) error {
		out, err := compare.Try(c.w, c.m, c.candidates[list[i].strategy][list[i].index], c.sc, c.o)
		if err != nil {
			return err
		}
		r := c.tried[list[i]]
		r.Prediction = Predict(c.w, c.captured, out)
		if r.Result == nil {
			r.Why = cmp.Or(r.Why, "no result")
		}
		r.Result, r.Times, r.Changed = nil, nil, plan.Changes{}
		c.done()
		return nil
	})
}

// finish sorts what was tried and simulates again what is to be judged.
func (c *climber) finish() error {
	places := slices.SortedFunc(maps.Keys(c.tried), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.strategy, b.strategy), cmp.Compare(a.index, b.index))
	})
	fastest := make([]*Rung, len(c.candidates))
	for _, p := range places {
		r := c.tried[p]
		of := &c.Strategies[p.strategy]
		of.Tried++
		if r.Why != "" {
			of.Why, of.Defect = cmp.Or(of.Why, r.Why), cmp.Or(of.Defect, compare.Defect(r.Outcome))
			if r.TooLarge {
				of.TooLarge++
			}
			continue
		}
		of.Ran++
		c.Tried = append(c.Tried, *r)
		if f := fastest[p.strategy]; f == nil || r.Expected < f.Expected {
			fastest[p.strategy] = r
		}
	}
	slices.SortStableFunc(c.Tried, func(a, b Rung) int { return cmp.Compare(a.Expected, b.Expected) })
	if n := len(c.Rungs); n > 0 {
		fastest = []*Rung{&c.Rungs[n-1]}
	}
	for _, r := range fastest {
		if r == nil {
			continue
		}
		out, err := compare.Run(c.w, c.m, r.Selection, c.sc, c.o)
		if err != nil {
			return err
		}
		c.Last = append(c.Last, Predict(c.w, c.captured, out))
	}
	return nil
}
