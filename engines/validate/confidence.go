package validate

import (
	"math"

	"github.com/overlapse/overlapse/engines/verdict"
)

// A ClassScore is how well predictions of one level did.
type ClassScore struct {
	Level       verdict.Level
	N           int
	Median, P90 float64 // of |error|
}

// ByConfidence are the errors by level, best level first; levels without rows are left out.
func ByConfidence(checks []Check) []ClassScore {
	var scores []ClassScore
	for _, level := range verdict.Levels() {
		var errs []float64
		for _, c := range checks {
			if c.Why == "" && c.Confidence.Level == level {
				errs = append(errs, math.Abs(c.Error()))
			}
		}
		if len(errs) > 0 {
			s := score(string(level), errs)
			scores = append(scores, ClassScore{level, s.N, s.Median, s.P90})
		}
	}
	return scores
}
