package overlap

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

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

// after is the number of intervals that end at a time or before.
func (s set) after(t trace.Time) int {
	n, _ := slices.BinarySearchFunc(s, t+1, func(i Interval, t trace.Time) int { return cmp.Compare(i.End, t) })
	return n
}

// within returns the part of s from one time to another.
func (s set) within(from, to trace.Time) set {
	first := s.after(from)
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

// union returns s ∪ t.
func (s set) union(t set) set {
	u := make(set, 0, len(s)+len(t))
	for len(s) > 0 || len(t) > 0 {
		if len(t) == 0 || len(s) > 0 && s[0].Start <= t[0].Start {
			u.add(s[0].Start, s[0].End)
			s = s[1:]
		} else {
			u.add(t[0].Start, t[0].End)
			t = t[1:]
		}
	}
	return u
}

// shared is |s ∩ t|.
func (s set) shared(t set) (sum trace.Time) {
	if len(s) > 0 { // the sets of a whole run are long
		t = t[t.after(s[0].Start):]
	}
	for len(s) > 0 && len(t) > 0 {
		sum += Interval{max(s[0].Start, t[0].Start), min(s[0].End, t[0].End)}.Length()
		if s[0].End < t[0].End {
			s = s[1:]
		} else {
			t = t[1:]
		}
	}
	return sum
}

// gaps returns the intervals between those of s, without what is before the first and after the last.
func (s set) gaps() set {
	if len(s) < 2 {
		return nil
	}
	between := make(set, 0, len(s)-1)
	for i := range s[1:] {
		between = append(between, Interval{s[i].End, s[i+1].Start})
	}
	return between
}

// Covered is the length of the union of intervals.
func Covered(all []Interval) trace.Time {
	return unionOf(slices.Clone(all)).length()
}
