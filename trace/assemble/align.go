package assemble

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/overlapse/overlapse/trace"
)

// A rank's clock has an offset if the ends of its collectives differ from those
// of another rank by a constant: the median difference exceeds shiftSpreads
// times its median absolute deviation, and shiftLeast, below which members of a
// collective can end at different times. GPUs of one host can have an offset:
// four H200 had 18, 52 and 38 µs with a deviation of 1 µs in all traces of one process.
const (
	shiftSpreads = 3
	shiftLeast   = trace.Time(5 * time.Microsecond)
	shiftAlone   = trace.Time(100 * time.Microsecond) // instead of shiftLeast with fewer than three collectives
)

// An alignment relates a rank to row 0: the offset of its clock, and the offset
// of the numbers of its collectives.
type alignment struct {
	run, row           int // where it comes from
	ends               map[string][]ending
	lag                map[string]int64 // by group: to add to the numbers of its collectives
	shift, uncertainty trace.Time
	known              bool // compared, directly or through other rows, with row 0
	lagged             bool // some lag differs from that of the row it was compared with
	stamped            bool // shifted so that communicating kernels start together
}

// An ending is the end of a collective whose members end together, on the common clock.
type ending struct {
	seq int64
	op  trace.CollectiveOp
	at  trace.Time

	sends, both bool       // of a message: the member sends it; the kernel sends and receives
	took        trace.Time // the member's duration
}

// together reports whether the members of a collective end together. Those of a message do where the
// receiver was there for longer than the sender, which else may have left it in the library's buffers,
// and where both kernels send and receive.
func together(a, b ending) bool {
	if a.op != b.op || a.op != trace.SendRecv {
		return a.op == b.op
	}
	if b.sends {
		a, b = b, a
	}
	if a.both {
		return b.both
	}
	return b.took > a.took
}

// align compares the ranks' clocks by the ends of common collectives.
func (m *merger) align(runs []*trace.Run) {
	for i, r := range runs {
		ends := collectiveEnds(r, m.start[i])
		for row := range r.Ranks {
			m.ranks = append(m.ranks, alignment{run: i, row: row, ends: ends[row], lag: map[string]int64{}})
		}
	}
	if len(m.ranks) == 0 {
		return
	}
	m.ranks[0].known = true
	oneClock := m.epoch != 0 || m.hostClock
	for found := true; found; {
		found = false
		for i := range m.ranks {
			for j := 0; j < len(m.ranks) && !m.ranks[i].known; j++ {
				if m.ranks[j].known && m.ranks[i].compare(&m.ranks[j], oneClock) {
					found = true
				}
			}
		}
	}
	for i := range m.ranks {
		if a := &m.ranks[i]; !a.known && a.run != m.ranks[0].run {
			a.shift = stampShift(runs[0], runs[a.run], m.start[a.run]-m.start[0])
			a.stamped = a.shift != 0
		}
	}
	m.fromZero()
}

// compare sets shift and uncertainty from the collectives that both ranks
// have; it reports false if there are none.
func (a *alignment) compare(with *alignment, oneClock bool) bool {
	var diff []trace.Time
	for group, ends := range a.ends {
		others := with.ends[group]
		if oneClock {
			a.lag[group] = lag(ends, others, with.lag[group])
			a.lagged = a.lagged || a.lag[group] != with.lag[group]
		}
		diff = append(diff, differences(ends, others, a.lag[group]-with.lag[group])...)
	}
	if len(diff) == 0 {
		clear(a.lag)
		return false
	}
	for i := range diff {
		diff[i] -= with.shift
	}
	mid := median(diff)
	spread := medianFrom(diff, mid)
	a.uncertainty = medianFrom(diff, 0) + with.uncertainty
	least := shiftLeast
	if len(diff) < 3 {
		least = shiftAlone
	}
	if off := max(mid, -mid); off > least && off > shiftSpreads*spread {
		a.shift = -mid
		a.uncertainty = spread + with.uncertainty
	}
	a.known = true
	return true
}

// differences returns, for each of a's collectives, its end minus the end of b's
// collective whose number is lag higher. Both are sorted by number.
func differences(a, b []ending, lag int64) []trace.Time {
	var diff []trace.Time
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch n := a[i].seq + lag; {
		case n < b[j].seq:
			i++
		case n > b[j].seq:
			j++
		default:
			if together(a[i], b[j]) {
				diff = append(diff, a[i].at-b[j].at)
			}
			i, j = i+1, j+1
		}
	}
	return diff
}

// lag returns the offset of the numbers of a's collectives. Files without numbers are
// numbered by counting, so a profile that starts one collective earlier is off by one.
// On a common clock the ends then differ by an iteration, and agree once the numbers
// are shifted.
func lag(a, b []ending, base int64) int64 {
	const most = 8
	best, least := base, shiftAlone
	if d := differences(a, b, 0); len(d) > 0 {
		if least = medianFrom(d, 0); least <= shiftAlone {
			return base
		}
	}
	for n := int64(1); n <= most; n++ {
		for _, by := range [...]int64{n, -n} {
			d := differences(a, b, by)
			if 2*len(d) < min(len(a), len(b)) || len(d) < 3 {
				continue
			}
			if off := medianFrom(d, 0); off <= shiftAlone && off < least {
				best, least = base+by, off
			}
		}
	}
	return best
}

// fromZero raises the lags of each group so that none is negative.
func (m *merger) fromZero() {
	lowest := map[string]int64{}
	for _, a := range m.ranks {
		for group, n := range a.lag {
			lowest[group] = min(lowest[group], n)
		}
	}
	for _, a := range m.ranks {
		for group := range a.ends {
			a.lag[group] -= lowest[group]
		}
	}
}

// medianFrom is the median of the distances of d, which is not empty, from a value.
func medianFrom(d []trace.Time, from trace.Time) trace.Time {
	off := make([]trace.Time, len(d))
	for i, x := range d {
		off[i] = max(x-from, from-x)
	}
	return median(off)
}

// median sorts d, which is not empty.
func median(d []trace.Time) trace.Time {
	slices.Sort(d)
	mid := len(d) / 2
	if len(d)%2 == 1 {
		return d[mid]
	}
	return d[mid-1] + (d[mid]-d[mid-1])/2
}

// groupKeys returns a key of each group from its name and ranks. Tensor-parallel groups
// may share a name; only those with the same ranks are one group.
func groupKeys(r *trace.Run) []string {
	keys := make([]string, len(r.Groups))
	for i, g := range r.Groups {
		var s strings.Builder
		s.WriteString(g.Name)
		for _, k := range g.Ranks {
			s.WriteByte(' ')
			s.WriteString(strconv.Itoa(k))
		}
		keys[i] = s.String()
	}
	return keys
}

// collectiveEnds returns, by rank row and group, the ends of collectives whose
// members end together, in order of their numbers.
func collectiveEnds(r *trace.Run, start trace.Time) []map[string][]ending {
	keys := groupKeys(r)
	ends := make([]map[string][]ending, len(r.Ranks))
	for i := range ends {
		ends[i] = map[string][]ending{}
	}
	for _, s := range r.Spans {
		c := r.Comm(s)
		if c != nil && c.Op == trace.SendRecv && c.Peer >= 0 {
			row := r.RankOf(s)
			me, e := r.RankID(int32(row)), ending{
				seq: int64(s.Start), op: c.Op, at: s.End + start,
				both: (c.In > 0) == (c.Out > 0), took: s.End - s.Start,
			}
			if c.Out > 0 || c.In == 0 {
				key := messageKey(int(c.Peer), me)
				ends[row][key] = append(ends[row][key], e)
			}
			if e.sends = true; c.In > 0 || c.Out == 0 {
				key := messageKey(me, int(c.Peer))
				ends[row][key] = append(ends[row][key], e)
			}
		}
		if c == nil || !endsTogether(c.Op) {
			continue
		}
		group := ""
		if c.Group != trace.None {
			group = keys[c.Group]
		}
		rank := ends[r.RankOf(s)]
		rank[group] = append(rank[group], ending{seq: c.Seq, op: c.Op, at: s.End + start})
	}
	for _, groups := range ends {
		for key, e := range groups {
			groups[key] = lastOfEach(e)
			if strings.HasPrefix(key, message) {
				for i := range groups[key] {
					groups[key][i].seq = int64(i)
				}
			}
		}
	}
	return ends
}

// message begins the key of the messages from one rank to another. They are numbered in order (rule V33).
const message = "messages "

func messageKey(from, to int) string { return fmt.Sprint(message, from, " ", to) }

// lastOfEach sorts by number. If several kernels are one operation, it keeps the last
// end.
func lastOfEach(e []ending) []ending {
	slices.SortFunc(e, func(a, b ending) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(b.at, a.at))
	})
	return slices.CompactFunc(e, func(a, b ending) bool { return a.seq == b.seq })
}

// endsTogether reports whether no member can end before all have arrived. A sender or a
// root can end earlier.
func endsTogether(op trace.CollectiveOp) bool {
	switch op {
	case trace.AllReduce, trace.AllGather, trace.ReduceScatter, trace.AllToAll, trace.Barrier:
		return true
	}
	return false
}

// stampShift returns the offset that aligns the start of a run's kernels with those of
// the first run, or 0. It applies to runs of one rank that have only timestamps of
// workgroups: each GPU has its own timer, and timers differ by milliseconds. Kernels
// that store to each other's ranks must overlap in time; if none do, the timers differ.
// Offset is time 0 of the run on the first one's clock.
func stampShift(first, r *trace.Run, offset trace.Time) trace.Time {
	a, b := stamped(first), stamped(r)
	if len(a) != len(b) || len(a) == 0 {
		return 0
	}
	diff := make([]trace.Time, len(a))
	for i := range a {
		start, end := b[i].Start+offset, b[i].End+offset
		if first.NameOf(a[i]) != r.NameOf(b[i]) || start < a[i].End && a[i].Start < end {
			return 0
		}
		diff[i] = start - a[i].Start
	}
	return -median(diff)
}

// stamped returns the kernels of a run of one rank that has only kernels and
// workgroups, if some workgroups store to other ranks; else nil.
func stamped(r *trace.Run) []trace.Span {
	if has := parts(r); len(r.Ranks) != 1 || has[partHost] || has[partCopies] || !has[partWorkgroups] {
		return nil
	}
	var kernels []trace.Span
	stores := false
	for _, s := range r.Spans {
		switch w := r.Workgroup(s); {
		case s.Kind == trace.Compute:
			kernels = append(kernels, s)
		case w != nil && w.Peer != trace.None && int(w.Peer) != r.Ranks[0].ID:
			stores = true
		}
	}
	if !stores {
		return nil
	}
	return kernels
}
