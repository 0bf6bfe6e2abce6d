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
