package validate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/dataset"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// A Stamped is one measured set of workgroup stamps, a kernel on all ranks,
// alongside the prediction for it. Distances are fractions of the measured
// kernel's duration, means over ranks; both kernels begin at 0.
type Stamped struct {
	Name       string
	Strategy   string // and under what
	Workgroups int    // of one rank: tiles, where workgroups are persistent
	Measured   float64
	Predicted  float64 // microseconds from the first workgroup's start to the last one's end
	Starts     float64 // earth mover's distance of start times
	Ends       float64 // of end times
	Order      float64 // mean distance of the same workgroup's start: who runs when
	Shape      float64 // Starts, with the prediction stretched to the measured length: waves and order without the clock
	Why        string  // why there is no prediction
}

// programs is how many physical workgroups the kernels of a run have on its first rank.
func programs(run *trace.Run) int {
	for _, s := range run.Spans {
		if k := run.Kernel(s); s.Kind == trace.Compute && k != nil {
			return run.Setup(k).WGs()
		}
	}
	return 0
}

// Stamps replays a row's trace under its strategy with workgroups recorded and
// compares the kernel that was stamped. Without a row (nil), kernels ran on two
// streams as captured; each takes as long as the shortest of its kind, which ran
// alone, or nearly so.
func Stamps(of dataset.Stamps, stamps *trace.Run, row *dataset.Row, run *trace.Run, m machine.Machine) Stamped {
	c := Stamped{Name: of.Name, Strategy: "captured, side by side"}
	if row != nil {
		c.Strategy = RowName(*row)
	}
	measured := kernels(stamps)
	if len(measured) == 0 {
		c.Why = "no workgroup in the stamps"
		return c
	}
	c.Workgroups = len(measured[0].wgs)
	as := stampedAs{programs: programs(stamps), persistent: of.Persistent}
	if of.Late {
		as.late = c.Workgroups
	}
	out, err := replayStamped(row, run, m, as)
	if err != nil {
		c.Why = err.Error()
		return c
	}
	predicted := kernels(out)
	var n float64
	for _, a := range measured {
		b, ok := like(predicted, a, row == nil)
		if !ok {
			c.Why = fmt.Sprintf("rank %d: no predicted kernel of %d workgroups", a.rank, len(a.wgs))
			return c
		}
		n++
		c.Measured += a.length()
		c.Predicted += b.length()
		c.Starts += mover(a.starts(), b.starts()) / a.length()
		c.Shape += mover(a.starts(), stretched(b.starts(), a.length()/b.length())) / a.length()
		c.Ends += mover(a.ends(), b.ends()) / a.length()
		c.Order += matched(a, b) / a.length()
	}
	c.Measured, c.Predicted = c.Measured/n/1e3, c.Predicted/n/1e3
	c.Starts, c.Ends, c.Order, c.Shape = c.Starts/n, c.Ends/n, c.Order/n, c.Shape/n
	return c
}

// stampedAs is what stamping did to a program.
type stampedAs struct {
	persistent bool // the kernel is a loop over what is a grid in the trace
	programs   int  // physical workgroups
	late       int  // workgroups of a consumer that began long after its producer had ended
}

// compiling is longer than any kernel that is stamped: kernels with stamps are
// compiled when they are first launched, in a tenth of a second each.
const compiling = trace.Time(100_000_000)

// replayStamped is the simulated run.
func replayStamped(row *dataset.Row, run *trace.Run, m machine.Machine, as stampedAs) (*trace.Run, error) {
	s := plan.Selection{Strategy: schedule.AsScheduled}
	told := lift.Options{Unprofiled: true}
	if row != nil {
		var err error
		if s, err = selectionOf(row); err != nil {
			return nil, err
		}
		told = given(row, run)
	}
	w, err := lift.Workload(run, told)
	if err != nil {
		return nil, err
	}
	for i := range w.Ops {
		if op := &w.Ops[i]; as.persistent && op.Kind == trace.Compute && op.Tiling.WGs > as.programs {
			kernel := *op.Kernel // others share it
			t := &kernel.Tiling
			t.Persistent, t.Tiles, t.WGs = true, t.WGs, as.programs
			op.Kernel = &kernel
		}
	}
	if w, err = compare.Isolate(w, m, nil); err != nil {
		return nil, err
	}
	p, err := s.Strategy.Program(w, m, s.Values, plan.Scenario{Pace: 1})
	if err != nil {
		return nil, err
	}
	as.delay(p)
	out, err := replay.Simulate(m, p, replay.Options{Level: replay.Workgroups})
	if err != nil {
		return nil, err
	}
	return out.Run, nil
}

// delay puts off the launches of a late consumer.
func (as stampedAs) delay(p *program.Program) {
	for g := range p.GPUs {
		for s := range p.GPUs[g].Streams {
			commands := p.GPUs[g].Streams[s].Commands
			for i := range commands {
				if k := commands[i].Kernel; as.late > 0 && k != nil && max(k.Tiles, k.WGs) == as.late {
					commands[i].Delay += compiling
				}
			}
		}
	}
}

// A stampedKernel is one kernel's workgroups, in order of id.
type stampedKernel struct {
	rank  int
	start trace.Time
	wgs   []stamp
}

type stamp struct {
	id         int32
	start, end trace.Time // since the first workgroup's start
}

// kernels gathers the kernels of a run that have workgroups, by rank and start.
func kernels(run *trace.Run) []stampedKernel {
	at := map[trace.SpanID]int{}
	var list []stampedKernel
	for _, s := range run.Spans {
		a := run.Workgroup(s)
		if s.Kind != trace.Workgroup || a == nil || a.ID < 0 || s.Parent < 0 {
			continue
		}
		if k := run.Spans[s.Parent]; k.Kind != trace.Compute {
			continue
		}
		i, seen := at[s.Parent]
		if !seen {
			i = len(list)
			at[s.Parent] = i
			list = append(list, stampedKernel{rank: run.Ranks[run.RankOf(s)].ID, start: s.Start})
		}
		list[i].start = min(list[i].start, s.Start)
		list[i].wgs = append(list[i].wgs, stamp{a.ID, s.Start, s.End})
	}
	for i := range list {
		k := &list[i]
		slices.SortFunc(k.wgs, func(a, b stamp) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.start, b.start)) })
		for j := range k.wgs {
			k.wgs[j].start -= k.start
			k.wgs[j].end -= k.start
		}
	}
	slices.SortStableFunc(list, func(a, b stampedKernel) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.start, b.start))
	})
	return list
}

// like is the kernel of as many workgroups on the same rank: the last, by when
// the run has settled, or the first.
func like(list []stampedKernel, a stampedKernel, first bool) (stampedKernel, bool) {
	var found stampedKernel
	ok := false
	for _, k := range list {
		if k.rank == a.rank && len(k.wgs) == len(a.wgs) && (!ok || !first) {
			found, ok = k, true
		}
	}
	return found, ok
}

// length is from the first start to the last end, in nanoseconds.
func (k stampedKernel) length() float64 {
	var end trace.Time
	for _, w := range k.wgs {
		end = max(end, w.end)
	}
	return float64(end)
}

func (k stampedKernel) starts() []float64 {
	return k.times(func(w stamp) trace.Time { return w.start })
}

func (k stampedKernel) ends() []float64 {
	return k.times(func(w stamp) trace.Time { return w.end })
}

func (k stampedKernel) times(of func(stamp) trace.Time) []float64 {
	t := make([]float64, len(k.wgs))
	for i, w := range k.wgs {
		t[i] = float64(of(w))
	}
	slices.Sort(t)
	return t
}

// mover is the earth mover's distance of two equally large sorted sets of
// times: how far each has to move, on average, if each moves to its peer in order.
func mover(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += math.Abs(a[i] - b[i])
	}
	return sum / float64(max(1, len(a)))
}

func stretched(t []float64, by float64) []float64 {
	for i := range t {
		t[i] *= by
	}
	return t
}

// matched is how far apart the same workgroup starts, on average.
func matched(a, b stampedKernel) float64 {
	sum := 0.0
	for i := range a.wgs {
		sum += math.Abs(float64(a.wgs[i].start - b.wgs[i].start))
	}
	return sum / float64(max(1, len(a.wgs)))
}
