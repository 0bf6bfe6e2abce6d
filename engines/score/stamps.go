package score

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// A stamped is one measured set of workgroup stamps, a kernel on all ranks,
// alongside the prediction for it. Distances are fractions of the measured
// kernel's duration, means over ranks; both kernels begin at 0.
type stamped struct {
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

// stampsOf opens stamps of a set and the trace that their prediction starts from. The machine of stamps
// without a row is that of the set.
func stampsOf(s *dataset.Set, of dataset.Stamps, open func(name string) (*trace.Run, error),
	machines func(dataset.Row) (machine.Machine, error),
) stamped {
	c := stamped{Name: of.Name, Strategy: "captured, side by side"}
	row, like, from := s.Row(of.Row), s.Rows[0], of.Trace
	if row != nil {
		c.Strategy, like, from = RowName(*row), *row, row.Trace
	}
	m, err := machines(like)
	var measured, captured *trace.Run
	if err == nil {
		measured, err = open(of.Files)
	}
	if err == nil {
		captured, err = open(from)
	}
	if err == nil {
		err = c.compare(of, measured, row, captured, m)
	}
	if err != nil {
		c.Why = err.Error()
	}
	return c
}

// compare replays a row's trace under its strategy with workgroups recorded and
// compares the kernel that was stamped. Without a row (nil), kernels ran on two
// streams as captured; each takes as long as the shortest of its kind, which ran
// alone, or nearly so.
func (c *stamped) compare(of dataset.Stamps, stamps *trace.Run, row *dataset.Row, captured *trace.Run, m machine.Machine) error {
	measured := stampedKernels(stamps)
	if len(measured) == 0 {
		return fmt.Errorf("no workgroup in the stamps")
	}
	c.Workgroups = len(measured[0].starts)
	late := 0
	if of.Late {
		late = c.Workgroups
	}
	out, err := replayStamped(of, row, captured, m, late, physical(stamps))
	if err != nil {
		return err
	}
	predicted := stampedKernels(out)
	if row != nil { // the last kernel, by when the run has settled
		slices.Reverse(predicted)
	}
	n := float64(len(measured))
	for _, a := range measured {
		i := slices.IndexFunc(predicted, func(b stampedKernel) bool { return b.rank == a.rank && len(b.starts) == len(a.starts) })
		if i < 0 {
			return fmt.Errorf("rank %d: no predicted kernel of %d workgroups", a.rank, len(a.starts))
		}
		b := predicted[i]
		length := slices.Max(a.ends)
		c.Measured += length / 1e3 / n
		c.Predicted += slices.Max(b.ends) / 1e3 / n
		c.Order += mover(a.starts, b.starts) / length / n
		c.Starts += mover(sorted(a.starts, 1), sorted(b.starts, 1)) / length / n
		c.Shape += mover(sorted(a.starts, 1), sorted(b.starts, length/slices.Max(b.ends))) / length / n
		c.Ends += mover(sorted(a.ends, 1), sorted(b.ends, 1)) / length / n
	}
	return nil
}

// physical is how many workgroups the stamped kernels have on the first rank.
func physical(run *trace.Run) int {
	for _, s := range run.Spans {
		if k := run.Kernel(s); s.Kind == trace.Compute && k != nil {
			return run.Setup(k).WGs()
		}
	}
	return 0
}

// compiling is longer than any kernel that is stamped: kernels with stamps are
// compiled when they are first launched, in a tenth of a second each.
const compiling = trace.Time(100_000_000)

// replayStamped is the simulated run. A persistent kernel is a loop over what is a grid in the trace. late is how many
// workgroups a consumer has that began long after its producer had ended; 0: none did.
func replayStamped(of dataset.Stamps, row *dataset.Row, captured *trace.Run, m machine.Machine, late, physical int) (*trace.Run, error) {
	s := plan.Selection{Strategy: schedule.InPlace}
	told := lift.Options{Unprofiled: true}
	if row != nil {
		var err error
		if s, err = selectionOf(row); err != nil {
			return nil, err
		}
		told = given(row, captured)
	}
	w, err := lift.Workload(captured, told)
	if err != nil {
		return nil, err
	}
	for i := range w.Ops {
		if op := &w.Ops[i]; of.Persistent && op.Kind == trace.Compute && op.Tiling.WGs > physical {
			kernel := *op.Kernel // others share it
			t := &kernel.Tiling
			t.Persistent, t.Tiles, t.WGs = true, t.WGs, physical
			op.Kernel = &kernel
		}
	}
	if w, err = engines.Isolate(w, m, nil); err != nil {
		return nil, err
	}
	pl, err := schedule.Planned(s.Strategy, w, m, s.Values, plan.Scenario{Pace: 1})
	if err != nil {
		return nil, err
	}
	delay(pl.Program, late)
	out, err := replay.Simulate(m, pl.Program, replay.Options{Level: replay.Workgroups})
	if err != nil {
		return nil, err
	}
	return out.Run, nil
}

// delay puts off the launches of a late consumer.
func delay(p *program.Program, late int) {
	for g := range p.GPUs {
		for s := range p.GPUs[g].Streams {
			commands := p.GPUs[g].Streams[s].Commands
			for i := range commands {
				if k := commands[i].Kernel; late > 0 && k != nil && max(k.Tiles, k.WGs) == late {
					commands[i].Delay += compiling
				}
			}
		}
	}
}

// A stampedKernel is one kernel's workgroups, in order of id: nanoseconds since the first one's start.
type stampedKernel struct {
	rank         int
	starts, ends []float64
}

// stampedKernels are the kernels of a run that have workgroups, by rank and start.
func stampedKernels(run *trace.Run) (list []stampedKernel) {
	of := map[trace.SpanID][]trace.Span{} // workgroups of kernels, by start
	var kernels []trace.SpanID
	for _, s := range run.Spans {
		a, kernel := run.Workgroup(s), s.Parent
		if s.Kind != trace.Workgroup || a == nil || a.ID < 0 || kernel < 0 || run.Spans[kernel].Kind != trace.Compute {
			continue
		}
		if of[kernel] == nil {
			kernels = append(kernels, kernel)
		}
		of[kernel] = append(of[kernel], s)
	}
	for _, kernel := range kernels {
		wgs := of[kernel]
		k, first := stampedKernel{rank: run.Ranks[run.RankOf(wgs[0])].ID}, wgs[0].Start
		slices.SortStableFunc(wgs, func(a, b trace.Span) int { return cmp.Compare(run.Workgroup(a).ID, run.Workgroup(b).ID) })
		for _, s := range wgs {
			k.starts, k.ends = append(k.starts, float64(s.Start-first)), append(k.ends, float64(s.End-first))
		}
		list = append(list, k)
	}
	slices.SortStableFunc(list, func(a, b stampedKernel) int { return a.rank - b.rank })
	return list
}

// sorted are times multiplied by a factor, in rising order.
func sorted(times []float64, by float64) []float64 {
	t := slices.Clone(times)
	for i := range t {
		t[i] *= by
	}
	slices.Sort(t)
	return t
}

// mover is the mean distance of two equally large lists of times, each from its peer. Of sorted
// ones it is the earth mover's distance.
func mover(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += math.Abs(a[i] - b[i])
	}
	return sum / float64(max(1, len(a)))
}
