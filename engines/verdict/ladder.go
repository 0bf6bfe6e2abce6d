package verdict

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// A Ladder is the result of Climb on a phase, or on all iterations: changes of the captured schedule, one at a time, each of
// which is likely to gain.
type Ladder struct {
	Captured   engines.Outcome // what they are changes of
	Rungs      []Rung          // in the order of the changes
	Tried      []Rung          // all that run, rungs included, fastest first; equal times keep the order of the candidates
	Strategies []Tally
	Last       []Prediction // what remains to be judged: the last rung or, without one, the fastest of each strategy
	NotTried   int          // settings that the search would have tried next when its time was over
}

// A Tally is how many settings of a strategy were tried.
type Tally struct {
	Strategy string `json:"strategy"`
	Tried    int    `json:"tried"`
	Ran      int    `json:"ran"`
	NotTried int    `json:"not_tried,omitempty"` // settings left when the time of the search was over
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
// Of those that are likely to gain at least 1 % the fastest, or the one of the least effort that cannot be told from it, is the
// next rung; it ends where there is none. The first candidate of each strategy is its defaults: all defaults are tried first,
// then the settings of the strategy whose defaults are fastest. The search also ends when over reports
// that its time is over (nil: never); what is being tried then counts as not tried. done is called as
// each finishes; over and done are called from several goroutines.
func Climb(w *workload.Workload, m machine.Machine, captured engines.Outcome, candidates [][]plan.Selection, sc plan.Scenario,
	o replay.Options, over func() bool, done func(),
) ([]Ladder, error) {
	w, err := engines.Isolate(w, m, o.Stop)
	if err != nil {
		return nil, err
	}
	if over == nil {
		over = func() bool { return false }
	}
	of := search{
		w: w, m: m, captured: Timed(w, captured), candidates: candidates, sc: sc, o: o, over: over, done: done,
		known: map[place]*Prediction{},
	}
	var ladders []Ladder
	for _, phase := range of.captured.Each() {
		c := climber{search: &of, phase: phase, tried: map[place]*Rung{}}
		c.Captured = of.captured.Of(phase)
		if err := c.climb(); err != nil {
			return nil, err
		}
		ladders = append(ladders, c.Ladder)
	}
	return ladders, nil
}

// climb searches for the fastest schedule of a phase.
func (c *climber) climb() error {
	var next []place
	for i := range c.candidates {
		c.Strategies = append(c.Strategies, Tally{Strategy: c.candidates[i][0].Strategy.Name})
		next = append(next, place{i, 0})
	}
	if err := c.try(next); err != nil {
		return err
	}
	for _, p := range c.fastestFirst(next) {
		next = append(next, c.neighbours(p)...)
	}
	for from := c.Captured.Expected; ; {
		if err := c.try(next); err != nil {
			return err
		}
		var gain []place // those that are likely to gain
		for _, p := range next {
			r := c.tried[p]
			if r == nil || r.Why != "" || r.Experimental() {
				continue
			}
			r.Step = r.ChangeFrom(from)
			if r.StepChance = r.Evidence.Confidence(r.Step).Chance; r.StepChance.PFaster >= Likely && r.likely() {
				gain = append(gain, p)
			}
		}
		left := next
		if len(gain) > 0 {
			slices.SortFunc(gain, func(a, b place) int {
				return cmp.Or(cmp.Compare(c.tried[a].Expected, c.tried[b].Expected), a.compare(b))
			})
			var list []Prediction
			for _, p := range gain {
				list = append(list, c.tried[p].Prediction)
			}
			at := gain[easiest(list, 0)]
			c.Rungs, c.last, from, next = append(c.Rungs, *c.tried[at]), []place{at}, c.tried[at].Expected, c.neighbours(at)
		}
		if len(gain) == 0 || c.over() {
			left = slices.SortedFunc(slices.Values(slices.Concat(left, next)), place.compare)
			return c.finish(slices.Compact(left))
		}
	}
}

// fastestFirst sorts candidates that were tried by their times, those without one last.
func (c *climber) fastestFirst(list []place) []place {
	time := func(p place) trace.Time {
		if r := c.tried[p]; r != nil && r.Why == "" {
			return r.Expected
		}
		return trace.Infinity
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b place) int { return cmp.Compare(time(a), time(b)) })
	return list
}

// A place is a candidate: its strategy and its index.
type place struct{ strategy, index int }

func (p place) compare(to place) int {
	return cmp.Or(cmp.Compare(p.strategy, to.strategy), cmp.Compare(p.index, to.index))
}

// A search is the state of Climb that its phases share.
type search struct {
	w          *workload.Workload
	m          machine.Machine
	captured   engines.Outcome
	candidates [][]plan.Selection
	sc         plan.Scenario
	o          replay.Options
	over       func() bool
	done       func()
	known      map[place]*Prediction // that were simulated, without results
}

// A climber is the state of Climb on a phase.
type climber struct {
	Ladder
	*search
	phase int             // from 1; 0: all iterations
	tried map[place]*Rung // without results
	last  []place         // of the rungs, the last one
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

// try simulates candidates that have not been tried, on no phase before, until the time of the search is over.
func (c *climber) try(list []place) error {
	list = slices.DeleteFunc(slices.Clone(list), func(p place) bool { return c.tried[p] != nil })
	found := make([]*Prediction, len(list))
	o := c.o
	o.Stop = func() bool { return c.over() || c.o.Stop != nil && c.o.Stop() }
	err := guard.Each(len(list), func(i int) error {
		if found[i] = c.known[list[i]]; found[i] != nil || c.over() {
			return nil
		}
		out, err := engines.Try(c.w, c.m, c.candidates[list[i].strategy][list[i].index], c.sc, o)
		if errors.Is(err, replay.ErrStopped) && (c.o.Stop == nil || !c.o.Stop()) {
			return nil
		}
		if err != nil {
			return err
		}
		p := Predict(c.w, c.captured, out)
		found[i] = p.withoutResult()
		c.done()
		return nil
	})
	for i, p := range found {
		if p != nil {
			c.known[list[i]], c.tried[list[i]] = p, &Rung{Prediction: p.of(c.phase)}
		}
	}
	return err
}

// withoutResult is a prediction without what takes memory.
func (p *Prediction) withoutResult() *Prediction {
	q := *p
	if q.Result == nil {
		q.Why = cmp.Or(q.Why, "no result")
	}
	q.Result, q.Changed, q.Apart = nil, plan.Changes{}, nil
	for i := range p.Apart {
		q.Apart = append(q.Apart, *p.Apart[i].withoutResult())
	}
	return &q
}

// finish sorts what was tried, and simulates once more, for its result, what is to be judged. next is what was being tried and would
// have been tried next.
func (c *climber) finish(next []place) error {
	for _, p := range next {
		if c.tried[p] == nil {
			c.NotTried++
			c.Strategies[p.strategy].NotTried++
		}
	}
	fastest := make([]*place, len(c.candidates))
	for _, p := range slices.SortedFunc(maps.Keys(c.tried), place.compare) {
		r := c.tried[p]
		of := &c.Strategies[p.strategy]
		of.Tried++
		if r.Why != "" {
			of.Why, of.Defect = cmp.Or(of.Why, r.Why), cmp.Or(of.Defect, engines.Defect(r.Outcome))
			if r.TooLarge {
				of.TooLarge++
			}
			continue
		}
		of.Ran++
		c.Tried = append(c.Tried, *r)
		if f := fastest[p.strategy]; f == nil || r.Expected < c.tried[*f].Expected {
			fastest[p.strategy] = &p
		}
	}
	slices.SortStableFunc(c.Tried, func(a, b Rung) int { return cmp.Compare(a.Expected, b.Expected) })
	judged := c.last
	for _, f := range fastest {
		if f != nil && c.last == nil {
			judged = append(judged, *f)
		}
	}
	c.Last = make([]Prediction, len(judged))
	return guard.Each(len(judged), func(i int) error {
		out, err := engines.Run(c.w, c.m, c.candidates[judged[i].strategy][judged[i].index], c.sc, c.o)
		if err != nil {
			return err
		}
		again := Predict(c.w, c.captured, out)
		c.Last[i] = again.of(c.phase)
		return nil
	})
}
