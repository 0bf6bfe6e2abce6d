package merge

import "github.com/overlapse/overlapse/trace"

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
