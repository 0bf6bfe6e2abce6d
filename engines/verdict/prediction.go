package verdict

import (
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/replay/workload"
)

// A Level is the word for a probability (levelOf).
type Level string

// The levels, best first.
const (
	High   Level = "high"
	Medium Level = "medium"
	Low    Level = "low"
)

// A Confidence is how certain it is whether an outcome is faster than the captured schedule,
// and the main reason: the strongest caveat or, without one, what the prediction is made from.
type Confidence struct {
	Level  Level  `json:"level,omitempty"` // follows from Chance.PFaster; "" for a bound or hardware that nobody has
	Why    string `json:"why"`
	Chance Chance `json:"-"`
}

// levelOf is the word for a probability: high where it leaves at most 5 % for the opposite,
// medium where it leaves at most 20 %.
func levelOf(p float64) Level {
	switch far := max(p, 1-p); {
	case far >= 0.95:
		return High
	case far >= Likely:
		return Medium
	}
	return Low
}

// A Prediction is an outcome against the captured schedule: by how much it is faster, what that
// rests on and how certain it is. Verdicts, tables, files and sweeps are made from it.
type Prediction struct {
	compare.Outcome
	Change     float64 // of the captured schedule's expected time, relative: -0.1 is 10 % less; 0 without a result
	Evidence   Evidence
	Confidence Confidence
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
func Predict(w *workload.Workload, captured, out compare.Outcome) Prediction {
	p := Prediction{Outcome: explain.Timed(w, out)}
	if len(captured.Phases) > 1 && captured.Phase == 0 {
		for _, phase := range captured.Each() {
			p.Apart = append(p.Apart, Predict(w, captured.Of(phase), p.Outcome.Of(phase)))
		}
		return p
	}
	p.Evidence = EvidenceOf(w, out)
	if out.Result == nil {
		p.Confidence = p.Evidence.Confidence(0)
		return p
	}
	p.Change = out.ChangeFrom(captured.Expected)
	p.check(w, captured)
	if p.Confidence = p.Evidence.Confidence(p.Change); asCaptured(out.Selection) && p.Result != nil { // no change, by definition
		p.Confidence = Confidence{Level: levelOf(0), Why: p.Evidence.Why}
		if DamageOf(w) != "" { // whether it ran so is not known
			p.Confidence.Level = Low
		}
	}
	if p.likely() && p.Result != nil {
		p.besideProfiler(w, captured)
	}
	return p
}

// likely reports whether the prediction can be recommended.
func (p *Prediction) likely() bool { return p.Confidence.Chance.PFaster >= Likely }

// Confidence is that of a predicted change, relative to the captured schedule's time.
func (e Evidence) Confidence(change float64) Confidence { return fitted.Confidence(change, e) }

// Confidence is that of a predicted change under a model.
func (m Model) Confidence(change float64, e Evidence) Confidence {
	if e.none {
		return Confidence{Why: e.Why}
	}
	c := m.Chance(change, e)
	return Confidence{levelOf(c.PFaster), e.Why, c}
}
