package assemble

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A part is a kind of data that only one file of a rank may have.
type part uint8

const (
	partKernels part = iota
	partCopies
	partWorkgroups
	partHost
	numParts
)

func (p part) String() string {
	return [...]string{"kernels", "copies", "workgroups", "host calls"}[p]
}

// parts returns the parts that a run has.
func parts(r *trace.Run) (has [numParts]bool) {
	for _, s := range r.Spans {
		switch {
		case s.Kind == trace.Compute || s.Kind == trace.Collective:
			has[partKernels] = true
		case s.Kind == trace.Copy || s.Kind == trace.Transfer:
			has[partCopies] = true
		case s.Kind.InKernel():
			has[partWorkgroups] = true
		case s.Kind == trace.HostCall || s.Kind == trace.Launch:
			has[partHost] = true
		}
	}
	return has
}

// unite joins runs that are parts of one rank: those with the same rank id, and a run
// of only host calls with the single other run without rank id. The parts must share a
// clock, and no two may be of the same kind.
//
// Runs that are profiles of several stages of the same ranks, as SGLang writes them, are joined
// one after another.
func unite(runs []*trace.Run) ([]*trace.Run, error) {
	runs = closeGaps(runs)
	var whole []*trace.Run
	for _, r := range joinHostSide(runs) {
		at := slices.IndexFunc(whole, func(w *trace.Run) bool { return sameRank(w, r) })
		if at < 0 {
			whole = append(whole, r)
			continue
		}
		both, err := joinParts(whole[at], r)
		if err != nil {
			return nil, err
		}
		whole[at] = both
	}
	return whole, nil
}

func sameRank(a, b *trace.Run) bool {
	return len(a.Ranks) == 1 && len(b.Ranks) == 1 && a.Ranks[0].ID != trace.None &&
		a.Ranks[0].ID == b.Ranks[0].ID && a.Ranks[0].Run == b.Ranks[0].Run
}

// joinHostSide joins two runs without rank id if one has only host calls and the other
// has none.
func joinHostSide(runs []*trace.Run) []*trace.Run {
	if len(runs) != 2 || len(runs[0].Ranks) != 1 || len(runs[1].Ranks) != 1 || runs[0].Ranks[0].ID != trace.None ||
		runs[1].Ranks[0].ID != trace.None {
		return runs
	}
	for i, r := range runs {
		has, other := parts(r), parts(runs[1-i])
		hostOnly := has == [numParts]bool{partHost: true} && !other[partHost] && (other[partKernels] || other[partCopies])
		if !hostOnly || !oneClock(r, runs[1-i]) || apart(r, runs[1-i]) > 0 {
			continue
		}
		if both, err := joinParts(runs[1-i], r); err == nil {
			return []*trace.Run{both}
		}
	}
	return runs
}

// oneClock reports whether the runs have a common clock.
func oneClock(a, b *trace.Run) bool {
	return a.Epoch != 0 && b.Epoch != 0 || oneMachine([]*trace.Run{a, b})
}

// apart is the gap between two runs on one clock; 0 if they overlap.
func apart(a, b *trace.Run) trace.Time {
	from := trace.Time(b.Epoch - a.Epoch)
	if a.Epoch == 0 || b.Epoch == 0 {
		from = trace.Time(b.Clock - a.Clock)
	}
	return max(0, from-a.End, -from-b.End)
}

// joinParts joins two runs that are parts of one rank.
func joinParts(a, b *trace.Run) (*trace.Run, error) {
	fail := func(msg, cure string) error {
		return &trace.SyntaxError{File: b.Ranks[0].Source, Msg: fmt.Sprintf(msg, b.Ranks[0].ID, a.Ranks[0].Source), Cure: cure}
	}
	hasA, hasB := parts(a), parts(b)
	stages := ofStages(a, b)
	for p := range numParts {
		if hasA[p] && hasB[p] && !stages {
			return nil, fail("rank %d is also in %s, and both have "+p.String(), "give one file per rank, all of the same profiled window")
		}
	}
	switch {
	case hasA == [numParts]bool{} && hasB == [numParts]bool{}:
		return nil, fail("rank %d is also in %s", "give one file per rank, all of the same profiled window")
	case stages && !consecutive(a, b):
		return nil, fail("rank %d is also in %s, and both stages were profiled at the same time", "give the file of one stage")
	case !oneClock(a, b):
		return nil, fail("rank %d is also in %s, and the relation of their clocks is unknown", "give one of them, or parts on one clock")
	case apart(a, b) > 0 && !stages:
		return nil, fail("rank %d is also in %s, "+trace.Roughly(apart(a, b))+" apart", "give the files of one profiled window")
	}
	m := merger{name: a.Name, ranks: []alignment{{known: true}}, parts: true, simulated: a.Simulated}
	runs := []*trace.Run{a, b}
	if err := m.clock(runs); err != nil {
		return nil, err
	}
	m.reserve(runs)
	m.add(a, 0)
	calls, kernels := len(m.b.Run.Calls), len(m.b.Run.Kernels)
	copies := len(m.b.Run.Copies)
	m.add(b, 1)
	t := &m.b.Run
	m.b.Note(trace.Noted, b.Ranks[0].Source, "joined with "+a.Ranks[0].Source+": parts of one rank", "", 0)
	if !stages && !linkParts(t) {
		for i := calls; i < len(t.Calls); i++ {
			t.Calls[i].Correlation = 0
		}
		for i := kernels; i < len(t.Kernels); i++ {
			t.Kernels[i].Correlation = 0
		}
		for i := copies; i < len(t.Copies); i++ {
			t.Copies[i].Correlation = 0
		}
		linkParts(t) // the remaining work is of one part
		m.b.Note(trace.Noted, b.Ranks[0].Source, "its correlation numbers differ from those of "+a.Ranks[0].Source+
			": launches are unknown", "", 0)
	}
	return m.b.Finish(trace.Options{Name: a.Name, Epoch: m.epoch, HostClock: m.hostClock, Simulated: m.simulated, Linked: true}), nil
}

// linkParts links the calls of one part with the device work of the other. It does
// nothing and returns false if matching correlations would start work before its call:
// then two tools numbered independently.
func linkParts(r *trace.Run) bool {
	r.Link(false)
	launches, late := 0, 0
	for _, s := range r.Spans {
		if id := r.LaunchOf(s); id != trace.None {
			launches++
			if r.Spans[id].Start > s.Start {
				late++
			}
		}
	}
	const mostLate = 10 // percent of launches: host and device clocks agree to a microsecond at best
	if late*100 > mostLate*launches {
		return false
	}
	r.Link(true)
	return true
}
