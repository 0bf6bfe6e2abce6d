package engines

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// On limits a strategy to some rows of Workload.Pairs; all other operations stay as
// captured.
func On(e plan.Strategy, rows []int) plan.Strategy {
	planAll := e.Plan
	e.Rebuild = nil // rows are those of the captured workload
	e.Plan = func(pl *plan.Planner, v plan.Values) (emit plan.Emitter, why string) {
		pl.Only = map[int]bool{}
		for _, i := range rows {
			pl.Only[i] = true
		}
		before := len(pl.Pairs)
		emit, why = planAll(pl, v)
		limitToPairs(pl, before, emit)
		return nil, why
	}
	return e
}

// A PairChoice is the outcomes of strategies that replan only the pairs of one kind.
type PairChoice struct {
	workload.PairSummary
	Outcomes []Outcome          // in the order of the selections, without results
	Op       trace.CollectiveOp `json:"-"` // of the pairs; UnknownOp between kernels
	Phase    int                `json:"-"` // of the first pair, which the outcomes are of, where phases are answered apart (Outcome.Of)
	Best     int                // index of the least expected time if it beats the captured schedule; else -1
}

// worthwhile is the minimum gain for which a strategy is recommended, relative to the
// captured schedule's time or, if shorter, to bulk's.
const worthwhile = 0.005

// Pairs runs every selection on every kind of pair separately, then all kinds together,
// each with its best selection. Bounds, strategies that overlap iterations and strategies
// without hardware are run but not mixed. done is called as each simulation finishes, from several
// goroutines; nil is allowed.
func Pairs(w *workload.Workload, m machine.Machine, sel []plan.Selection, sc plan.Scenario, base Outcome, o replay.Options,
	done func(),
) ([]PairChoice, Outcome, error) {
	w, err := Isolate(w, m, o.Stop)
	if err != nil {
		return nil, Outcome{}, err
	}
	kinds := workload.Pairs(w)
	choices, steps := make([]PairChoice, len(kinds)), plan.MeasuredSteps(w)
	for k, kind := range kinds {
		choices[k] = PairChoice{PairSummary: kind, Outcomes: make([]Outcome, len(sel))}
		if c := w.Pairs[kind.Rows[0]].Collective; c >= 0 {
			choices[k].Op = w.Collectives[c].Op
		}
		for _, phase := range base.Each() {
			if steps.Of(phase).Has(int(w.Pairs[kind.Rows[0]].Step)) {
				choices[k].Phase = phase
			}
		}
	}
	err = sideBySide(w, len(kinds)*len(sel), func(job int) (err error) {
		c, i := &choices[job/len(sel)], job%len(sel)
		s, out := sel[i], &c.Outcomes[i]
		*out, err = Run(w, m, plan.Selection{Strategy: On(s.Strategy, c.Rows), Values: s.Values}, sc, replay.Options{Stop: o.Stop})
		*out = out.Of(c.Phase)
		out.Selection, out.Result, out.Changed = s, nil, plan.Changes{}
		if done != nil {
			done()
		}
		return err
	})
	if err != nil {
		return nil, Outcome{}, err
	}
	for k := range choices {
		choices[k].choose(base.Of(choices[k].Phase).Expected, len(kinds) == 1)
	}
	mixed, err := Run(w, m, plan.Selection{Strategy: MixedOf(choices), Values: plan.Values{}}, sc, o)
	return choices, mixed, err
}

// choose sets Best. whole means that there is no other kind to mix with.
func (c *PairChoice) choose(base trace.Time, whole bool) {
	c.Best = -1
	for _, out := range c.Outcomes {
		if out.Why == "" && out.Strategy.Kind == plan.Plain && out.Strategy.String(out.Values) == "" {
			base = min(base, out.Expected)
		}
	}
	least := base - trace.Time(worthwhile*float64(base))
	for i, out := range c.Outcomes {
		switch e := out.Strategy; {
		case out.Why != "" || out.Expected >= least || out.Experimental() || e.Loop && !whole:
		case e.Kind != plan.Exact && e.Kind != plan.Bound && e.Kind != plan.Future:
			c.Best, least = i, out.Expected
		}
	}
}

// MixedOf plans each kind of pair with its best strategy. If two pairs share an operation,
// the kind with the larger gain has it.
func MixedOf(choices []PairChoice) plan.Strategy {
	var order, named []int
	for k := range choices {
		if choices[k].Best >= 0 {
			order, named = append(order, k), append(named, k)
		}
	}
	best := func(k int) Outcome { return choices[k].Outcomes[choices[k].Best] }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(best(a).Expected, best(b).Expected) })
	var names []string
	var parts []plan.Selection
	for _, k := range named {
		s := best(k).Selection
		names = append(names, strings.TrimSpace(fmt.Sprintf("%d: %s %s", k+1, s.Strategy.Name, s.Strategy.String(s.Values))))
		s.On = choices[k].Op
		parts = append(parts, s)
	}
	e := plan.Strategy{Name: "mixed", Summary: strings.Join(names, "; "), Inside: true, Parts: parts}
	e.Plan = func(pl *plan.Planner, _ plan.Values) (emit plan.Emitter, why string) {
		if len(order) == 0 {
			return nil, "no strategy beats the captured schedule on any pair"
		}
		for _, k := range order {
			s := best(k)
			if _, why := On(s.Strategy, choices[k].Rows).Plan(pl, s.Values); why != "" {
				return nil, why
			}
		}
		return nil, ""
	}
	return e
}

// limitToPairs limits the planner's settings to the pairs from the given one on, and has them written; nil: in their places.
func limitToPairs(pl *plan.Planner, from int, emit plan.Emitter) {
	own := pl.Settings
	pl.Settings = plan.Settings{}
	for i := from; i < len(pl.Pairs); i++ {
		pl.Pairs[i].Settings, pl.Pairs[i].Emit = &own, emit
	}
}
