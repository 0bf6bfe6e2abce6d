package assemble

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/overlapse/overlapse/trace"
)

// Join joins runs of different ranks of one job into one run, with rank rows in order
// of rank id. Times are put on one clock by the runs' epochs, or by the clock of the
// machine that recorded all of them. The ends of collectives that a rank shares with
// rank row 0 then show how well the clocks agree: a clock with a constant offset is
// shifted, and the median of the remaining absolute differences is the rank's
// Uncertainty. A rank that shares no collective with row 0 is compared with the first
// row that it does share one with.
//
// If no run has a rank id, runs are numbered in order of their names. Runs that hold
// different parts of the same rank, such as kernels and host calls, on one clock, are
// first united; it is an error if two hold the same part. It is an error if runs have
// no collective in common and their clocks put them in different time windows.
func Join(runs []*trace.Run, name string) (*trace.Run, error) {
	m := merger{name: name}
	runs = slices.Clone(runs)
	slices.SortStableFunc(runs, func(a, b *trace.Run) int {
		return cmp.Or(cmp.Compare(firstRank(a), firstRank(b)), natural(a.Name, b.Name))
	})
	runs, err := unite(runs)
	if err != nil {
		return nil, err
	}
	m.number(runs)
	if err := distinct(runs); err != nil {
		return nil, err
	}
	if len(runs) == 1 {
		return m.only(runs[0]), nil // the reader has validated it
	}
	m.simulated = len(runs) > 0 && runs[0].Simulated
	if err := m.clock(runs); err != nil {
		return nil, err
	}
	m.align(runs)
	if err := m.oneWindow(runs); err != nil {
		return nil, err
	}
	m.joinAll(runs)
	m.noteMissing(&m.b.Run)
	run := m.b.Finish(trace.Options{Name: name, Epoch: m.epoch, HostClock: m.hostClock, Simulated: m.simulated, Linked: true})
	if err := trace.Check(run); err != nil {
		return nil, err
	}
	return run, nil
}

// firstRank is the rank id that a run is sorted by.
func firstRank(r *trace.Run) int {
	if len(r.Ranks) == 0 {
		return trace.None
	}
	return r.Ranks[0].ID
}

// natural compares names so that rank10 comes after rank9.
func natural(a, b string) int {
	for a != "" && b != "" {
		m, restA := leadingNumber(a)
		n, restB := leadingNumber(b)
		if len(restA) == len(a) || len(restB) == len(b) {
			if a[0] != b[0] {
				return cmp.Compare(a[0], b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		if m != n {
			return cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n))
		}
		a, b = restA, restB
	}
	return cmp.Compare(len(a), len(b))
}

// leadingNumber cuts the leading digits off s and returns them without leading zeros.
func leadingNumber(s string) (digits, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return strings.TrimLeft(s[:len(s)-len(rest)], "0"), rest
}

// number gives the runs rank ids in their order if no file has a rank id.
func (m *merger) number(runs []*trace.Run) {
	if len(runs) < 2 || slices.ContainsFunc(runs, func(r *trace.Run) bool { return len(r.Ranks) != 1 || r.Ranks[0].ID != trace.None }) {
		return
	}
	for i, r := range runs {
		numbered := *r
		numbered.Ranks = slices.Clone(r.Ranks)
		numbered.Ranks[0].ID = i
		runs[i] = &numbered
		m.numbered = true
		m.b.Note(trace.Noted, r.Ranks[0].Source, fmt.Sprintf("the file has no rank id: assigned rank %d, by order of names", i), "", 0)
	}
}

func distinct(runs []*trace.Run) error {
	type rank struct {
		run string
		id  int
	}
	seen := map[rank]string{}
	for _, r := range runs {
		for _, k := range r.Ranks {
			if k.ID == trace.None {
				continue
			}
			if first, ok := seen[rank{k.Run, k.ID}]; ok {
				return &trace.SyntaxError{
					File: k.Source,
					Msg:  fmt.Sprintf("rank %d is also in %s", k.ID, first),
					Cure: "give one file per rank, all of the same profiled window",
				}
			}
			seen[rank{k.Run, k.ID}] = k.Source
		}
	}
	return nil
}

type merger struct {
	b     trace.Builder
	name  string
	epoch int64        // of the common clock, or 0
	start []trace.Time // by run: its time 0 on the common clock

	ranks []alignment

	simulated bool
	hostClock bool // the common clock is the machine's clock since its start
	numbered  bool // no file has a rank id
	parts     bool // all runs are of one rank
}

// clock puts the runs on one clock: by their epochs if all have one, else by the
// machine's clock if all were recorded on one machine, else with a common start. It is
// an error if that puts times out of Time's range.
func (m *merger) clock(runs []*trace.Run) error {
	m.start = make([]trace.Time, len(runs))
	switch {
	case !slices.ContainsFunc(runs, func(r *trace.Run) bool { return r.Epoch == 0 }):
		m.epoch = slices.MinFunc(runs, func(a, b *trace.Run) int { return cmp.Compare(a.Epoch, b.Epoch) }).Epoch
		for i, r := range runs {
			m.start[i] = trace.Time(r.Epoch - m.epoch)
		}
	case oneMachine(runs):
		m.hostClock = true
		for i, r := range runs {
			m.start[i] = trace.Time(r.Clock)
		}
	}
	for i, r := range runs {
		if m.start[i] < 0 || m.start[i] > trace.MaxTime || r.End > trace.MaxTime-m.start[i] {
			return tooFar(r.Name, max(m.start[i], r.End))
		}
	}
	return nil
}

func tooFar(file string, off trace.Time) error {
	return &trace.SyntaxError{
		File: file,
		Msg:  fmt.Sprintf("its times are up to %s from those of the other ranks", trace.Roughly(off)),
		Cure: "give the ranks of the same profiled window",
	}
}

// mostApart is the largest accepted gap between the windows of two ranks: the clocks of
// two nodes may differ.
const mostApart = trace.Time(10 * time.Second)

// oneWindow is an error if a run has no collective in common with the first and its
// clock puts it in a different window. Runs without rank ids must overlap.
func (m *merger) oneWindow(runs []*trace.Run) error {
	if m.epoch == 0 && !m.hostClock {
		return nil
	}
	most := mostApart
	if m.numbered {
		most = 0
	}
	for _, a := range m.ranks {
		if a.known {
			continue
		}
		if gap := apart(runs[0], runs[a.run]); gap > most {
			return &trace.SyntaxError{
				File: runs[a.run].Ranks[a.row].Source,
				Msg: fmt.Sprintf("its times are %s from those of %s, and they have no collective in common",
					trace.Roughly(gap), runs[0].Ranks[0].Source),
				Cure: "open each separately, or give the ranks of the same profiled window",
			}
		}
	}
	return nil
}

// oneMachine reports whether all runs have readings of one machine's clock, as far as
// known.
func oneMachine(runs []*trace.Run) bool {
	host := ""
	for _, r := range runs {
		if r.Clock == 0 {
			return false
		}
		for _, k := range r.Ranks {
			host = cmp.Or(host, k.Host)
			if k.Host != "" && k.Host != host {
				return false
			}
		}
	}
	return true
}

// only returns the result for a merge of a single run. It shares the run's tables.
func (m *merger) only(r *trace.Run) *trace.Run {
	run := *r
	run.Name, run.Captured = m.name, nil
	run.Ledger.Entries = slices.Clone(r.Ledger.Entries)
	m.noteMissing(&run)
	run.Ledger.Sort()
	if run.Collectives == nil { // it was one of several files, of which the others are no traces
		run.MatchCollectives()
	}
	if len(r.Ranks) == 1 && r.Ranks[0].ID == trace.None && r.Ranks[0].World <= 1 {
		run.Ranks = slices.Clone(r.Ranks)
		run.Ranks[0].ID = 0
	}
	return &run
}

// noteMissing notes the number of ranks of the job without a file.
func (m *merger) noteMissing(r *trace.Run) {
	world := 0
	have := map[int]bool{}
	for _, k := range r.Ranks {
		world = max(world, k.World)
		have[k.ID] = true
	}
	if world > len(have) && !have[trace.None] {
		r.Ledger.Add(trace.Noted, m.name, fmt.Sprintf("the job has %d ranks, there are files for %d", world, len(have)), "", 0)
	}
}
