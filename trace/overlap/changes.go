package overlap

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// What changed
//
// The work of one step of a run A stands beside that of a run B: each operation of a rank finds its counterpart by name, in the order
// of start. What has none is removed or added; of the rest some moved among the kernels that compute, or takes longer or less.

// An Operation is a kernel, collective or copy of one step.
type Operation struct {
	Name       string // two of one name and size can stand for each other
	Size       string // of a collective; "": unknown
	Layer      string // the module that it is of; "": unknown
	Kind       trace.Kind
	Rank       int32 // row of the run's Ranks
	Lane       trace.LaneID
	Start, End trace.Time
}

func (o *Operation) dur() trace.Time { return o.End - o.Start }

// A counterpart is an operation of A and one of B, or nil.
type counterpart struct{ a, b *Operation }

// The ways in which an operation can differ, a lane each.
const (
	opRemoved = iota
	opAdded
	opMoved
	opLonger
	opShorter
	numChanged
)

var changedNames = [numChanged]string{"removed", "added", "moved", "longer", "shorter"}

// leastDrawn is the share of a step from which a change of one operation counts, as printed changes have it.
const leastDrawn = 0.001

// ChangesOf is the difference of a step of B against one of A, of the same ranks, which takes a time in A: as a run of A's ranks at A's
// times, with a lane of the modules that it computes and one for each kind of change, and in a sentence of means over ranks.
func ChangesOf(ranks []trace.Rank, a, b []Operation, step trace.Time) (changes *trace.Run, said string) {
	var builder trace.Builder
	own := 0 // ranks with operations
	t := changeTally{least: max(1, trace.Time(leastDrawn*float64(step))), unit: "ms", size: 1e6}
	if step < 1_000_000 {
		t.unit, t.size = "µs", 1e3
	}
	for row := range ranks {
		builder.AddRank(ranks[row])
		var lanes []trace.LaneID
		for i, name := range changedNames {
			lane := trace.Lane{Kind: trace.Changed, Rank: int32(row), ID: int64(i), Peer: trace.None, Name: name}
			lanes = append(lanes, builder.Lane(lane))
		}
		addLayers(&builder, a, int32(row))
		pairs := counterparts(a, b, int32(row))
		if len(pairs) > 0 {
			own++
		}
		at := onto(pairs)
		for _, p := range pairs {
			is, from, to, by := p.differs(at, t.least)
			if is < 0 {
				continue
			}
			op := cmp.Or(p.a, p.b)
			t.add(is, op, p.change())
			note := ""
			if by != 0 {
				note = t.signed(by, 1)
			}
			name := strings.Join(slices.DeleteFunc([]string{op.Name, op.Size, op.Layer, note}, func(s string) bool { return s == "" }), " ")
			builder.Add(trace.Span{
				Start: from, End: to, Name: builder.Intern(name), Lane: lanes[is], Parent: trace.None, Attr: trace.None, Kind: op.Kind,
			})
		}
	}
	changes = builder.Finish(trace.Options{Name: "what changes", Simulated: true, KeepZero: true, Linked: true, Unmatched: true})
	return changes, t.said(float64(max(1, own)))
}

// addLayers adds a lane with the modules of the kernels on the lane that a rank computes on longest: from the first to the last of those
// in a row that are of one module. Without modules there is no lane.
func addLayers(b *trace.Builder, all []Operation, rank int32) {
	computes := map[trace.LaneID]trace.Time{}
	longest := trace.LaneID(trace.None)
	for _, o := range all {
		if o.Rank != rank || o.Kind != trace.Compute {
			continue
		}
		if computes[o.Lane] += o.dur(); longest == trace.None || computes[o.Lane] > computes[longest] {
			longest = o.Lane
		}
	}
	work := slices.DeleteFunc(slices.Clone(all), func(o Operation) bool {
		return o.Rank != rank || o.Kind != trace.Compute || o.Lane != longest
	})
	if !slices.ContainsFunc(work, func(o Operation) bool { return o.Layer != "" }) {
		return
	}
	slices.SortStableFunc(work, func(x, y Operation) int { return cmp.Compare(x.Start, y.Start) })
	lane := b.Lane(trace.Lane{Kind: trace.Annotation, Rank: rank, Peer: trace.None, Name: "layers"})
	for len(work) > 0 {
		n := slices.IndexFunc(work, func(o Operation) bool { return o.Layer != work[0].Layer })
		if n < 0 {
			n = len(work)
		}
		if work[0].Layer != "" {
			b.Add(trace.Span{
				Start: work[0].Start, End: work[n-1].End, Name: b.Intern(work[0].Layer), Lane: lane, Parent: trace.None,
				Attr: trace.None, Kind: trace.Marker,
			})
		}
		work = work[n:]
	}
}

// change is how much longer the operation takes in B.
func (p counterpart) change() (d trace.Time) {
	if p.b != nil {
		d = p.b.dur()
	}
	if p.a != nil {
		d -= p.a.dur()
	}
	return d
}

// differs is the kind of the change, or -1, the time of A that it is drawn at, and by which time it moved or lasts longer. An operation
// moved if nothing of it runs where it ran, beside the same kernels.
func (p counterpart) differs(at func(trace.Time) trace.Time, least trace.Time) (is int, from, to, by trace.Time) {
	switch {
	case p.b == nil:
		return opRemoved, p.a.Start, p.a.End, 0
	case p.a == nil:
		from = max(0, at(p.b.Start))
		return opAdded, from, from + p.b.dur(), 0
	}
	change := p.change()
	by = at(p.b.Start) - p.a.Start
	switch {
	case max(by, -by) >= least && max(by, -by) > max(p.a.dur(), p.b.dur()):
		return opMoved, p.a.Start, p.a.End, by
	case change >= least:
		return opLonger, p.a.Start, p.a.End, change
	case change <= -least:
		return opShorter, p.a.Start, p.a.End, change
	}
	return -1, 0, 0, 0
}

// counterparts pairs a rank's operations, kind by kind.
func counterparts(a, b []Operation, rank int32) (pairs []counterpart) {
	for _, kind := range []trace.Kind{trace.Compute, trace.Collective, trace.Copy} {
		of := func(all []Operation) (list []*Operation) {
			for i := range all {
				if o := &all[i]; o.Rank == rank && o.Kind == kind {
					list = append(list, o)
				}
			}
			slices.SortStableFunc(list, func(x, y *Operation) int { return cmp.Compare(x.Start, y.Start) })
			return list
		}
		x, y := of(a), of(b)
		inA, inB := make([]bool, len(x)), make([]bool, len(y))
		for _, p := range trace.LongestCommon(len(x), len(y), mostEdits, func(i, j int) bool { return x[i].key() == y[j].key() }) {
			inA[p[0]], inB[p[1]] = true, true
		}
		left := map[[2]string][]*Operation{} // of B, without a counterpart in order
		for i, o := range y {
			if !inB[i] {
				left[o.key()] = append(left[o.key()], o)
			}
		}
		next := 0
		for i, o := range x {
			p := counterpart{a: o}
			if inA[i] {
				for !inB[next] {
					next++
				}
				p.b, next = y[next], next+1
			} else if same := left[o.key()]; len(same) > 0 {
				p.b, left[o.key()] = same[0], same[1:]
			}
			pairs = append(pairs, p)
		}
		for _, o := range y {
			if same := left[o.key()]; len(same) > 0 && same[0] == o {
				pairs, left[o.key()] = append(pairs, counterpart{b: o}), same[1:]
			}
		}
	}
	return pairs
}

func (o *Operation) key() [2]string { return [2]string{o.Name, o.Size} }

// mostEdits bounds the operations without a counterpart in order. Beyond it those between both ends are paired by name alone.
const mostEdits = 3000

// onto maps times of B to those of A at which the same kernels compute.
func onto(pairs []counterpart) func(trace.Time) trace.Time {
	var at [][2]trace.Time // in B and in A, both increasing
	for _, p := range pairs {
		if p.a == nil || p.b == nil || p.a.Kind != trace.Compute {
			continue
		}
		for _, x := range [][2]trace.Time{{p.b.Start, p.a.Start}, {p.b.End, p.a.End}} {
			if n := len(at); n == 0 || x[0] > at[n-1][0] && x[1] > at[n-1][1] {
				at = append(at, x)
			}
		}
	}
	return func(t trace.Time) trace.Time {
		i, _ := slices.BinarySearchFunc(at, t, func(x [2]trace.Time, t trace.Time) int { return cmp.Compare(x[0], t) })
		switch {
		case len(at) == 0:
			return t
		case i == 0:
			return t - at[0][0] + at[0][1]
		case i == len(at):
			return t - at[i-1][0] + at[i-1][1]
		}
		from, to := at[i-1], at[i]
		return from[1] + trace.Time(float64(t-from[0])/float64(to[0]-from[0])*float64(to[1]-from[1]))
	}
}

// A changed name is how many operations of it changed in one way, and by which time.
type changed struct {
	name  string
	count int
	time  trace.Time
}

// A changeTally counts changes by kind and name.
type changeTally struct {
	of    [numChanged]map[string]*changed
	least trace.Time // that counts
	unit  string
	size  float64 // of the unit, in ns
}

// signed is a time, the mean of so many.
func (t *changeTally) signed(d trace.Time, of float64) string {
	return fmt.Sprintf("%+.3g %s", float64(d)/of/t.size, t.unit)
}

func (t *changeTally) add(is int, op *Operation, by trace.Time) {
	if t.of[is] == nil {
		t.of[is] = map[string]*changed{}
	}
	x := t.of[is][op.Name]
	if x == nil {
		x = &changed{name: op.Name}
		t.of[is][op.Name] = x
	}
	x.count, x.time = x.count+1, x.time+by
}

// mostNamed is how many names the sentence has of each kind of change.
const mostNamed = 2

// said is the sentence, of means over n ranks, counts rounded up.
func (t *changeTally) said(n float64) string {
	var parts []string
	for is, of := range t.of {
		var list []*changed
		var all changed
		for _, x := range of {
			list, all.count, all.time = append(list, x), all.count+x.count, all.time+x.time
		}
		slices.SortFunc(list, func(a, b *changed) int {
			return cmp.Or(cmp.Compare(max(b.time, -b.time), max(a.time, -a.time)), cmp.Compare(a.name, b.name))
		})
		var names []string
		for _, x := range list[:min(mostNamed, len(list))] {
			names = append(names, fmt.Sprintf("%.0f %s", math.Ceil(float64(x.count)/n), middle(x.name)))
		}
		if more := len(list) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("%d more", more))
		}
		if list == nil {
			continue
		}
		text := changedNames[is] + " " + strings.Join(names, ", ")
		if is != opMoved {
			text += " (" + t.signed(all.time, n) + ")"
		}
		parts = append(parts, text)
	}
	if parts == nil {
		return "no operation is removed, added, moved or changed by " + strings.TrimPrefix(t.signed(t.least, 1), "+")
	}
	return strings.Join(parts, "; ")
}

// longestName is the length of a kernel's name in the sentence.
const longestName = 28

// middle leaves out the middle of a long name.
func middle(name string) string {
	if r := []rune(name); len(r) > longestName {
		return string(r[:longestName/2]) + "…" + string(r[len(r)-longestName/2+1:])
	}
	return name
}
