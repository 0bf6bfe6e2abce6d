package overlap

import (
	"cmp"
	"math"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A Collective is a trace.MatchedCollective with its names.
type Collective struct {
	OpName string `json:"op"`
	Group  string `json:"group"` // name of the group; "" where the file has none
	trace.MatchedCollective
}

// collectives returns those of the run, in its order.
func collectives(run *trace.Run) []Collective {
	all := make([]Collective, len(run.Collectives))
	for i, c := range run.Collectives {
		all[i] = Collective{OpName: c.Op.String(), MatchedCollective: c}
		if c.Group != trace.None {
			all[i].Group = run.Groups[c.Group].Name
		}
	}
	return all
}

// A Straggler sums up how long a rank made others wait, and waited, in
// collectives with at least two captured members.
type Straggler struct {
	Late    int        `json:"late"`       // collectives in which it arrived last
	Delayed trace.Time `json:"delayed_ns"` // by how much it then came after the last but one
	Waited  trace.Time `json:"waited_ns"`  // for others, inside collectives
}

// stragglers sums up by rank row. Among members that arrive last together, none is late.
func stragglers(all []Collective, ranks int) []Straggler {
	sum := make([]Straggler, ranks)
	for i := range all {
		c := &all[i]
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

// A LateRank is the rank that others wait for most.
type LateRank struct {
	Rank   int        `json:"rank"`             // as in trace.Rank.ID
	Cost   trace.Time `json:"cost_ns"`          // exposed waiting for it in an iteration, mean over ranks
	Share  float64    `json:"share"`            // of the iteration's time
	Longer []Longer   `json:"longer,omitempty"` // up to five kernels that take longer there than on the median rank, most first
	Idle   trace.Time `json:"idle_ns"`          // of an iteration, more than on the median rank: its host, or its data
}

// A Longer is a kernel's time in an iteration, less that on the median rank.
type Longer struct {
	Name string     `json:"name"`
	Time trace.Time `json:"time_ns"`
}

// Unaligned lists the ranks whose clocks cannot be compared with the first one's: nothing
// says who waits for whom.
func Unaligned(run *trace.Run) (ranks []int) {
	for _, r := range run.Ranks {
		if r.Uncertainty == trace.None {
			ranks = append(ranks, r.ID)
		}
	}
	return ranks
}

// WaitedFor finds the rank that others wait for in n iterations of a given time, which ran
// in an interval of each rank row; nil if nobody waits or the clocks of ranks that
// communicate cannot be compared.
func WaitedFor(run *trace.Run, in []Interval, n int, time trace.Time) *LateRank {
	work := collect(run)
	cost := make([]trace.Time, len(in))
	for i := range run.Collectives {
		c := &run.Collectives[i]
		if late := c.Last().Row; int(late) < len(in) && aligned(run, c) {
			for _, m := range c.Members {
				if int(m.Row) < len(in) {
					wait := set{{m.Start, min(c.Arrive, m.End)}}.within(in[m.Row].Start, in[m.Row].End)
					cost[late] += wait.length() - wait.shared(work[m.Row].sets[trace.ClassCompute])
				}
			}
		}
	}
	row := 0
	for r := range cost {
		if cost[r] > cost[row] {
			row = r
		}
	}
	per := trace.Time(max(1, n))
	if len(in) == 0 || cost[row] == 0 || time <= 0 {
		return nil
	}
	late := &LateRank{Rank: run.RankID(int32(row)), Cost: cost[row] / per / trace.Time(len(in))}
	late.Share = float64(late.Cost) / float64(time)
	byName, idle := map[trace.NameID][]trace.Time{}, make([]trace.Time, len(in))
	for r, x := range in {
		idle[r] = x.Length() - work[r].busy().within(x.Start, x.End).length()
		for _, id := range work[r].ops {
			if s := run.Spans[id]; run.Class(s) == trace.ClassCompute {
				if byName[s.Name] == nil {
					byName[s.Name] = make([]trace.Time, len(in))
				}
				byName[s.Name][r] += max(0, min(s.End, x.End)-max(s.Start, x.Start))
			}
		}
	}
	for name, times := range byName {
		if more := (times[row] - Median(times)) / per; more > 0 {
			late.Longer = append(late.Longer, Longer{run.Names[name], more})
		}
	}
	slices.SortFunc(late.Longer, func(a, b Longer) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Name, b.Name)) })
	late.Longer = late.Longer[:min(5, len(late.Longer))]
	late.Idle = max(0, (idle[row]-Median(idle))/per)
	return late
}

// Median is the median of some values, the lower of two; 0 of none.
func Median[V cmp.Ordered](values []V) (none V) {
	if len(values) == 0 {
		return none
	}
	return sorted(values)[(len(values)-1)/2]
}

// UpperMedian is the median of some values, the upper of two; 0 of none.
func UpperMedian[V cmp.Ordered](values []V) (none V) {
	if len(values) == 0 {
		return none
	}
	return sorted(values)[len(values)/2]
}

func sorted[V cmp.Ordered](values []V) []V {
	values = slices.Clone(values)
	slices.Sort(values)
	return values
}
