package overlap

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A set is a union of intervals: sorted, apart from each other, none empty.
type set []interval

type interval struct{ start, end trace.Time }

// add puts an interval in whose start is not before that of any added so far.
func (s *set) add(start, end trace.Time) {
	if start == end {
		return
	}
	if n := len(*s); n > 0 && start <= (*s)[n-1].end {
		(*s)[n-1].end = max((*s)[n-1].end, end)
		return
	}
	*s = append(*s, interval{start, end})
}

// unionOf is the union of intervals in any order.
func unionOf(all []interval) set {
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.start, b.start) })
	u := make(set, 0, len(all))
	for _, i := range all {
		u.add(i.start, i.end)
	}
	return u
}

// within returns the part of s from one time to another.
func (s set) within(from, to trace.Time) set {
	if from >= to {
		return nil
	}
	return s.intersect(set{{from, to}})
}

// length is |s|: the total of its intervals.
func (s set) length() trace.Time {
	var sum trace.Time
	for _, i := range s {
		sum += i.end - i.start
	}
	return sum
}

// union returns s ∪ t.
func (s set) union(t set) set {
	u := make(set, 0, len(s)+len(t))
	for len(s) > 0 || len(t) > 0 {
		if len(t) == 0 || len(s) > 0 && s[0].start <= t[0].start {
			u.add(s[0].start, s[0].end)
			s = s[1:]
		} else {
			u.add(t[0].start, t[0].end)
			t = t[1:]
		}
	}
	return u
}

// intersect returns s ∩ t.
func (s set) intersect(t set) set {
	var both set
	for len(s) > 0 && len(t) > 0 {
		if start, end := max(s[0].start, t[0].start), min(s[0].end, t[0].end); start < end {
			both = append(both, interval{start, end})
		}
		if s[0].end < t[0].end {
			s = s[1:]
		} else {
			t = t[1:]
		}
	}
	return both
}

// gaps returns the intervals between those of s, without what is before the first and after the last.
func (s set) gaps() set {
	if len(s) < 2 {
		return nil
	}
	between := make(set, 0, len(s)-1)
	for i := range s[1:] {
		between = append(between, interval{s[i].end, s[i+1].start})
	}
	return between
}

// Covered is the length of the union of intervals.
func Covered(all []Interval) trace.Time {
	s := make([]interval, len(all))
	for i, x := range all {
		s[i] = interval{x.Start, x.End}
	}
	return unionOf(s).length()
}
