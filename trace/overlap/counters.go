package overlap

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A Counter is a quantity of one rank over time.
type Counter struct {
	Rank   int32 // row of Run.Ranks
	Name   string
	Points []point // by time; each value holds until the next
}

// A point is a value from a time on.
type point struct {
	At    trace.Time
	Value float64
}

// The counters. Bandwidth is bytes over durations: of collectives those that each rank
// sends over links, of copies their size.
const (
	runningKernels = "compute kernels"
	RunningComm    = "communication"
	RunningCopies  = "copies"
	workgroups     = "resident workgroups" // of ranks whose workgroups were recorded
	Bandwidth      = "communication, GB/s"
)

// Counters returns the counters of a run by rank, each of at most most points: of more,
// the mean over equal parts of the run.
func Counters(run *trace.Run, most int) []Counter {
	names := []string{runningKernels, RunningComm, RunningCopies, workgroups, Bandwidth}
	changes := make([][]point, len(run.Ranks)*len(names))
	for _, s := range run.Spans {
		if s.Dur() == 0 {
			continue
		}
		add := func(counter int, value float64) {
			at := run.RankOf(s)*len(names) + counter
			changes[at] = append(changes[at], point{s.Start, value}, point{s.End, -value})
		}
		switch class := run.Class(s); {
		case s.Kind == trace.Workgroup:
			add(3, 1)
		case class == trace.ClassCompute:
			add(0, 1)
		case class == trace.ClassCopy:
			add(2, 1)
		case class == trace.ClassCommunication:
			add(1, 1)
			if bytes := Sent(run, s); bytes > 0 {
				add(4, float64(bytes)/float64(s.Dur()))
			}
		}
	}
	var all []Counter
	for i, c := range changes {
		if len(c) > 0 {
			all = append(all, Counter{int32(i / len(names)), names[i%len(names)], levels(c, run.End, most)})
		}
	}
	return all
}

// Sent is the bytes that a kernel or copy moves: of a collective those that each rank sends
// over links. 0 if unknown.
func Sent(run *trace.Run, s trace.Span) int64 {
	if c := run.Copy(s); c != nil {
		return c.Bytes
	}
	c := run.Comm(s)
	if c == nil {
		return 0
	}
	ranks := len(run.Ranks)
	if c.Group != trace.None {
		g := &run.Groups[c.Group]
		ranks = max(g.Size, len(g.Ranks))
	}
	return cmp.Or(c.Sent, c.Op.WireBytes(c.Bytes(), ranks))
}

// levels adds up changes.
func levels(changes []point, end trace.Time, most int) []point {
	slices.SortStableFunc(changes, func(a, b point) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Value, b.Value)) })
	var points []point
	sum, open := 0.0, 0
	for i, c := range changes {
		sum += c.Value
		if open++; c.Value < 0 {
			open -= 2
		}
		if open == 0 {
			sum = 0 // without what rounding left
		}
		if i+1 == len(changes) || changes[i+1].At > c.At {
			if n := len(points); n == 0 || points[n-1].Value != sum {
				points = append(points, point{c.At, sum})
			}
		}
	}
	if len(points) <= most || most <= 0 {
		return points
	}
	return means(points, max(end, points[len(points)-1].At+1), most)
}

// means divides the time up to an end into equal parts.
func means(points []point, end trace.Time, parts int) []point {
	width := (end + trace.Time(parts) - 1) / trace.Time(parts)
	sums := make([]float64, parts)
	for i, p := range points {
		to := end
		if i+1 < len(points) {
			to = points[i+1].At
		}
		for at := max(p.At, 0); at < to; {
			part := at / width
			until := min(to, (part+1)*width)
			sums[part] += p.Value * float64(until-at)
			at = until
		}
	}
	var out []point
	for i, s := range sums {
		if v := s / float64(width); len(out) == 0 || out[len(out)-1].Value != v {
			out = append(out, point{trace.Time(i) * width, v})
		}
	}
	return out
}
