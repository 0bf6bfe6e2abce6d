package assemble

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// Transfer gives the device operations of iterations that lack storages those of
// operations in another run of the same program, or in another iteration or rank of the
// same run (from may be run). Operations are aligned by name and size, in the order in which the
// host issued them, in each iteration that the profiler marked. A rank takes them from
// the rank with its id, else from the first one that fits; file is the place of from.
// The run is not changed.
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
		if q := ours[row].unknown(); q.ops > 0 && t.rank(row, &q, theirs) {
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

// A sequence is the device operations of a rank by iteration, in order of issue.
type sequence struct {
	steps      [][]issued
	ops, known int // of them: with storages
}

// unknown is the iterations of a sequence without any storage.
func (q *sequence) unknown() sequence {
	var part sequence
	for _, ops := range q.steps {
		if !slices.ContainsFunc(ops, hasUses) {
			part.steps = append(part.steps, ops)
			part.ops += len(ops)
		}
	}
	return part
}

// recorded is the other iterations.
func (q *sequence) recorded() sequence {
	return sequence{steps: slices.DeleteFunc(slices.Clone(q.steps), func(ops []issued) bool { return !slices.ContainsFunc(ops, hasUses) })}
}

func hasUses(op issued) bool { return op.uses != 0 }

type issued struct {
	span trace.SpanID
	at   trace.Time
	key  int32 // name and size
	uses int32
}

// sequences lists every rank's device operations. Without marks, all are one iteration;
// with marks, operations outside belong to none.
func (t *transfer) sequences(run *trace.Run) []sequence {
	type mark struct{ start, end trace.Time }
	marks := make([][]mark, len(run.Ranks))
	for _, s := range run.Spans {
		if s.Kind == trace.Marker && run.Lanes[s.Lane].Kind == trace.HostThread && strings.HasPrefix(run.NameOf(s), "ProfilerStep#") {
			row := run.RankOf(s)
			marks[row] = append(marks[row], mark{s.Start, s.End})
		}
	}
	all := make([]sequence, len(run.Ranks))
	for row := range all {
		all[row].steps = make([][]issued, max(1, len(marks[row])))
	}
	for i, s := range run.Spans {
		if !s.Kind.OnDevice() {
			continue
		}
		row := run.RankOf(s)
		op := issued{span: trace.SpanID(i), at: s.Start, key: t.key(run, s), uses: run.UsesOf(s)}
		if l := run.LaunchOf(s); l != trace.None {
			op.at = run.Spans[l].Start
		}
		step := 0
		if m := marks[row]; len(m) > 0 {
			n, _ := slices.BinarySearchFunc(m, op.at, func(m mark, at trace.Time) int {
				if m.start <= at {
					return -1
				}
				return 1
			})
			if step = n - 1; step < 0 || m[step].end < op.at {
				continue
			}
		}
		q := &all[row]
		q.steps[step] = append(q.steps[step], op)
		q.ops++
		if op.uses != 0 {
			q.known++
		}
	}
	for _, q := range all {
		for _, ops := range q.steps {
			slices.SortStableFunc(ops, func(a, b issued) int { return cmp.Compare(a.at, b.at) })
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
func (t *transfer) rank(row int, ours *sequence, theirs []sequence) bool {
	source := &t.run.Ranks[row]
	best := 0
	for _, other := range t.order(row, theirs) {
		recorded := theirs[other].recorded()
		pairs := pairSteps(ours, &recorded)
		if t.from == t.run && other == row {
			for i := range pairs {
				pairs[i].pass++ // pass 0 is the recorded iterations themselves
			}
		}
		best = max(best, len(pairs))
		if len(pairs)*100 < fewestAligned*ours.ops {
			continue
		}
		known := t.apply(pairs)
		t.done.Ledger.Add(trace.Noted, t.file, fmt.Sprintf("storages of %d of %d operations of rank %d taken from rank %d of this execution trace",
			known, ours.ops, source.ID, t.from.Ranks[other].ID), "", 0)
		return true
	}
	if t.from != t.run && len(t.from.Uses) == 0 {
		t.done.Ledger.Add(trace.Noted, t.file, "folder ignored: it has no execution trace of its profile", "", 0)
	} else if t.from != t.run {
		t.done.Ledger.Add(trace.Noted, t.file, fmt.Sprintf("execution trace ignored for rank %d: %d of its %d operations are like those of this trace", source.ID, best, ours.ops), "", 0)
	}
	return false
}

// maxTried bounds the ranks whose operations are compared with those of one rank.
const maxTried = 8

// order lists the ranks with storages to try for a rank: that with its id first.
func (t *transfer) order(row int, theirs []sequence) []int {
	var rows []int
	for other := range theirs {
		if theirs[other].known > 0 {
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

// pairSteps aligns iterations of two ranks, or of one. If the second has fewer, its last
// one stands for the others; if the first one's are not marked, the second one's operations
// are repeated to about the same number.
func pairSteps(ours, theirs *sequence) []pairing {
	var list []pairing
	if len(ours.steps) == 1 && len(theirs.steps) == 1 {
		n := (len(ours.steps[0]) + len(theirs.steps[0])/2) / max(1, len(theirs.steps[0]))
		var repeated []issued
		for range max(1, n) {
			repeated = append(repeated, theirs.steps[0]...)
		}
		for _, p := range align(ours.steps[0], repeated) {
			list = append(list, pairing{ours.steps[0][p[0]].span, repeated[p[1]].uses, int32(p[1] / max(1, len(theirs.steps[0])))})
		}
		return list
	}
	last := len(theirs.steps) - 1
	for i, step := range ours.steps {
		of := theirs.steps[min(i, last)]
		for _, p := range align(step, of) {
			list = append(list, pairing{step[p[0]].span, of[p[1]].uses, int32(max(0, i-last))})
		}
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
