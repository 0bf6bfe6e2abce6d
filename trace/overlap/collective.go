package overlap

import (
	"cmp"
	"math"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A collective is a trace.MatchedCollective with its names.
type collective struct {
	OpName string `json:"op"`
	Group  string `json:"group"` // name of the group; "" where the file has none
	trace.MatchedCollective
}

// collectives returns those of the run, in its order.
func collectives(run *trace.Run) []collective {
	all := make([]collective, len(run.Collectives))
	for i, c := range run.Collectives {
		all[i] = collective{OpName: c.Op.String(), MatchedCollective: c}
		if c.Group != trace.None {
			all[i].Group = run.Groups[c.Group].Name
		}
	}
	return all
}

// A straggler sums up how long a rank made others wait, and waited, in
// collectives with at least two captured members.
type straggler struct {
	Late    int        `json:"late"`       // collectives in which it arrived last
	Delayed trace.Time `json:"delayed_ns"` // by how much it then came after the last but one
	Waited  trace.Time `json:"waited_ns"`  // for others, inside collectives
}

// stragglers sums up by rank row. Among members that arrive last together, none is late.
func stragglers(run *trace.Run) []straggler {
	sum := make([]straggler, len(run.Ranks))
	for i := range run.Collectives {
		c := &run.Collectives[i]
		if len(c.Members) < 2 {
			continue
		}
		var last, lateRow int32
		before := trace.Time(math.MinInt64) // the latest of those that did not arrive last
		for _, m := range c.Members {
			sum[m.Row].Waited += m.Wait
			if m.Start == c.Arrive {
				last++
				lateRow = m.Row
			} else {
				before = max(before, m.Start)
			}
		}
		if last == 1 {
			sum[lateRow].Late++
			sum[lateRow].Delayed += c.Arrive - before
		}
	}
	return sum
}

// Median is the median of some values, the lower of two; 0 of none.
func Median[V cmp.Ordered](values []V) (none V) {
	if len(values) == 0 {
		return none
	}
	return slices.Sorted(slices.Values(values))[(len(values)-1)/2]
}

// UpperMedian is the median of some values, the upper of two; 0 of none.
func UpperMedian[V cmp.Ordered](values []V) (none V) {
	if len(values) == 0 {
		return none
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}
