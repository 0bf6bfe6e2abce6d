// Package overlap measures how well a run overlaps computation with
// communication, and what the rest of the time went to. It measures recorded
// and simulated runs in the same way. Every figure is exact to the nanosecond: nothing is
// rounded, sampled or left out. Explain defines each in words.
//
// Below, U(X) is the union over all queues of one rank of the intervals of
// class X, and |·| its total length.
//
// Files in the order in which a run meets them:
//
//	overlap.go      the work of each rank, unions of intervals, metrics of ranks
//	states.go       what a rank does at each time; idle.go: why it does nothing; times.go: sums
//	collective.go   collectives and who arrives last; straggler.go: the rank that others wait for
//	critical.go     the critical path; waits.go and edges.go: what work waited for
//	counters.go     quantities over time
//	diff.go         two runs by their parts; changes.go: operation by operation
package overlap

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A Breakdown splits the time of one rank. These always hold:
//
//	Exposed = Communication − Overlapped = Transfer + Waiting
//	Total = Compute + Transfer + Waiting + Copies + Idle
type Breakdown struct {
	Total trace.Time `json:"total_ns"` // from the first start to the last end of device work
	Times
	Communication  trace.Time `json:"communication_ns"`   // |U(communication)|
	Overlapped     trace.Time `json:"overlapped_ns"`      // |U(compute) ∩ U(communication)|
	Exposed        trace.Time `json:"exposed_ns"`         // |U(communication) \ U(compute)|
	Copy           trace.Time `json:"copy_ns"`            // |U(copies)|
	OverlappedCopy trace.Time `json:"overlapped_copy_ns"` // |U(compute) ∩ U(copies) \ U(communication)|
}

// OverlapPercent is the share of communication that was hidden behind
// computation; ok is false where nothing was communicated.
func (b Breakdown) OverlapPercent() (percent float64, ok bool) {
	if b.Communication == 0 {
		return 0, false
	}
	return 100 * float64(b.Overlapped) / float64(b.Communication), true
}

func (b *Breakdown) add(c Breakdown) {
	b.Total += c.Total
	b.Times = b.plus(c.Times)
	b.Communication += c.Communication
	b.Overlapped += c.Overlapped
	b.Exposed += c.Exposed
	b.Copy += c.Copy
	b.OverlappedCopy += c.OverlappedCopy
}

// breakDown measures the work of a rank, or a part of it, in so much time. idle, which may be nil, is called for each gap.
func breakDown(work parts, total trace.Time, idle func(gap Interval)) Breakdown {
	b := Breakdown{Total: total}
	work.each(func(x Interval, c cover) {
		d := x.Length()
		if is := c.state(); is != Idle {
			b.count(is, d)
		} else if idle != nil {
			idle(x)
		}
		if c[partCommunication] {
			b.Communication += d
			if c[partCompute] {
				b.Overlapped += d
			}
		}
		if c[partCopies] {
			b.Copy += d
			if c[partCompute] && !c[partCommunication] {
				b.OverlappedCopy += d
			}
		}
	})
	b.Exposed = b.Communication - b.Overlapped
	b.Idle = total - b.Compute - b.Exposed - b.Copies
	return b
}

// Metrics is all that is measured of a run.
type Metrics struct {
	Ranks        []Rank       `json:"ranks"`       // one a row of Run.Ranks
	Collectives  []collective `json:"collectives"` // by arrival of the first member
	CriticalPath Path         `json:"critical_path"`
}

// A Rank has the metrics of one rank.
type Rank struct {
	Rank int `json:"rank"` // as in trace.Rank.ID
	Breakdown
	IdleCauses Causes    `json:"idle_causes"`
	Straggling straggler `json:"straggling"`
}

// Sum adds up the breakdowns of ranks.
func Sum(ranks []Rank) Breakdown {
	var b Breakdown
	for _, r := range ranks {
		b.add(r.Breakdown)
	}
	return b
}

// A Work is the device work of a run by rank: collected once, it answers several questions.
type Work struct {
	run   *trace.Run
	ranks []rankWork
}

// Metrics are all metrics of the run. Their time grows with the number of
// spans, and with n log n of the device work.
func (w Work) Metrics() Metrics {
	return Metrics{Ranks: w.Ranks(), Collectives: collectives(w.run), CriticalPath: criticalPath(w.run, w.ranks)}
}

// Ranks are the metrics of each rank, by row.
func (w Work) Ranks() []Rank {
	ranks, straggling := make([]Rank, len(w.ranks)), stragglers(w.run)
	for row := range ranks {
		r, next := &w.ranks[row], 0
		ranks[row] = Rank{Rank: w.run.Ranks[row].ID, Straggling: straggling[row]}
		causes := &ranks[row].IdleCauses
		ranks[row].Breakdown = breakDown(r.parts(), r.last-r.first, func(gap Interval) { causes.add(r, gap, r.issued(w.run, gap, &next)) })
	}
	return ranks
}

// A rankWork is the device work of one rank.
type rankWork struct {
	ops         []trace.SpanID        // kernels, copies and transfers, by start
	count       [trace.NumClasses]int // of ops
	sets        [trace.NumClasses]set // of divide
	transfers   set                   // likewise: communication, without waiting for other ranks
	first, last trace.Time
	syncs       []sync // of all ranks, by thread, then start
	waits       []trace.Wait
}

// reserve makes room for the work of each rank: there may be millions, and
// lists that grow take twice their size.
func reserve(run *trace.Run, work []rankWork) {
	for _, s := range run.Spans {
		if c := run.Class(s); c != trace.NoClass {
			work[run.RankOf(s)].count[c]++
		}
	}
	for i := range work {
		n := 0
		for _, of := range work[i].count {
			n += of
		}
		work[i].ops = make([]trace.SpanID, 0, n)
	}
}

// Collect sorts the spans of a run by rank row.
func Collect(run *trace.Run) Work {
	w := Work{run, collect(run)}
	for row := range w.ranks {
		if run.Own(row) {
			w.ranks[row].divide(run)
		} else {
			w.ranks[row] = w.ranks[run.Like[row]]
		}
	}
	return w
}

func collect(run *trace.Run) []rankWork {
	work := make([]rankWork, len(run.Ranks))
	blocks := syncNames(run.Names)
	var syncs []sync
	reserve(run, work)
	for i, s := range run.Spans {
		w := &work[run.Lanes[s.Lane].Rank]
		if (s.Kind == trace.Launch || s.Kind == trace.HostCall) && blocks[s.Name] {
			syncs = append(syncs, sync{s.Lane, s.Start, s.End})
		}
		if run.Class(s) == trace.NoClass {
			continue
		}
		if len(w.ops) == 0 {
			w.first = s.Start
		}
		w.last = max(w.last, s.End)
		w.ops = append(w.ops, trace.SpanID(i))
	}
	for row, like := range run.Like {
		work[row] = work[like]
	}
	for _, x := range run.Waits {
		work[x.Rank].waits = append(work[x.Rank].waits, x)
		if x.Stream == trace.None && x.Call != trace.None {
			syncs = append(syncs, sync{run.Spans[x.Call].Lane, x.Start, x.End})
		}
	}
	slices.SortStableFunc(syncs, compareSyncs)
	for i := range work {
		work[i].syncs = syncs
	}
	return work
}

// divide sets the union of each class of work, in the memory of earlier ones where that is enough.
func (w *rankWork) divide(run *trace.Run) {
	for c, n := range w.count {
		if w.sets[c] = w.sets[c][:0]; cap(w.sets[c]) < n {
			w.sets[c] = make(set, 0, n)
		}
	}
	moves := make([]Interval, 0, w.count[trace.ClassCommunication])
	for _, id := range w.ops {
		s := run.Spans[id]
		c := run.Class(s)
		w.sets[c].add(s.Start, s.End)
		if c == trace.ClassCommunication {
			moves = append(moves, Interval{arrival(run, s), s.End})
		}
	}
	w.transfers = unionOf(moves)
}

// A set is a union of intervals: sorted, apart from each other, none empty.
type set []Interval

// An Interval is a time from Start to End.
type Interval struct{ Start, End trace.Time }

// Length is 0 for an interval that ends before it starts.
func (i Interval) Length() trace.Time { return max(0, i.End-i.Start) }

// add puts an interval in whose start is not before that of any added so far.
func (s *set) add(start, end trace.Time) {
	if start == end {
		return
	}
	if n := len(*s); n > 0 && start <= (*s)[n-1].End {
		(*s)[n-1].End = max((*s)[n-1].End, end)
		return
	}
	*s = append(*s, Interval{start, end})
}

// unionOf is the union of intervals in any order.
func unionOf(all []Interval) set {
	slices.SortFunc(all, func(a, b Interval) int { return cmp.Compare(a.Start, b.Start) })
	u := make(set, 0, len(all))
	for _, i := range all {
		u.add(i.Start, i.End)
	}
	return u
}

// within returns the part of s from one time to another.
func (s set) within(from, to trace.Time) set {
	first, _ := slices.BinarySearchFunc(s, from+1, func(i Interval, t trace.Time) int { return cmp.Compare(i.End, t) })
	after, _ := slices.BinarySearchFunc(s, to, func(i Interval, t trace.Time) int { return cmp.Compare(i.Start, t) })
	if from >= to || first >= after {
		return nil
	}
	part := slices.Clone(s[first:after])
	part[0].Start, part[len(part)-1].End = max(part[0].Start, from), min(part[len(part)-1].End, to)
	return part
}

// length is |s|: the total of its intervals.
func (s set) length() trace.Time {
	var sum trace.Time
	for _, i := range s {
		sum += i.Length()
	}
	return sum
}

// Covered is the length of the union of intervals.
func Covered(all []Interval) trace.Time {
	return unionOf(slices.Clone(all)).length()
}

// A Definition is one term of the metrics in words.
type Definition struct {
	Term    string `json:"term"`
	Meaning string `json:"meaning"`
}

// Explain defines every figure of Metrics, in the order in which they are printed.
func Explain() []Definition {
	return []Definition{
		{"device work", "kernels, copies and fills, and transfers on links. Durations are exact to the nanosecond; nothing is rounded, filtered or left out"},
		{"U(X)", "the union, over all queues of one rank, of the intervals of class X; |U(X)| is its length, so time in which two kernels of a class run side by side counts once"},
		{"compute", "|U(compute kernels)|"},
		{"communication", "|U(communication)|: kernels of a collective library, copies between devices, and transfers on links; the time of a collective includes waiting for peers"},
		{"copies", "|U(other copies and fills)|"},
		{"overlapped", "|U(compute) ∩ U(communication)|"},
		{"overlap %", "100 · overlapped / communication"},
		{"exposed", "communication − overlapped: communication while no compute runs"},
		{"waiting", "the part of exposed that is before the last captured rank of the collective arrives; transfer is the rest. The ranks' clocks must be aligned by common collectives"},
		{"hidden", "transfer while compute runs"},
		{"exposed copies", "|U(copies) \\ U(compute) \\ U(communication)|"},
		{"total", "from the first start to the last end of device work on the rank"},
		{"idle", "total − |U(compute) ∪ U(communication) ∪ U(copies)|, so that total = compute + exposed + exposed copies + idle"},
		{"idle: host", "the part of an idle gap before the host called the API that issued the next work"},
		{"idle: host synchronization", "the same, if the issuing thread was synchronizing with the device when the device ran out of work"},
		{"idle: launch", "the part of such a gap from the start of that call to the start of the work"},
		{"idle: dependency or dispatch", "gaps before work that the host had issued before the device ran out of work: it waited for an event, another queue or its dispatch"},
		{"idle: unknown", "gaps before work whose API call is not in the file"},
		{"arrive, depart", "of a collective matched over ranks by group, operation and order: the latest start and the earliest end among the captured members"},
		{"transfer", "depart − arrive: the time in which bytes could move. With fewer members captured than the group has, it is an upper bound"},
		{"wait", "of a member: from its start to the arrival of the last member"},
		{"late, delayed", "of a rank: the collectives in which it arrived last, and its delay after the second to last"},
		{"critical path", "the chain that ends with the last operation. The predecessor of an operation is the one that ended last before it on the same rank; of a collective, the arrival of its last member. If two operations ended before a start, the trace does not show which one was waited for, unless it records stream synchronization (cuda_sync)"},
	}
}
