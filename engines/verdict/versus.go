package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A versus is the difference between two strategies on the critical path of one iteration.
type versus struct {
	Strategy string     `json:"strategy"`
	Change   trace.Time `json:"change_ns"`         // sum of the differences
	Parts    []Part     `json:"parts"`             // differences, the largest gain first
	Names    []Part     `json:"names"`             // the same by name of kernel and copy
	Late     trace.Time `json:"late_ns,omitempty"` // time for which workgroups of the last name waited for a slot
}

// signedParts is the parts of one of n iterations, with a sign.
func signedParts(parts []Part, n int) []Part {
	parts = slices.Clone(parts)
	for i := range parts {
		parts[i].Time /= trace.Time(n)
	}
	return parts
}

// difference is the first parts minus the others, smallest first.
func difference(of, base []Part) []Part {
	sum := sums(slices.Clone(of))
	for _, p := range base {
		sum.add(p.What, -p.Time)
	}
	sum = slices.DeleteFunc(sum, func(p Part) bool { return p.Time == 0 })
	slices.SortStableFunc(sum, func(a, b Part) int { return cmp.Compare(a.Time, b.Time) })
	return sum
}

// Against compares the explained strategy with another for one iteration.
func (e *Explanation) Against(strategy string, base Explanation) {
	e.Versus = &versus{
		Strategy: strategy, Change: e.Time/trace.Time(e.Rounds) - base.Time/trace.Time(base.Rounds),
		Parts: difference(signedParts(e.Parts, e.Rounds), signedParts(base.Parts, base.Rounds)),
		Names: difference(signedParts(e.Names, e.Rounds), signedParts(base.Names, base.Rounds)),
	}
	if n := len(e.Versus.Names); n > 0 {
		for _, l := range e.Path {
			if l.Names[0].What == e.Versus.Names[n-1].What {
				e.Versus.Late = max(e.Versus.Late, l.Late)
			}
		}
	}
}

// Sentence says what is gained and lost on the critical path; nothing below a twentieth of the largest part.
func (v *versus) Sentence() string {
	var gains, pays []string
	most := trace.Time(0)
	for _, p := range v.Parts {
		most = max(most, engines.Abs(p.Time))
	}
	for i := range v.Parts {
		gain, pay := v.Parts[i], v.Parts[len(v.Parts)-1-i]
		if gain.Time < 0 && -gain.Time*20 >= most && len(gains) < 3 {
			gains = append(gains, fmt.Sprintf("%s of %s", trace.Micros(-gain.Time), gain.What))
		}
		if pay.Time > 0 && pay.Time*20 >= most && len(pays) < 3 {
			pays = append(pays, fmt.Sprintf("%s of %s", trace.Micros(pay.Time), pay.What))
		}
	}
	var words []string
	if len(gains) > 0 {
		words = append(words, "saves "+list(gains))
	}
	if len(pays) > 0 {
		words = append(words, "pays "+list(pays))
		if n := len(v.Names); n > 0 && v.Names[n-1].Time*5 >= most {
			late := ""
			if v.Late > 0 {
				late = fmt.Sprintf(": its workgroups found slots up to %s late", trace.Micros(v.Late))
			}
			words[len(words)-1] += fmt.Sprintf(" (above all %s, %s longer%s)", workload.FunctionName(v.Names[n-1].What), trace.Micros(v.Names[n-1].Time), late)
		}
	}
	if len(words) == 0 {
		return "the critical path of the " + v.Strategy + " schedule"
	}
	return strings.Join(words, ", but ")
}

// list joins words with commas and "and".
func list(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " and " + words[n]
	}
	return words[0]
}
