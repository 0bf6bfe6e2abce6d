package score

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/operator"
)

// Published is what a paper says of the workload file with that name and text as it is, under one of the strategies: a
// sentence from the claims, "" if none is of this very setting. A number of the file alone comes before an order of two, one
// that sums up several sizes, each of these before such as are not scored, and all before those of a strategy's other settings.
func Published(name string, text []byte, strategies []plan.Selection) (string, error) {
	papers, err := Papers()
	if err != nil {
		return "", err
	}
	f := shipped{name: path.Base(name), text: text, strategies: strategies}
	if f.is, err = f.with(nil); err != nil {
		return "", err
	}
	type match struct {
		Claim
		rank    int      // of the closest point
		numbers []string // of the file alone
	}
	var found []match
	for _, p := range papers {
		for _, c := range p.Claims {
			m := match{Claim: c, rank: -1}
			for i := range c.Points {
				p := &c.Points[i]
				rank := f.fits(p)
				if rank >= 0 && (m.rank < 0 || rank < m.rank) {
					m.rank, m.Apart = rank, p.Apart
				}
				if rank >= 0 && rank&^beside == 0 {
					m.numbers = append(m.numbers, strings.TrimSpace(p.Label+" "+p.As.Format(p.Published)))
				}
			}
			if m.rank >= 0 {
				found = append(found, m)
			}
		}
	}
	if len(found) == 0 {
		return "", nil
	}
	c := slices.MinFunc(found, func(a, b match) int { return a.rank - b.rank }) // the first of equal ones
	said := fmt.Sprintf("%s (%s, %s)", c.Says, c.ID, c.Where)
	switch c.rank &^ beside {
	case isSum:
		said += ", over sizes of which this is one"
	case 0:
		said += ": " + strings.Join(c.numbers, ", ")
	}
	if c.Apart != "" {
		said += "; not scored: " + c.Apart
	}
	if n := len(found) - 1; n > 0 {
		said += fmt.Sprintf("; %d more", n)
	}
	return said + "; compare: overlapse reproduce " + c.Paper + " --points", nil
}

// What keeps a point from being the closest to a file.
const (
	isOrder = 1 << iota
	isSum
	isApart
	isRepeat // of another claim
	isOther  // settings of the strategy

	beside = isApart | isRepeat | isOther // of a number of the file alone, too
)

// A shipped is a workload file as a user has it.
type shipped struct {
	name       string
	text       []byte
	strategies []plan.Selection
	is         string // what it says, without changes
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
	if p.Workload != f.name || !slices.ContainsFunc(f.strategies, func(x plan.Selection) bool { return x.Strategy.Name == strategy }) {
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
	switch {
	case p.As == order:
		if p.More == nil || p.Less == nil || f.fits(p.More)&^isOther != 0 || f.fits(p.Less)&^isOther != 0 {
			return -1
		}
		return rank | isOrder | f.fits(p.More)&f.fits(p.Less)&isOther
	case p.Over != nil:
		if !slices.ContainsFunc(p.sets(), func(set map[string]string) bool { return f.same(p, set) }) {
			return -1
		}
		return rank | isSum
	case !f.same(p, keys(p.With)):
		return -1
	}
	if !f.selects(p.Strategy) {
		rank |= isOther
	}
	return rank
}

// selects reports whether a strategy with these settings is one of those selected.
func (f *shipped) selects(strategy string) bool {
	of, err := engines.ParseSelection(strategy)
	return err == nil && len(of) == 1 && slices.ContainsFunc(f.strategies, func(x plan.Selection) bool {
		return x.Strategy.Name == of[0].Strategy.Name && maps.Equal(x.Values, of[0].Values)
	})
}
