package operator

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// A step is one operation of an iteration, the same on every rank.
type step struct {
	name     string
	kind     trace.Kind
	seconds  float64
	kernel   trace.Setup
	operator trace.Operator // Compute: the sizes
	row      int32          // of Run.Operators
	comm     *trace.Comm    // Collective
	group    string         // of the collective; "": all ranks
	out      int64          // bytes that it writes, for the dataflow of a graph
	reads    []int          // of a graph: the steps whose output it reads
	stream   string         // of a graph
	line     int            // of the file; 0: of the operator
	parts    int64          // along K, of each tile; 0: not known
	why      string         // how the duration was computed
}

// A bench computes the steps of a file on a machine.
type bench struct {
	f     *File
	m     machine.Machine
	ranks int
	steps []step
	gemms int            // number of GEMMs so far
	group string         // of the collectives that follow; "": all ranks
	tile  tile           // of the GEMMs that follow, by a compiled kernel; zero: as the file says
	split int            // parts along K; 0: as the file says
	named map[string]int // step of an operator of a graph, by name
	rests []string       // unmeasured numbers of the profile that durations depend on
}

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
	b := &bench{f: f, m: m, ranks: ranks, named: map[string]int{}}
	f.graph.run(b)
	if len(b.steps) == 0 {
		return nil, f.fault("machine", "choose one with more GPUs",
			"nothing runs on the %d GPU of %s: a collective of one rank moves nothing", ranks, m.Name)
	}
	if n := len(b.steps) * ranks * max(1, f.Iterations); n > maxOperations {
		return nil, f.fault("iterations", "ask for fewer, or repeat fewer layers", "%d operations on %d ranks", n, ranks)
	}
	if err := b.given(); err != nil {
		return nil, err
	}
	for _, s := range b.steps {
		if !(s.seconds < mostSeconds) || s.kernel.Grid[0] < 0 {
			return nil, f.fault("shape", "is a size mistyped?", "%s would take %.0f s on %s", s.name, s.seconds, m.Name)
		}
	}
	return b.run(), nil
}

// maxOperations of all ranks and iterations, about 2 GB.
const maxOperations = 10_000_000

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
			around := b.f.HostGap(b.m)
			if b.f.Sync == syncEvent && n > 0 {
				around = b.m.Launch.Gap.Value
			}
			if b.f.Sync == syncClear && s.parts > 1 {
				around += clearing
			}
			s.seconds, s.why = b.f.Times[n]-around, "time of the file"
			if around > 0 {
				s.why += " less the launch and the wait for it"
			}
			if s.seconds <= 0 {
				return b.f.fault("times", "give the launch, the kernel and the wait for it together",
					"%s takes less than its launch and the wait for it, %.3g µs", s.name, around*1e6)
			}
		}
		n++
	}
	if n != len(b.f.Times) {
		return b.f.fault("times", fmt.Sprintf("give %d, in µs", n), "%d times for %d compute kernels", len(b.f.Times), n)
	}
	return nil
}

// HostGap is the seconds that a machine's host takes to launch the first kernel and to wait for it (rule H9),
// which Times include; 0 if it does not wait.
func (f *File) HostGap(m machine.Machine) float64 {
	switch f.Sync {
	case syncStream:
		return 0
	case syncEvent:
		return m.Launch.Host.Value
	}
	return m.Launch.Host.Value + m.Launch.Sync.Or(0)
}

func (b *bench) run() *trace.Run {
	var t trace.Builder
	groups := b.groups(&t)
	for k := range b.steps {
		if b.steps[k].row = trace.None; b.steps[k].kind == trace.Compute {
			b.steps[k].row = t.AddOperator(b.steps[k].operator)
		}
	}
	for id := range b.ranks {
		b.rank(&t, id, groups)
	}
	noted := map[string]bool{}
	for _, s := range b.steps {
		key := fmt.Sprint(s.line, s.name, s.why)
		if noted[key] { // repeated operators
			continue
		}
		noted[key] = true
		t.Note(trace.Noted, b.f.Path, fmt.Sprintf("%s: %.1f µs, %s", s.name, s.seconds*1e6, s.why), "line",
			int64(cmp.Or(s.line, b.f.lines["operator"])))
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

// groups adds the groups of the collectives: all ranks, and neighbouring ones for each named
// group. The result has the row of a group by name, for each rank.
func (b *bench) groups(t *trace.Builder) []map[string]int32 {
	rows := make([]map[string]int32, b.ranks)
	for id := range rows {
		rows[id] = map[string]int32{}
	}
	add := func(name, called string, size int) {
		for first := 0; first < b.ranks; first += size {
			g := trace.Group{Name: called, Size: size}
			if size < b.ranks {
				g.Name = fmt.Sprintf("%s %d", called, first/size)
			}
			for id := first; id < first+size; id++ {
				g.Ranks = append(g.Ranks, id)
			}
			row := t.AddGroup(g)
			for _, id := range g.Ranks {
				rows[id][name] = row
			}
		}
	}
	add("", "all", b.ranks)
	for _, name := range slices.Sorted(maps.Keys(b.f.groups)) {
		add(name, name, b.f.groups[name])
	}
	return rows
}

// rank writes the timeline of one rank.
func (b *bench) rank(t *trace.Builder, id int, groups []map[string]int32) {
	g := &b.m.GPU
	rank := t.AddRank(trace.Rank{ID: id, World: b.ranks, Source: b.f.Path, Device: trace.Device{
		Name: g.Name, CUs: int(g.CUs.Value), ThreadsPerCU: int(g.Threads.Value),
		RegistersPerCU: int(g.Registers.Value), SharedPerCU: int(g.Shared.Value),
	}})
	marks := t.Lane(trace.Lane{Kind: trace.Annotation, Rank: rank, Peer: trace.None, Name: "iterations"})
	var at trace.Time
	gap := duration(b.m.Launch.Gap.Value)
	if b.f.Sync == syncHost || b.f.Sync == syncClear {
		gap = duration(b.f.HostGap(b.m))
	}
	seqs := map[string]int64{}
	lanes, free := map[string]trace.LaneID{}, map[string]trace.Time{} // by stream
	ends := make([]trace.Time, len(b.steps))
	for i := range b.f.Iterations {
		from := at
		for k := range b.steps {
			s := &b.steps[k]
			seq := seqs[s.group]
			if s.kind == trace.Collective {
				seqs[s.group]++
			}
			lane := trace.Memo(lanes, s.stream, func() trace.LaneID {
				return t.Lane(trace.Lane{
					Kind: trace.Queue, Rank: rank, ID: int64(len(lanes)), Peer: trace.None,
					Name: cmp.Or(s.stream, "stream 0"),
				})
			})
			start := max(from, free[s.stream])
			for _, r := range s.reads {
				start = max(start, ends[r]+gap)
			}
			end := start + max(1, duration(s.seconds))
			t.Add(trace.Span{
				Start: start, End: end, Name: t.Intern(s.name), Lane: lane, Parent: trace.None,
				Kind: s.kind, Attr: b.attr(t, k, groups[id], seq, int32(i)),
			})
			ends[k], free[s.stream] = end, end+gap
			at = max(at, end+gap)
		}
		t.Add(trace.Span{
			Start: from, End: at - gap, Name: t.Intern(fmt.Sprintf("iteration#%d", i)), Lane: marks,
			Parent: trace.None, Attr: trace.None, Kind: trace.Marker,
		})
	}
}

// attr is the attribute row of step k of an iteration; seq numbers the collectives of a group.
func (b *bench) attr(t *trace.Builder, k int, groups map[string]int32, seq int64, iteration int32) int32 {
	s := &b.steps[k]
	a := trace.Kernel{Comm: trace.None, Op: s.row, Origin: trace.None, Setup: t.AddSetup(s.kernel)}
	switch s.kind {
	case trace.Copy: // the fill before a GEMM, by the same operator
		return t.AddCopy(trace.CopyAttr{Peer: trace.None, Op: b.steps[k+1].row, Origin: trace.None, Dir: trace.Fill})
	case trace.Collective:
		c := *s.comm
		c.Group, c.Seq = groups[s.group], seq
		a.Comm = t.AddComm(c)
	}
	if b.f.dataflow {
		a.Uses = t.AddUses(b.accesses(k, iteration), 0)
	}
	return t.AddKernel(a)
}

func duration(seconds float64) trace.Time { return trace.Time(math.Round(seconds * 1e9)) }
