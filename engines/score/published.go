package score

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/operator"
)

// Published is what a paper says of the workload file with that name and text as it is, under one of the strategies, and what a
// replay of those points gives: a sentence from the claims, with the known cause where the two are apart, or that no claim is of
// the file; "" if the file was changed, or has claims under other strategies only. What keeps a point from being the closest says
// which claim comes first; of equal ones it is that with the largest effect, then with the most points. files holds the workload
// files as shipped. The error is one of a replay, replay.ErrStopped included.
func Published(files fs.FS, name string, text []byte, strategies []plan.Selection, stop func() bool) (string, error) {
	papers, err := Papers()
	if err != nil {
		return "", err
	}
	f := shipped{name: path.Base(name), text: text, strategies: strategies}
	f.settings = slices.ContainsFunc(strategies, func(x plan.Selection) bool { return f.others(x.Strategy.Name) > 0 })
	if f.is, err = f.with(nil); err != nil {
		return "", err
	}
	c, of := f.closest(papers)
	if of == 0 {
		return f.nothing(files, papers), nil
	}
	replayed, err := Claims(files, []Claim{c.Claim}, nil, stop, nil, nil)
	if err != nil {
		return "", err
	}
	said := c.said(replayed[0].Points)
	if of > 1 {
		said += fmt.Sprintf("; %d more", of-1)
	}
	return said + "; compare: overlapse reproduce " + c.Paper + " --points", nil
}

// closest is the match that comes first, of so many.
func (f *shipped) closest(papers []Paper) (first match, of int) {
	for _, p := range papers {
		for _, c := range p.Claims {
			m := f.match(c)
			if m.rank < 0 {
				continue
			}
			if of++; of == 1 || cmp.Or(cmp.Compare(m.rank, first.rank), cmp.Compare(first.effect(), m.effect()),
				cmp.Compare(len(first.Points), len(m.Points))) < 0 {
				first = m
			}
		}
	}
	return first, of
}

// nothing says that no claim is of a file as it is shipped; "" if this is another file, or claims have it under other strategies.
func (f *shipped) nothing(files fs.FS, papers []Paper) string {
	text, err := fs.ReadFile(files, f.name)
	if err != nil {
		return ""
	}
	own := shipped{name: f.name, text: text} // under all strategies
	if own.is, err = own.with(nil); err != nil || own.is != f.is {
		return ""
	}
	if _, of := own.closest(papers); of > 0 {
		return ""
	}
	var others []string // papers whose claims change the file
	for _, p := range papers {
		changes := func(p Point) bool { return p.Workload == f.name }
		if slices.ContainsFunc(p.Claims, func(c Claim) bool { return slices.ContainsFunc(c.Points, changes) }) {
			others = append(others, p.Name)
		}
	}
	if len(others) == 0 {
		return "no number of this operator is among those that overlapse reproduce replays"
	}
	return "only of other sizes or machines than this file's; compare: overlapse reproduce " + strings.Join(others, " ") + " --points"
}

// A match is the points of a claim that are of a workload file.
type match struct {
	Claim
	rank int // the lowest of the points; negative: there are none
}

// match has the points of a claim that are of the file as the closest one is; of a sum over sizes, those of its own size.
func (f *shipped) match(c Claim) match {
	m := match{Claim: c, rank: -1}
	m.Points = nil
	for _, p := range c.Points {
		rank := f.fits(&p)
		if rank < 0 || m.rank >= 0 && rank&sameKind > m.rank&sameKind {
			continue
		}
		if m.rank < 0 || rank&sameKind < m.rank&sameKind {
			m.rank, m.Points = rank, nil
		}
		m.rank = min(m.rank, rank)
		if p.Over != nil {
			own := p.Over[slices.IndexFunc(p.sets(), func(set map[string]string) bool { return f.same(&p, set) })]
			p.With, p.Over = maps.Clone(p.With), nil
			maps.Copy(p.With, own)
		}
		m.Points = append(m.Points, p)
	}
	return m
}

// effect is the largest that is published of a match, as a fraction.
func (m match) effect() (most float64) {
	for _, p := range m.Points {
		e, _ := p.As.effect(p.Published)
		most = max(most, math.Abs(e))
	}
	return most
}

// said is what a claim says, with what replays of the points give and, where that is apart, why.
func (m match) said(points []Point) string {
	said := fmt.Sprintf("%s (%s, %s)", m.Says, m.ID, m.Where)
	isOne := m.rank&isSum != 0
	if isOne {
		said += ", over sizes of which this is one"
	}
	every, some := true, false // are within tolerance
	var numbers []string
	for _, p := range points {
		every, some = every && p.Within && p.SameSign, some || p.Within && p.SameSign
		here := "here " + p.As.Format(p.Here)
		switch {
		case p.Why != "":
			here = "not here: " + p.Why
		case p.As == order:
			here = map[bool]string{true: "here too", false: "not here"}[p.Within]
		}
		if p.Strategy != "" {
			here += " under " + p.Strategy
		}
		switch {
		case isOne:
		case p.As == order:
			here = p.Label + ": " + here
		default:
			here = strings.TrimSpace(p.Label+" "+p.As.Format(p.Published)) + ", " + here
		}
		if !slices.Contains(numbers, here) {
			numbers = append(numbers, here)
		}
	}
	said += "; " + strings.Join(numbers, "; ")
	switch {
	case points[0].Apart != "":
		said += "; not scored: " + points[0].Apart
	case m.Why != "" && !every && !(isOne && some):
		said += "; why apart: " + m.Why
	}
	return said
}

// What keeps a point from being the closest to a file, from the least.
const (
	isSum   = 1 << iota // over several sizes
	isApart             // not scored
	isOther             // times the strategy's settings that are not as by default, at most so many, where none were selected

	most       = 7
	isNoEffect = isOther * (most + 1)    // not of the time of a strategy over that without overlap
	isSelected = isNoEffect << 1         // times other settings, where settings were selected
	isRepeat   = isSelected * (most + 1) // of another claim

	sameKind = isSum | isApart | isRepeat // points that are shown together
)

// A shipped is a workload file as a user has it.
type shipped struct {
	name       string
	text       []byte
	strategies []plan.Selection // nil: all
	settings   bool             // of the strategies, some are not as by default
	is         string           // what it says, without changes
}

// with is what the file says with other values of keys; "" if they do not fit.
func (f *shipped) with(set map[string]string) (string, error) {
	is, err := operator.Parse(bytes.NewReader(f.text), f.name, set)
	if err != nil {
		return "", err
	}
	return is.Setting(), nil
}

// same reports whether an experiment is this file under one of the strategies.
func (f *shipped) same(p *Point, set map[string]string) bool {
	strategy, _, _ := strings.Cut(p.Strategy, ":")
	selected := func(x plan.Selection) bool { return x.Strategy.Name == strategy }
	if p.Workload != f.name || f.strategies != nil && !slices.ContainsFunc(f.strategies, selected) {
		return false
	}
	is, err := f.with(set)
	return err == nil && is == f.is
}

// fits is 0 for a number of this file alone, more for points that are less close to it, and negative for other points.
func (f *shipped) fits(p *Point) (rank int) {
	if p.Apart != "" {
		rank |= isApart
	}
	if strings.HasPrefix(p.Apart, "repeats ") {
		rank |= isRepeat
	}
	sides := []*Point{p}
	if p.As == order {
		sides = []*Point{p.More, p.Less}
	}
	other := most
	for _, side := range sides {
		if side == nil || !slices.ContainsFunc(side.sets(), func(set map[string]string) bool { return f.same(side, set) }) {
			return -1
		}
		other = min(other, f.others(side.Strategy))
	}
	if p.Over != nil {
		rank |= isSum
	}
	if f.settings {
		rank += isSelected * other
	} else {
		rank += isOther * other
	}
	_, isEffect := p.As.effect(0)
	against := kindOf(p.Against)
	isOfBase := against == plan.Exact || against == plan.Plain && !strings.Contains(p.Against, ":") // without settings
	if !isEffect || kindOf(p.Strategy) == plan.Bound || p.Measure != "" || !isOfBase {
		rank |= isNoEffect
	}
	return rank
}

// kindOf is the kind of a selected strategy; 0: it has none, or nothing is selected.
func kindOf(selection string) plan.Kind {
	name, _, _ := strings.Cut(selection, ":")
	e, _ := engines.Named(name)
	return e.Kind
}

// others counts the settings of a strategy that are not as in the selected one that is closest.
func (f *shipped) others(strategy string) int {
	n := most
	of, err := engines.ParseSelection(strategy)
	if err != nil || len(of) != 1 {
		return n
	}
	for _, x := range f.strategies {
		differ := 0
		for name, v := range of[0].Values {
			if v != x.Values[name] {
				differ++
			}
		}
		if x.Strategy.Name == of[0].Strategy.Name {
			n = min(n, differ)
		}
	}
	return n
}
