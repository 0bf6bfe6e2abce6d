package operator

import (
	"fmt"
	"math"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// A step is one operation of an iteration, the same on every rank.
type step struct {
	name     string
	kind     trace.Kind
	seconds  float64
	kernel   trace.Kernel
	operator trace.Operator // Compute: the sizes
	row      int32          // of Run.Operators
	comm     *trace.Comm    // Collective
	why      string         // how the duration was computed
}

// A bench computes the steps of a file on a machine.
type bench struct {
	f     *File
	m     machine.Machine
	ranks int
	steps []step
	gemms int      // number of GEMMs so far
	rests []string // unmeasured numbers of the profile that durations depend on
}

func (b *bench) size(key string) int64 { return b.f.shape[key] }

// mostSeconds bounds the duration of a kernel; a longer one indicates a mistyped size.
const mostSeconds = 3600

// Run returns the file's bulk-synchronous schedule on a machine: one stream per rank,
// sequential kernels separated by the profile's launch gap, identical on all ranks.
// All times are estimated. Each iteration is marked as a step.
func (f *File) Run(m machine.Machine) (*trace.Run, error) {
	ranks, err := f.world(m)
	if err != nil {
		return nil, err
	}
	op, ok := operationNamed(f.Operator)
	if !ok {
		return nil, f.fault("operator", "", "unknown operator %q", f.Operator)
	}
	b := &bench{f: f, m: m, ranks: ranks}
	op.steps(b)
	if err := b.given(); err != nil {
		return nil, err
	}
	for _, s := range b.steps {
		if !(s.seconds < mostSeconds) || s.kernel.WGs() < 0 {
			return nil, f.fault("shape", "is a size mistyped?", "%s would take %.0f s on %s", s.name, s.seconds, m.Name)
		}
	}
	return b.run(), nil
}

// given replaces the rooflines of compute kernels by the times of the file.
func (b *bench) given() error {
	if b.f.Times == nil {
		return nil
	}
	n := 0
	for i := range b.steps {
		s := &b.steps[i]
		if s.kind != trace.Compute {
			continue
		}
		if n < len(b.f.Times) {
			s.seconds, s.why = b.f.Times[n], "time of the file"
			if b.f.HostSync {
				s.seconds, s.why = s.seconds-b.m.Launch.Host.Value, "time of the file less the host's launch"
			}
			if s.seconds <= 0 {
				return b.f.fault("times", "give the launch and the kernel together", "%s takes less than the host's launch, %.3g µs", s.name, b.m.Launch.Host.Value*1e6)
			}
		}
		n++
	}
	if n != len(b.f.Times) {
		return b.f.fault("times", fmt.Sprintf("give %d, in µs", n), "%d times for %d compute kernels", len(b.f.Times), n)
	}
	return nil
}

func (b *bench) run() *trace.Run {
	var t trace.Builder
	group := trace.Group{Name: "all", Size: b.ranks}
	for id := range b.ranks {
		group.Ranks = append(group.Ranks, id)
	}
	row := t.AddGroup(group)
	for k := range b.steps {
		if b.steps[k].row = trace.None; b.steps[k].kind == trace.Compute {
			b.steps[k].row = t.AddOperator(b.steps[k].operator)
		}
	}
	for id := range b.ranks {
		b.rank(&t, id, row)
	}
	for _, s := range b.steps {
		t.Note(trace.Noted, b.f.Path, fmt.Sprintf("%s: %.1f µs, %s", s.name, s.seconds*1e6, s.why), "line", int64(b.f.lines["operator"]))
	}
	for _, r := range b.rests {
		t.Note(trace.Noted, b.f.Path, r, "line", int64(b.f.lines["machine"]))
	}
	estimated := "not measured: roofline on " + b.m.Name
	if b.f.Times != nil {
		estimated = "not a trace: an operator with given times of its kernels, on " + b.m.Name
	}
	if len(b.rests) > 0 {
		estimated += ", some of whose rates are assumed"
	}
	return t.Finish(trace.Options{Name: b.f.Path, Simulated: true, KeepZero: true, Estimated: estimated})
}

// rank writes the timeline of one rank.
func (b *bench) rank(t *trace.Builder, id int, group int32) {
	g := &b.m.GPU
	rank := t.AddRank(trace.Rank{ID: id, World: b.ranks, Source: b.f.Path, Device: trace.Device{
		Name: g.Name, CUs: int(g.CUs.Value), ThreadsPerCU: int(g.Threads.Value),
		RegistersPerCU: int(g.Registers.Value), SharedPerCU: int(g.Shared.Value),
	}})
	queue := t.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, Peer: trace.None, Name: "stream 0"})
	marks := t.Lane(trace.Lane{Kind: trace.Annotation, Rank: rank, Peer: trace.None, Name: "iterations"})
	var at trace.Time
	gap := duration(b.m.Launch.Gap.Value)
	if b.f.HostSync {
		gap = duration(b.m.Launch.Host.Value)
	}
	for i := range b.f.Iterations {
		from := at
		for k := range b.steps {
			end := at + max(1, duration(b.steps[k].seconds))
			t.Add(trace.Span{
				Start: at, End: end, Name: t.Intern(b.steps[k].name), Lane: queue, Parent: trace.None,
				Kind: b.steps[k].kind, Attr: b.attr(t, k, group, int64(i)),
			})
			at = end + gap
		}
		t.Add(trace.Span{
			Start: from, End: at - gap, Name: t.Intern(fmt.Sprintf("iteration#%d", i)), Lane: marks,
			Parent: trace.None, Attr: trace.None, Kind: trace.Marker,
		})
	}
}

// attr is the attribute row of step k in an iteration.
func (b *bench) attr(t *trace.Builder, k int, group int32, iteration int64) int32 {
	s := &b.steps[k]
	switch s.kind {
	case trace.Copy: // the fill before a GEMM, by the same operator
		return t.AddCopy(trace.CopyAttr{Peer: trace.None, Op: b.steps[k+1].row, Origin: trace.None, Dir: trace.Fill})
	case trace.Collective:
		c := *s.comm
		c.Group, c.Seq = group, iteration
		s.kernel.Comm = t.AddComm(c)
	}
	a := s.kernel
	a.Op = s.row
	return t.AddKernel(a)
}

func duration(seconds float64) trace.Time { return trace.Time(math.Round(seconds * 1e9)) }
