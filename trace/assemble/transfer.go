package assemble

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// Transfer gives the device operations of iterations that lack storages those of
// operations in another run of the same program, or in another iteration or rank of the
// same run (from may be run). What was recorded is repeated until there are about as many
// operations, and aligned with them by name and size, in the order in which the host issued them.
// A rank takes them from the rank with its id, else from the first one that fits; file is the
// place of from. The run is not changed.
func Transfer(run, from *trace.Run, file string) *trace.Run {
	t := transfer{run: run, from: from, file: file, keys: map[string]int32{}, done: *run}
	t.done.Kernels, t.done.Copies = slices.Clone(run.Kernels), slices.Clone(run.Copies)
	t.done.Uses, t.done.Accesses = slices.Clip(run.Uses), slices.Clip(run.Accesses)
	t.done.Ledger.Entries = slices.Clip(run.Ledger.Entries)
	theirs := t.sequences(from)
	ours := theirs
	if from != run {
		ours = t.sequences(run)
		t.done.Accesses = append(t.done.Accesses, from.Accesses...)
	}
	found := false
	for row := range ours {
		q := &ours[row]
		if unknown := slices.Concat(q.ops[:q.from], q.ops[q.to:]); len(unknown) > 0 && t.rank(row, unknown, theirs) {
			found = true
		}
	}
	if !found {
		ledger := t.done.Ledger
		t.done = *run
		t.done.Ledger = ledger
	}
	return &t.done
}

type transfer struct {
	run, from *trace.Run
	file      string
	keys      map[string]int32
	done      trace.Run
}

// A sequence is the device operations of a rank in order of issue. Those from the first to the
// last with storages were recorded.
type sequence struct {
	ops      []issued
	from, to int
}

type issued struct {
	span trace.SpanID
	at   trace.Time
	key  int32 // name and size
	uses int32
}

// sequences lists every rank's device operations.
func (t *transfer) sequences(run *trace.Run) []sequence {
	all := make([]sequence, len(run.Ranks))
	for i, s := range run.Spans {
		if !s.Kind.OnDevice() {
			continue
		}
		op := issued{span: trace.SpanID(i), at: s.Start, key: t.key(run, s), uses: run.UsesOf(s)}
		if l := run.LaunchOf(s); l != trace.None {
			op.at = run.Spans[l].Start
		}
		q := &all[run.RankOf(s)]
		q.ops = append(q.ops, op)
	}
	for row := range all {
		q := &all[row]
		slices.SortStableFunc(q.ops, func(a, b issued) int { return cmp.Compare(a.at, b.at) })
		for i, op := range q.ops {
			if op.uses != 0 && q.to == 0 {
				q.from = i
			}
			if op.uses != 0 {
				q.to = i + 1
			}
		}
	}
	return all
}

// key is a number for what must be equal in two runs: an operation's name and size.
func (t *transfer) key(run *trace.Run, s trace.Span) int32 {
	text := run.NameOf(s)
	if k := run.Kernel(s); k != nil {
		s := run.Setup(k)
		text = fmt.Sprint(text, s.Grid, s.Block)
	}
	if c := run.Comm(s); c != nil {
		text = fmt.Sprint(text, c.Op, c.In, c.Out)
	}
	if c := run.Copy(s); c != nil {
		text = fmt.Sprint(text, c.Dir, c.Bytes)
	}
	return trace.Number(t.keys, text)
}

// fewestAligned is the smallest share, in percent, of a rank's operations for which
// another run is one of the same program.
const fewestAligned = 90

// rank gives a rank its accesses, and reports whether a rank with the same operations
// was found.
func (t *transfer) rank(row int, ours []issued, theirs []sequence) bool {
	source := &t.run.Ranks[row]
	best := 0
	for _, other := range t.order(row, theirs) {
		pairs := repeat(ours, theirs[other].ops[theirs[other].from:theirs[other].to])
		if t.from == t.run && other == row {
			for i := range pairs {
				pairs[i].pass++ // pass 0 is the recorded operations themselves
			}
		}
		best = max(best, len(pairs))
		if len(pairs)*100 < fewestAligned*len(ours) {
			continue
		}
		known := t.apply(pairs)
		t.done.Ledger.Add(trace.Noted, t.file, fmt.Sprintf("storages of %d of %d operations of rank %d taken from rank %d of this execution trace",
			known, len(ours), source.ID, t.from.Ranks[other].ID), "", 0)
		return true
	}
	if t.from != t.run && len(t.from.Uses) == 0 {
		t.done.Ledger.Add(trace.Noted, t.file, "folder ignored: it has no execution trace of its profile", "", 0)
	} else if t.from != t.run {
		t.done.Ledger.Add(trace.Noted, t.file, fmt.Sprintf("execution trace ignored for rank %d: %d of its %d operations are like those of this trace", source.ID, best, len(ours)), "", 0)
	}
	return false
}

// maxTried bounds the ranks whose operations are compared with those of one rank.
const maxTried = 8

// order lists the ranks with storages to try for a rank: that with its id first.
func (t *transfer) order(row int, theirs []sequence) []int {
	var rows []int
	for other := range theirs {
		if theirs[other].to > 0 {
			rows = append(rows, other)
		}
	}
	same := func(other int) int {
		if t.from.Ranks[other].ID == t.run.Ranks[row].ID {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(same(a), same(b)) })
	return rows[:min(len(rows), maxTried)]
}

// A pairing is an operation and the number of another one's row of Uses, or 0.
type pairing struct {
	span trace.SpanID
	uses int32
	pass int32
}

// repeat aligns operations with recorded ones, over and over. Each repetition is looked for in a
// quarter more operations than were recorded, so that differences do not add up.
func repeat(ours, recorded []issued) (list []pairing) {
	for pass := range max(1, (len(ours)+len(recorded)/2)/len(recorded)) {
		end := 0
		for _, p := range align(ours[:min(len(ours), len(recorded)+len(recorded)/4)], recorded) {
			list = append(list, pairing{ours[p[0]].span, recorded[p[1]].uses, int32(pass)})
			end = p[0] + 1
		}
		ours = ours[end:]
	}
	return list
}

// apply sets the accesses of operations and returns the number of those. Those of one
// operator in one pass share a row.
func (t *transfer) apply(pairs []pairing) (known int) {
	type key struct{ uses, pass int32 }
	rows := map[key]int32{}
	first := int32(0)
	if t.from != t.run {
		first = int32(len(t.run.Accesses))
	}
	for _, p := range pairs {
		if p.uses == 0 {
			continue
		}
		known++
		n := trace.Memo(rows, key{p.uses, p.pass}, func() int32 {
			u := t.from.Uses[p.uses-1]
			u.First, u.Pass = u.First+first, u.Pass+p.pass
			return trace.Push(&t.done.Uses, u) + 1
		})
		s := t.run.Spans[p.span]
		switch {
		case s.Attr == trace.None:
		case s.Kind == trace.Copy:
			t.done.Copies[s.Attr].Uses = n
		default:
			t.done.Kernels[s.Attr].Uses = n
		}
	}
	return known
}

// mostDifferences bounds the operations that only one of two sequences has, and so the
// memory of the alignment.
const mostDifferences = 1000

// align pairs equal operations of two sequences in order, as many as there can be.
func align(a, b []issued) [][2]int {
	return trace.LongestCommon(len(a), len(b), mostDifferences, func(i, j int) bool { return a[i].key == b[j].key })
}
