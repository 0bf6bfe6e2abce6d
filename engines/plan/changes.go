package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Unmeasured lists what of a selection was never run on hardware: the strategy itself, settings, or collectives of
// those that it changes.
func Unmeasured(s Selection, ops []trace.CollectiveOp) (list []string) {
	for _, p := range s.Strategy.Params {
		v := s.Values[p.Name]
		ran := slices.Contains(p.Measured, v) || slices.Contains(p.Measured, AnyNumber) || p.Measured == nil && v == p.Default
		switch {
		case v == "" || ran || !p.Matters(s.Values):
			for _, op := range ops {
				if v != "" && v != p.Default && p.ranWith != nil && slices.Contains(p.Ops, op) && !slices.Contains(p.ranWith, op) {
					list = once(list, s.Strategy.Name+" "+p.Name+"="+v+" of "+op.String())
				}
			}
		case v == p.Default:
			list = once(list, s.Strategy.Name)
		default:
			list = once(list, s.Strategy.Name+" "+p.Name+"="+v)
		}
	}
	for _, op := range ops {
		if s.Strategy.MeasuredOn != nil && !slices.Contains(s.Strategy.MeasuredOn, op) {
			list = once(list, s.Strategy.Name+" of "+op.String())
		}
	}
	return list
}

// ranOn are the GPUs of the measured rows of strategies (samples/measurements).
var ranOn = []string{"NVIDIA H100", "NVIDIA H200"}

// Elsewhere says which strategy or setting of a selection was run on other GPUs alone, and on which; "": none.
func Elsewhere(s Selection, gpu string) (what string, on []string) {
	missing := func(on []string) bool {
		return !slices.ContainsFunc(on, func(name string) bool { return strings.HasPrefix(gpu, name) })
	}
	ran := s.Strategy.Kind == Exact
	for _, p := range s.Strategy.Params {
		if v := s.Values[p.Name]; v != p.Default && p.ranOn != nil {
			if missing(p.ranOn) {
				return p.Name + "=" + v, p.ranOn
			}
			ran = true // the strategy with it
		}
	}
	if !ran && missing(ranOn) {
		return s.Strategy.Name, ranOn
	}
	return "", nil
}

// AnyNumber stands in Param.Measured for all numbers.
const AnyNumber = "*"

// Changes are what a plan changes.
type Changes struct {
	told
	Workload *workload.Workload   // of the plan: it may be cut anew
	Pairs    []*workload.Pair     // none: the schedule of all collectives
	Ops      []trace.CollectiveOp // of the collectives that it changes: each once, ascending
	Rest     float64              // share of the captured device time that it leaves alone (leftAlone)
}

// Changes returns what the plan changes: the collectives of its pairs, or without pairs those that
// ChangesOnly selects.
func (pl *Planner) Changes() Changes {
	c := Changes{Workload: pl.Workload, told: pl.told}
	add := func(coll *workload.Collective) {
		if coll.Op != trace.Barrier && !slices.Contains(c.Ops, coll.Op) {
			c.Ops = append(c.Ops, coll.Op)
		}
	}
	for i := range pl.Pairs {
		c.Pairs = append(c.Pairs, pl.Pairs[i].Pair)
		if row := pl.Pairs[i].Collective; row >= 0 {
			add(&pl.Workload.Collectives[row])
		}
	}
	for i := range pl.Workload.Collectives {
		if coll := &pl.Workload.Collectives[i]; len(pl.Pairs) == 0 && (pl.ChangesOnly == nil || pl.ChangesOnly(coll)) {
			add(coll)
		}
	}
	slices.Sort(c.Ops)
	c.Rest = pl.leftAlone()
	return c
}

// leftAlone is the share of the captured device time, summed over operations, that is neither of
// operations that the plan changes nor beside collectives that it moves; 0 where it changes all, or
// that is not known. Where the plan changes more in one iteration than in another, it is that of the former: the time of an
// iteration may be its.
func (pl *Planner) leftAlone() float64 {
	w, step := pl.Workload, len(pl.Pairs) == 0
	if !WasMeasured(w) || step && w.Origins != nil || pl.Graph {
		return 0
	}
	type device struct {
		all, moved trace.Time
		changed    int // operations
	}
	of, n := workload.IterationsOf(w)
	whole, each := device{}, make([]device, n+1) // the last is of no iteration
	for id := range w.Ops {
		op := &w.Ops[id]
		changed, moved := 0, trace.Time(0)
		switch c := op.Collective; {
		case pl.Replaced[op.ID] > 0:
			changed, moved = 1, w.Lasts(op)
		case step && c >= 0 && (pl.ChangesOnly == nil || pl.ChangesOnly(&w.Collectives[c])):
			changed, moved = 1, 2*w.Lasts(op) // its own and that of what runs beside it
		}
		for _, x := range []*device{&whole, &each[min(uint32(of[id]), uint32(n))]} {
			x.all, x.moved, x.changed = x.all+w.Lasts(op), x.moved+moved, x.changed+changed
		}
	}
	each = each[:n]
	byChanged := func(a, b device) int { return cmp.Compare(a.changed, b.changed) }
	if n > 1 && slices.MinFunc(each, byChanged).changed < slices.MaxFunc(each, byChanged).changed {
		whole = slices.MaxFunc(each, byChanged)
	}
	return max(0, 1-float64(whole.moved)/float64(max(1, whole.all)))
}
