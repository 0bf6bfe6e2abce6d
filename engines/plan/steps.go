package plan

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// StepsOf collects the iterations of a simulated run.
func StepsOf(w *workload.Workload, run *trace.Run) *Steps {
	c := newSteps(w)
	for _, s := range run.Spans {
		if op := OriginOf(run, s); op >= 0 {
			c.add(&w.Ops[op], s.Start, s.End)
		}
	}
	if run.Like != nil {
		for _, ranks := range c.each {
			for r := range ranks {
				ranks[r] = ranks[run.Like[r]]
			}
		}
		for i := range c.each {
			for r, like := range run.Like[:w.World] { // the machine may have more GPUs
				c.began[i][r], c.work[i][r] = c.began[i][like], c.work[i][like]
			}
		}
	}
	if captured := MeasuredSteps(w); w.Origins == nil {
		c.late = captured.disturbed()
	}
	return c
}

// MeasuredSteps collects the iterations of the captured run.
func MeasuredSteps(w *workload.Workload) *Steps {
	c := newSteps(w)
	for i := range w.Ops {
		c.add(&w.Ops[i], w.Ops[i].Start, w.Ops[i].End)
	}
	c.captured = make([]int, w.Captured)
	for rank, row := range w.Rows {
		if !w.Copies[rank] {
			c.captured[row] = rank
		}
	}
	return c
}

// Steps holds the start and end of each iteration on every rank.
type Steps struct {
	of    []int32 // by op: its iteration, or -1
	steps []workload.Step
	each  [][]Interval   // by iteration and rank
	began [][]trace.Time // likewise, start of the first compute kernel; trace.Infinity: none
	work  [][]trace.Time // likewise, in which kernels ran that do not communicate
	whole Interval
	ranks int
	main  []int64 // of a serving engine, by rank: the queue of its passes; others prepare the next batch

	captured []int      // of the captured run: the rank of each row
	keys     []phaseKey // phases; nil: nothing tells iterations apart
	only     int        // the phase that times are of, from 1; 0: all iterations
	late     []int      // of a simulated run, the iterations that something disturbed in the captured one: a part of that is simulated
}

// An Interval is a time from Start to End.
type Interval = overlap.Interval

func extend(i *Interval, start, end trace.Time) {
	i.Start, i.End = min(i.Start, start), max(i.End, end)
}

func newSteps(w *workload.Workload) *Steps {
	of, n := workload.IterationsOf(w)
	c := &Steps{
		ranks: w.World, of: of, steps: w.Steps, each: make([][]Interval, n), whole: Interval{Start: trace.Infinity},
		keys: keysOf(w.Steps[:min(n, len(w.Steps))]),
	}
	for i := range c.each {
		c.each[i] = slices.Repeat([]Interval{{Start: trace.Infinity}}, w.World)
		c.began, c.work = append(c.began, slices.Repeat([]trace.Time{trace.Infinity}, w.World)), append(c.work, make([]trace.Time, w.World))
	}
	if slices.ContainsFunc(w.Steps, func(s workload.Step) bool { return s.Found || s.Batch.Phase != workload.NoPhase }) {
		c.main = busiest(w)
	}
	return c
}

// busiest is, by rank, the queue with the most compute kernels.
func busiest(w *workload.Workload) []int64 {
	queues := make([]int64, w.World)
	for rank, ids := range w.Ranks {
		count := map[int64]*int{queues[rank]: new(int)}
		most, n, last := count[queues[rank]], (*int)(nil), int64(0)
		for _, id := range ids {
			op := &w.Ops[id]
			if op.Kind != trace.Compute {
				continue
			}
			if n == nil || op.Queue != last {
				n, last = trace.Memo(count, op.Queue, func() *int { return new(int) }), op.Queue
			}
			if *n++; *n > *most {
				most, queues[rank] = n, op.Queue
			}
		}
	}
	return queues
}

func (c *Steps) add(op *workload.Op, start, end trace.Time) {
	extend(&c.whole, start, end)
	if c.main != nil && op.Kind != trace.Collective && op.Queue != c.main[op.Rank] {
		return
	}
	if i := c.of[op.ID]; i >= 0 {
		extend(&c.each[i][op.Rank], start, end)
		if op.Kind == trace.Compute {
			c.work[i][op.Rank] += end - start
			c.began[i][op.Rank] = min(c.began[i][op.Rank], start)
		}
	}
}

// besides is the share of its time for which a rank's iterations run beside each other if they are a pipeline of iterations.
// A copy, or one kernel in front of the next iteration, is none.
const besides = 0.05

// Ran lists the iterations that ran, over all ranks. It reports whether they run beside each
// other on a rank, end in another order, or are of several phases: no iteration stands for the others then.
func (c *Steps) Ran() (all []Interval, overlap bool) {
	both := make([]trace.Time, c.ranks)
	for i, ranks := range c.each {
		x := Interval{Start: trace.Infinity}
		for r, y := range ranks {
			extend(&x, y.Start, y.End)
			if i > 0 {
				both[r] += max(0, c.each[i-1][r].End-y.Start)
			}
		}
		overlap = overlap || c.key(i) != c.key(0)
		if x.Start != trace.Infinity {
			all = append(all, x)
		}
	}
	if len(all) > 1 {
		overlap = overlap || float64(slices.Max(both)) > besides*float64(lastEnd(all)-all[0].Start) ||
			!slices.IsSortedFunc(all, func(a, b Interval) int { return cmp.Compare(a.End, b.End) })
	}
	return all, overlap
}

// lastEnd is when all iterations have ended: of those that overlap not always the end of the last.
func lastEnd(ran []Interval) trace.Time {
	return slices.MaxFunc(ran, func(a, b Interval) int { return cmp.Compare(a.End, b.End) }).End
}

// Whole is from the first start to the last end of all ranks; empty if nothing ran.
func (c *Steps) Whole() Interval {
	if c.whole.Start == trace.Infinity {
		return Interval{}
	}
	return c.whole
}

// Time is the time of one iteration, ns: the median distance
// between the ends of successive iterations, counting the last device operation of any
// rank. This excludes the start of the first one (other ranks, a cold host). For
// iterations that overlap it is the mean, including the fill and drain of the pipeline but
// not the initial wait for other ranks. Of iterations of unequal times it is that of the
// undisturbed ones (Disturbed). A single iteration has its length; a run without iterations
// has the whole run's time.
func (c *Steps) Time() trace.Time {
	is, rounds := c.Typical()
	return is.Length() / trace.Time(rounds)
}

// unequal is how many times longer one iteration of the same operations takes than another if something disturbed it:
// measured steps of one program differ by a few percent.
const unequal = 1.3

// Disturbed says how far iterations of unequal times are apart, ns, and how many Steps.Time leaves out; zeros: they
// are equal, or overlap.
func (c *Steps) Disturbed() (shortest, longest trace.Time, out int) {
	ran, overlap := c.Ran()
	if len(ran) < 2 || overlap {
		return 0, 0, 0
	}
	times := c.times(ran)
	shortest, longest = slices.Min(times[1:]), slices.Max(times[1:])
	kept := c.undisturbed(ran)
	if kept[0] == 0 {
		shortest = min(shortest, times[0])
	}
	if float64(longest) <= unequal*float64(shortest) {
		return 0, 0, 0
	}
	return shortest, longest, len(ran) - 1 - len(slices.DeleteFunc(kept, func(i int) bool { return i == 0 }))
}

// times are by iteration from the end of the one before to its end; of the first one from its start to that of the
// second on the rank that waited least, or the longest time if no rank shows it.
func (c *Steps) times(ran []Interval) []trace.Time {
	times := []trace.Time{trace.Infinity}
	for r, start := range c.began[0] {
		if next := c.began[1][r]; start < next && next != trace.Infinity {
			times[0] = min(times[0], next-start)
		}
	}
	for i := 1; i < len(ran); i++ {
		times = append(times, ran[i].End-ran[i-1].End)
	}
	return times
}

// undisturbed are the iterations whose times are within unequal of each other: the most that are, of equally many the
// fastest, since what disturbs an iteration lengthens it. Where kernels of one ran for longer than those of another, by as
// much, they do different work, and none is disturbed.
func (c *Steps) undisturbed(ran []Interval) (kept []int) {
	times := c.times(ran)
	order := make([]int, len(times))
	for i := range order {
		order[i] = i
	}
	var work []float64
	for _, ranks := range c.work {
		var sum trace.Time
		for _, t := range ranks {
			sum += t
		}
		work = append(work, float64(sum))
	}
	if len(ran) != len(c.each) || slices.Max(work) > unequal*slices.Min(work) {
		return order[1:]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(times[a], times[b]) })
	for i := range order {
		n := 1
		for i+n < len(order) && float64(times[order[i+n]]) <= unequal*float64(times[order[i]]) {
			n++
		}
		if n > len(kept) {
			kept = order[i : i+n]
		}
	}
	kept = slices.Clone(kept)
	slices.Sort(kept)
	if calm := slices.DeleteFunc(slices.Clone(kept), func(i int) bool { return slices.Contains(c.late, i) }); len(calm) > 0 {
		return calm
	}
	return kept
}

// disturbed are the iterations after the first that Steps.Time leaves out since they take longer.
func (c *Steps) disturbed() (list []int) {
	if _, _, out := c.Disturbed(); out > 0 {
		ran, _ := c.Ran()
		times, kept := c.times(ran), c.undisturbed(ran)
		for i := 1; i < len(ran); i++ {
			if !slices.Contains(kept, i) && times[i] > times[kept[0]] {
				list = append(list, i)
			}
		}
	}
	return list
}

// typical is the iteration of the median time of those that nothing disturbed, from the end of the one before to its end;
// the first one, which starts cold, if there is no other.
func (c *Steps) typical(ran []Interval) Interval {
	times, kept := c.times(ran), c.undisturbed(ran)
	if kept = slices.DeleteFunc(kept, func(i int) bool { return i == 0 }); len(kept) == 0 {
		start := ran[0].End - times[0]
		for r, next := range c.began[1] {
			if next != trace.Infinity && next-c.began[0][r] == times[0] {
				start = c.began[0][r]
			}
		}
		return Interval{Start: start, End: start + times[0]}
	}
	slices.SortStableFunc(kept, func(a, b int) int { return cmp.Compare(times[a], times[b]) })
	at := kept[(len(kept)-1)/2]
	return Interval{Start: ran[at-1].End, End: ran[at].End}
}

// Mean is the time from the start of the first iteration to the end of the last, divided
// by their number.
func (c *Steps) Mean() trace.Time {
	ran, _ := c.Ran()
	if len(ran) == 0 {
		return max(0, c.whole.End-c.whole.Start)
	}
	return (lastEnd(ran) - ran[0].Start) / trace.Time(len(ran))
}

// filled is the duration of the first of overlapping iterations on the rank that waited
// least.
func (c *Steps) filled(ran []Interval) trace.Time {
	least := ran[0].End - ran[0].Start
	for _, x := range c.each[0] {
		if x.End > x.Start {
			least = min(least, x.End-x.Start)
		}
	}
	return least
}

// OriginOf is the workload op that a simulated kernel or copy stands for, or -1.
func OriginOf(run *trace.Run, s trace.Span) int32 {
	if k := run.Kernel(s); k != nil {
		return k.Origin
	}
	if c := run.Copy(s); c != nil {
		return c.Origin
	}
	return trace.None
}

// Typical is the iteration that Steps.Time describes: from the end of the previous one to
// its end; or all iterations if they overlap, and their number.
func (c *Steps) Typical() (is Interval, rounds int) {
	ran, overlap := c.Ran()
	switch n := len(ran); {
	case c.whole.Start == trace.Infinity:
		return Interval{}, 1
	case c.only > 0:
		return c.median(), 1
	case n == 0:
		return c.whole, 1
	case n == 1:
		return ran[0], 1
	case overlap:
		return Interval{Start: ran[0].End - c.filled(ran), End: lastEnd(ran)}, n
	}
	return c.typical(ran), 1
}
