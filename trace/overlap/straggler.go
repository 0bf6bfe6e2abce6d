package overlap

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A LateRank is the rank that others wait for most.
type LateRank struct {
	Rank       int        `json:"rank"`            // as in trace.Rank.ID
	Cost       trace.Time `json:"cost_ns"`         // exposed waiting for it in an iteration, mean over the other ranks
	Share      float64    `json:"share"`           // of the iteration's time on the other ranks
	Least      trace.Time `json:"least_ns"`        // the cost of the iteration with the least
	Most       trace.Time `json:"most_ns"`         // the cost of the iteration with the most
	Last       int        `json:"last"`            // iterations in which others wait for it longer than for any other rank
	Iterations int        `json:"iterations"`      // of so many
	Cause      LateCause  `json:"cause,omitempty"` // what takes the most of its time beyond the others'; "": nothing does
	// up to five kernels that take longer there than on the median of the others, most first
	Longer []longer `json:"longer,omitempty"`
	Slower float64  `json:"slower,omitempty"` // of LateClock: by how much all kernels take longer, 0.08 is 8 %
	// of an iteration, in kernels, or grids of them, that no other rank launches as often; more than the others' in such ones
	Other  trace.Time `json:"other_ns"`
	Idle   trace.Time `json:"idle_ns"`   // of an iteration, more than on the median of the others: its host, or its data
	Excess trace.Time `json:"excess_ns"` // of an iteration, the largest of Idle, Other and what kernels of the same work take longer
	// relative change of the captured schedule's time with all ranks as fast as the median one; 0: not known
	Balanced float64 `json:"balanced"`
}

// A LateCause is why a rank arrives last.
type LateCause string

// The causes.
const (
	LateHost    LateCause = "host"    // its device is idle longer
	LateClock   LateCause = "clock"   // all of its kernels are slower by one factor
	LateKernels LateCause = "kernels" // some kernels are slower
	LateWork    LateCause = "work"    // it launches other kernels, or larger ones
)

// A longer is a kernel's time in an iteration, less that on the median of the other ranks.
type longer struct {
	Name string     `json:"name"`
	Time trace.Time `json:"time_ns"`
	By   float64    `json:"by"` // relative to its time there: 0.08 is 8 % longer
}

// beyondNoise is how many times as long others wait for a rank as for the median of the other ranks, if it is not by
// chance that it is the last.
const beyondNoise = 2

// WaitedFor finds the rank that others wait for in iterations, by iteration and rank row the intervals in which they ran;
// the first of several counts from the end of its first collective. It is nil if nobody waits, if the
// clocks of ranks that communicate cannot be compared, or if others wait for other ranks about as long: ranks then take
// turns in being last.
func (w Work) WaitedFor(each [][]Interval) *LateRank {
	if len(each) == 0 || len(each[0]) < 2 {
		return nil
	}
	run, work, ranks := w.run, w.ranks, len(each[0])
	if len(each) > 1 {
		each = slices.Clone(each)
		each[0] = sinceMet(run, each[0])
	}
	type waiter struct{ at, row, late int } // in an iteration, a rank row waits for another
	waits := map[waiter]set{}
	for i := range run.Collectives {
		c := &run.Collectives[i]
		late := c.Last().Row
		if int(late) >= ranks || !aligned(run, c) {
			continue
		}
		for _, m := range c.Members {
			if int(m.Row) >= ranks || m.Start >= c.Arrive {
				continue
			}
			at, _ := slices.BinarySearchFunc(each, m.Start, func(in []Interval, t trace.Time) int { return upTo(in[m.Row].End, t) })
			for ; at < len(each) && each[at][m.Row].Start < c.Arrive; at++ {
				k := waiter{at, int(m.Row), int(late)}
				waits[k] = append(waits[k], set{{m.Start, min(c.Arrive, m.End)}}.within(each[at][m.Row].Start, each[at][m.Row].End)...)
			}
		}
	}
	cost, sum := make([][]trace.Time, len(each)), make([]trace.Time, ranks)
	for i := range each {
		cost[i] = make([]trace.Time, ranks)
	}
	for k, wait := range waits {
		wait = unionOf(wait) // a rank that waits in several collectives at a time waits once
		exposed := wait.length()
		for _, in := range wait {
			exposed -= work[k.row].sets[trace.ClassCompute].within(in.Start, in.End).length()
		}
		cost[k.at][k.late] += exposed
		sum[k.late] += exposed
	}
	row := slices.Index(sum, slices.Max(sum))
	if sum[row] == 0 || sum[row] < beyondNoise*UpperMedian(without(sum, row)) {
		return nil
	}
	others, per := trace.Time(ranks-1), trace.Time(len(each))
	late := &LateRank{Rank: run.RankID(int32(row)), Cost: sum[row] / others / per, Least: trace.Infinity, Iterations: len(each)}
	late.Share = float64(sum[row]) / float64(max(1, lengths(each, row)))
	for _, c := range cost {
		late.Least, late.Most = min(late.Least, c[row]/others), max(late.Most, c[row]/others)
		if c[row] > 0 && c[row] == slices.Max(c) {
			late.Last++
		}
	}
	// Ranks wait for each other by turns too: in the bubbles of a pipeline, or by chance. Only what is beyond that has a cause in one rank.
	late.compare(run, work, each, row, (sum[row]-Median(without(sum, row)))/others/per)
	return late
}

// sinceMet are intervals by rank row without what precedes the end of the first collective there: ranks start to record
// at different times.
func sinceMet(run *trace.Run, in []Interval) []Interval {
	since, met := slices.Clone(in), make([]bool, len(in))
	for i := range run.Collectives {
		for _, m := range run.Collectives[i].Members {
			if x := int(m.Row); x < len(in) && len(run.Collectives[i].Members) > 1 && (!met[x] || m.End < since[x].Start) {
				since[x].Start, met[x] = min(max(in[x].Start, m.End), in[x].End), true
			}
		}
	}
	return since
}

// lengths is the time of all iterations on all ranks but one.
func lengths(each [][]Interval, but int) (all trace.Time) {
	for _, in := range each {
		for row, x := range in {
			if row != but {
				all += x.Length()
			}
		}
	}
	return all
}

func without(values []trace.Time, row int) []trace.Time {
	return slices.Delete(slices.Clone(values), row, row+1)
}

// alike are launches of one kernel with one grid: on all ranks they have the same work.
type alike struct {
	name trace.NameID
	grid [3]int32
}

// compare finds what takes longer on a rank row than on the median of the other ranks, and whether that is most of what
// others wait for it in an iteration beyond what they wait for other ranks.
func (l *LateRank) compare(run *trace.Run, work []rankWork, each [][]Interval, row int, beyond trace.Time) {
	ranks, per := len(each[0]), trace.Time(len(each))
	idle, launches := make([]trace.Time, ranks), map[alike][]launched{}
	for r := range idle {
		for _, in := range each {
			idle[r] += breakDown(work[r].parts().within(in[r]), in[r].Length(), nil).Idle
		}
		for _, id := range work[r].ops {
			s := run.Spans[id]
			var took trace.Time
			for _, in := range each {
				took += max(0, min(s.End, in[r].End)-max(s.Start, in[r].Start))
			}
			if run.Class(s) != trace.ClassCompute || took <= 0 {
				continue
			}
			k := alike{name: s.Name}
			if kernel := run.Kernel(s); kernel != nil {
				k.grid = run.Setup(kernel).Grid
			}
			l := &trace.Memo(launches, k, func() []launched { return make([]launched, ranks) })[r]
			l.n++
			l.time += took
		}
	}
	l.Idle = max(0, (idle[row]-Median(without(idle, row)))/per)
	own := make([]trace.Time, ranks) // in launches that no other rank, or not this one, has as often
	var same []ratio
	var excess trace.Time
	for k, by := range launches {
		var times []trace.Time
		for r, x := range by {
			if r != row && x.n == by[row].n {
				times = append(times, x.time)
			}
		}
		if len(times) == 0 {
			for r, x := range by {
				own[r] += x.time
			}
			continue
		}
		if usual := Median(times); usual > 0 {
			same = append(same, ratio{k.name, usual, by[row].time - usual})
			excess += max(0, by[row].time-usual)
		}
	}
	slices.SortFunc(same, func(a, b ratio) int {
		return cmp.Or(cmp.Compare(b.more, a.more), cmp.Compare(run.Names[a.name], run.Names[b.name]), cmp.Compare(a.usual, b.usual))
	})
	for _, k := range same[:min(5, len(same))] {
		if k.more/per > 0 {
			l.Longer = append(l.Longer, longer{run.Names[k.name], k.more / per, k.by()})
		}
	}
	l.Other = max(0, (own[row]-Median(without(own, row)))/per)
	l.Excess = max(l.Idle, excess/per, l.Other)
	switch uniform, by := clocked(same); {
	case 2*l.Excess < beyond: // nothing explains most of the waiting
	case l.Idle > max(excess/per, l.Other):
		l.Cause = LateHost
	case l.Other > excess/per:
		l.Cause = LateWork
	case 2*uniform > excess && excess > 0:
		l.Cause, l.Slower = LateClock, by
	case len(l.Longer) > 0:
		l.Cause = LateKernels
	}
}

type launched struct {
	n    int
	time trace.Time
}

// A ratio is a kernel's time on the median of the other ranks, and how much more one rank takes.
type ratio struct {
	name        trace.NameID
	usual, more trace.Time
}

func (r ratio) by() float64 { return float64(r.more) / float64(r.usual) }

// clocked is the time that kernels, the one with the most added time first, take more because all are slower by one
// factor, and that factor: the median by time of all but that one, which could have a reason of its own.
func clocked(same []ratio) (more trace.Time, by float64) {
	rest := slices.DeleteFunc(slices.Clone(same), func(k ratio) bool { return k.name == same[0].name })
	slices.SortFunc(rest, func(a, b ratio) int { return cmp.Compare(a.by(), b.by()) })
	var all, half trace.Time
	for _, k := range rest {
		all += k.usual
	}
	for _, k := range rest {
		if half += k.usual; 2*half >= all {
			by = max(0, k.by())
			break
		}
	}
	for _, k := range same {
		more += min(max(0, k.more), trace.Time(by*float64(k.usual)))
	}
	return more, by
}
