package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A PhaseTime is the iterations of one phase: of prefill or decode, or of those that take longer than others of it (rule V34).
type PhaseTime struct {
	Phase    string     `json:"phase"` // "prefill", "long prefill", "short"
	Steps    int        `json:"steps"`
	Requests int64      `json:"requests,omitempty"` // of a step, median; 0: unknown
	Tokens   int64      `json:"tokens,omitempty"`   // likewise
	Time     trace.Time `json:"time_ns"`            // median from the end of the step before to its end
}

// A phaseKey is what tells steps of one phase from others.
type phaseKey struct {
	Phase workload.Phase
	Class int // workload.Step.Class
}

func keyOf(s *workload.Step) phaseKey { return phaseKey{s.Batch.Phase, s.Class} }

// key is the phase of an iteration.
func (c *Steps) key(i int) phaseKey {
	if i >= len(c.steps) {
		return phaseKey{}
	}
	return keyOf(&c.steps[i])
}

// keysOf are the phases that steps belong to: prefill, mixed, decode, others; of each the short ones first. They are nil if
// nothing tells steps apart.
func keysOf(steps []workload.Step) (keys []phaseKey) {
	for i := range steps {
		if k := keyOf(&steps[i]); !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	if len(keys) == 1 && keys[0] == (phaseKey{}) {
		return nil
	}
	order := []workload.Phase{workload.Prefill, workload.Mixed, workload.Decode, workload.NoPhase}
	slices.SortFunc(keys, func(a, b phaseKey) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Phase), slices.Index(order, b.Phase)), cmp.Compare(a.Class, b.Class))
	})
	return keys
}

// phaseName is a phase in words: with its length, where steps of several lengths are of one.
func phaseName(key phaseKey, keys []phaseKey) string {
	classes := 0
	for _, k := range keys {
		if k.Phase == key.Phase {
			classes = max(classes, k.Class)
		}
	}
	size := ""
	switch {
	case classes == 2:
		size = []string{"short ", "long "}[key.Class-1]
	case classes > 2:
		size = fmt.Sprintf("%d of %d by length ", key.Class, classes)
	}
	return strings.TrimSpace(size + key.Phase.String())
}

// Phases are the phases that the iterations belong to; nil if they are not known, or not all iterations ran.
func (c *Steps) Phases() (phases []PhaseTime) {
	if ran, _ := c.Ran(); len(ran) != len(c.each) {
		return nil
	}
	for p, key := range c.keys {
		var requests, tokens []int64
		for i := range c.steps[:min(len(c.steps), len(c.each))] {
			if b := c.steps[i].Batch; c.key(i) == key {
				requests, tokens = append(requests, b.Requests), append(tokens, b.Tokens)
			}
		}
		phases = append(phases, PhaseTime{
			phaseName(key, c.keys), len(tokens), overlap.Median(requests), overlap.Median(tokens), c.Of(p + 1).Time(),
		})
	}
	return phases
}

// Of are the steps whose times are those of a phase, by its place in Phases from 1; 0: of all.
func (c *Steps) Of(phase int) *Steps {
	of := *c
	of.only = phase
	return &of
}

// Each are the steps that are answered apart: those of each phase where there are several, else all (rule V34).
func (c *Steps) Each() []*Steps {
	phases := c.Phases()
	if len(phases) < 2 {
		return []*Steps{c}
	}
	each := make([]*Steps, len(phases))
	for i := range phases {
		each[i] = c.Of(i + 1)
	}
	return each
}

// Phase is the phase that times are of; zero: all iterations.
func (c *Steps) Phase() PhaseTime {
	if c.only == 0 {
		return PhaseTime{}
	}
	return c.Phases()[c.only-1]
}

// Has reports whether an iteration is of the phase that times are of.
func (c *Steps) Has(i int) bool {
	return c.only == 0 || i >= 0 && i < len(c.steps) && c.key(i) == c.keys[c.only-1]
}

// median is the iteration of the median time of the phase that times are of, from the end of the one before to its end.
func (c *Steps) median() Interval {
	var of []Interval
	ran, _ := c.Ran()
	for i, x := range ran {
		if i > 0 {
			x.Start = ran[i-1].End
		}
		if c.Has(i) {
			of = append(of, x)
		}
	}
	if len(ran) != len(c.each) || len(of) == 0 { // not all ran: nothing says which
		return Interval{}
	}
	slices.SortStableFunc(of, func(a, b Interval) int { return cmp.Compare(a.Length(), b.Length()) })
	return of[(len(of)-1)/2]
}

// BusyTime is the least time, ns, for which the devices of a captured iteration after the first, and of those that nothing disturbed
// (Steps.Disturbed), compute, copy, or move the bytes of collectives: of the rank that does so longest. What waits for captured
// ranks did to kernels, and waits for others, do not count. A run of the captured schedule without the profiler loses pauses and
// waits, and takes no less than this (rule H10). It is of the iterations of a phase (Steps.Of); of all whose time is a mean, it is
// the mean (Steps.Time): those of several phases differ. It is 0 without two iterations.
func BusyTime(w *workload.Workload, phase int) trace.Time {
	steps := MeasuredSteps(w).Of(phase)
	rounds := steps.rounds()
	if len(rounds) < 2 {
		return 0
	}
	waits := make([][]trace.Time, len(rounds)) // by iteration and row
	for i := range waits {
		waits[i] = make([]trace.Time, w.Captured)
	}
	for id := range w.Ops {
		if op := &w.Ops[id]; steps.of[id] >= 0 && !w.Copies[op.Rank] {
			waits[steps.of[id]][w.Rows[op.Rank]] += op.Dur() - w.Lasts(op)
		}
	}
	w.UnseenWaits(func(op *workload.Op, late trace.Time) {
		if i := steps.of[op.ID]; i >= 0 {
			waits[i][w.Rows[op.Rank]] += late
		}
	})
	ran, mean := steps.Ran()
	counts := func(i int) bool { return steps.Has(i) && (i > 0 || phase > 0) }
	if _, _, out := steps.Disturbed(); out > 0 && phase == 0 {
		kept := steps.undisturbed(ran)
		counts = func(i int) bool { return slices.Contains(kept, i) }
	}
	work, least, sums := overlap.Collect(w.Run), trace.Infinity, make([]trace.Time, w.Captured)
	for i, round := range rounds {
		var busiest trace.Time
		for row, t := range work.PerIteration(round, 1, trace.Infinity) {
			busy := t.Compute + t.Transfer + t.Copies - waits[i][row]
			busiest, sums[row] = max(busiest, busy), sums[row]+busy
		}
		if counts(i) {
			least = min(least, busiest)
		}
	}
	if mean && phase == 0 {
		return slices.Max(sums) / trace.Time(len(ran))
	}
	return least
}

// Contradicts reports whether an estimate of a step's time without the profiler is so far above the captured time, which it cannot
// be, that kernels or iterations of the capture contradict each other; below that the captured time bounds it.
func Contradicts(estimate, captured trace.Time) bool {
	return float64(captured) < 0.95*float64(estimate)
}
