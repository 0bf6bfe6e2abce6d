package verdict

import (
	"math"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/workload"
)

// A level is the word for a probability (levelOf).
type level string

// The levels, best first.
const (
	High   level = "high"
	medium level = "medium"
	low    level = "low"
)

// A Confidence is how certain it is whether an outcome is faster than the captured schedule,
// and the main reason: the strongest caveat or, without one, what the prediction is made from.
type Confidence struct {
	Level  level  `json:"level,omitempty"` // follows from Chance.PFaster; "" for a bound or hardware that nobody has
	Why    string `json:"why"`
	Chance Chance `json:"-"`
}

// levelOf is the word for a probability: high where it leaves at most 5 % for the opposite,
// medium where it leaves at most 20 %.
func levelOf(p float64) level {
	switch far := max(p, 1-p); {
	case far >= 0.95:
		return High
	case far >= Likely:
		return medium
	}
	return low
}

// A Prediction is an outcome against the captured schedule: by how much it is faster, what that
// rests on and how certain it is. Verdicts, tables, files and sweeps are made from it.
type Prediction struct {
	engines.Outcome
	Change     float64 // of the captured schedule's expected time, relative: -0.1 is 10 % less; 0 without a result
	Evidence   Evidence
	Confidence Confidence
	Ways       []plan.Way   // how to get it; none of the captured schedule, of bounds and of hardware that nobody has
	Effort     plan.Effort  // of that
	Named      string       // its settings, or it, in the libraries' words ("bucket_cap_mb=50"), else in plain ones; "": there are none
	paused     float64      // ns of an iteration in which devices wait in pauses of the host
	Apart      []Prediction // of each phase, where they are answered apart (rule V34); then Change and Confidence are of none
}

// of is the prediction of a phase, from 1; 0: of all iterations.
func (p *Prediction) of(phase int) Prediction {
	if phase == 0 {
		return *p
	}
	return p.Apart[phase-1]
}

// Predict compares an outcome with the captured schedule. An outcome that cannot be has no result
// afterwards, and the reason (check).
func Predict(w *workload.Workload, captured, out engines.Outcome) Prediction {
	p := Prediction{Outcome: Timed(w, out)}
	if len(captured.Phases) > 1 && captured.Phase == 0 {
		for _, phase := range captured.Each() {
			p.Apart = append(p.Apart, Predict(w, captured.Of(phase), p.Outcome.Of(phase)))
		}
		return p
	}
	p.Evidence, p.Named = EvidenceOf(w, out), plainly(out.Selection)
	if out.Result == nil {
		p.Confidence = p.Evidence.Confidence(0)
		return p
	}
	p.Change = out.ChangeFrom(captured.Expected)
	_, _, paused, _ := waits(w, out)
	p.paused = paused * float64(out.Expected)
	p.check(w, captured)
	p.Confidence = p.Evidence.Confidence(p.Change)
	if captured := asCaptured(out.Selection); p.Result != nil && !p.Evidence.none && (captured || p.Same()) { // no change, by definition
		if p.Confidence = (Confidence{Level: levelOf(0), Why: "the same program as captured"}); captured {
			p.Confidence.Why = p.Evidence.Why
		}
		if DamageOf(w) != "" { // whether it ran so is not known
			p.Confidence.Level = low
		}
	}
	if p.Result == nil || asCaptured(out.Selection) || out.Strategy.Kind == plan.Future || out.Strategy.Kind == plan.Bound {
		return p
	}
	p.Ways, p.Effort = HowTo(w, out)
	if said := plan.Said(p.Ways); said != "" { // else a part has no words, which those of its settings would hide
		p.Named = strings.TrimPrefix(strings.TrimPrefix(said, "set "), "pass ")
	}
	if p.likely() {
		p.besideProfiler(w, captured)
	}
	return p
}

// plainly is a selection in a few plain words, with its settings; "": its strategy has none.
func plainly(s plan.Selection) string {
	if settings := s.Strategy.String(s.Values); s.Strategy.Plainly != "" && settings != "" {
		return s.Strategy.Plainly + " (" + settings + ")"
	}
	return s.Strategy.Plainly
}

// named is the prediction's change in words, else its strategy and settings.
func (p *Prediction) named() string {
	if p.Named == "" || p.Experimental() {
		return p.Selection.String()
	}
	return p.Named
}

// Same reports whether the prediction is of the captured program, so that it has no probability of another time.
func (p *Prediction) Same() bool { return p.Unchanged && math.Abs(p.Change) < unchanged }

// unchanged is the change below which a program is the captured one: times are rounded.
const unchanged = 0.0005

// likely reports whether the prediction can be recommended.
func (p *Prediction) likely() bool { return p.Confidence.Chance.PFaster >= Likely }

// Confidence is that of a predicted change, relative to the captured schedule's time.
func (e Evidence) Confidence(change float64) Confidence { return fitted.Confidence(change, e) }

// Confidence is that of a predicted change under a model.
func (m Model) Confidence(change float64, e Evidence) Confidence {
	if e.none {
		return Confidence{Why: e.Why}
	}
	c := m.chance(change, e)
	return Confidence{levelOf(c.PFaster), e.Why, c}
}
