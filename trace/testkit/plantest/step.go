package plantest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// stepOps are the collectives that the names of a step's operations begin with.
var stepOps = []struct {
	prefix string
	op     trace.CollectiveOp
}{{"AG", trace.AllGather}, {"RS", trace.ReduceScatter}, {"AR", trace.AllReduce}, {"A2A", trace.AllToAll}}

// Step is a captured step of some ranks that all do the same, with its dataflow. It is
// written one operation a line, in the order of issue: its stream, name, duration in µs,
// and what it reads. Names that begin with AG, RS, AR or A2A are collectives of 64 MiB, or
// of the given size ("AR1=96"); other names in upper case are GEMMs, those in lower case copies. What is read of a kernel has the
// collective's size, or the given one ("g1=32"). An operation starts when its stream is
// free and what stands behind "waits" has ended.
//
//	7 in1     20
//	7 AG1    100 in1
//	7 F1     200 AG1
//	9 AR1=96 100 F1=96 waits F1
func Step(t testing.TB, ranks int, text string) *workload.Workload {
	t.Helper()
	s := stepBuilder{t: t, w: &workload.Workload{World: ranks, Captured: ranks}}
	s.group = s.AddGroup(trace.Group{Name: "0", Size: ranks})
	for rank := range ranks {
		s.AddRank(trace.Rank{ID: rank, World: ranks})
		s.w.Rows, s.w.Copies = append(s.w.Rows, int32(rank)), append(s.w.Copies, false)
		s.w.Ranks = append(s.w.Ranks, nil)
		s.ids, s.ends = map[string]int32{}, map[int64]trace.Time{}
		for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
			s.line(rank, strings.Fields(line))
		}
	}
	s.w.Run = s.Finish(trace.Options{Name: "step", KeepZero: true})
	at := map[string]trace.SpanID{}
	for i, sp := range s.w.Run.Spans {
		at[fmt.Sprint(s.w.Run.RankOf(sp), s.w.Run.NameOf(sp))] = trace.SpanID(i)
	}
	for i := range s.w.Ops {
		op := &s.w.Ops[i]
		op.Span = at[fmt.Sprint(op.Rank, op.Name)]
	}
	return s.w
}

type stepBuilder struct {
	trace.Builder
	t     testing.TB
	w     *workload.Workload
	group int32
	ids   map[string]int32 // by name, of the current rank
	ends  map[int64]trace.Time
}

// sized splits "AR1=96" into the name and its bytes, given in MiB.
func (s *stepBuilder) sized(word string) (name string, bytes int64) {
	name, size, ok := strings.Cut(word, "=")
	if !ok {
		return name, 64 << 20
	}
	n, err := strconv.Atoi(size)
	if err != nil {
		s.t.Fatal(err)
	}
	return name, int64(n) << 20
}

func (s *stepBuilder) line(rank int, words []string) {
	s.t.Helper()
	queue, err1 := strconv.ParseInt(words[0], 10, 64)
	took, err2 := strconv.ParseInt(words[2], 10, 64)
	if err1 != nil || err2 != nil {
		s.t.Fatalf("%q", words)
	}
	name, bytes := s.sized(words[1])
	reads, waits := words[3:], []string(nil)
	if i := slices.Index(reads, "waits"); i >= 0 {
		reads, waits = reads[:i], reads[i+1:]
	}
	id := int32(len(s.w.Ops))
	op := workload.Op{
		ID: id, Rank: rank, Kind: trace.Compute, Queue: queue, Collective: -1, Issued: trace.Infinity, Step: -1, Start: s.ends[queue],
		Kernel: &workload.Kernel{Name: name, Tiling: workload.Tiling{WGs: 132}, Footprint: program.Footprint{Threads: 256, Registers: 32}},
	}
	if name[0] < 'a' {
		op.Dense = true
	}
	for k := len(s.w.Ranks[rank]) - 1; k >= 0; k-- {
		if before := s.w.Ranks[rank][k]; s.w.Ops[before].Queue == queue {
			op.After = append(op.After, workload.Dep{Op: before, Why: workload.StreamOrder})
			break
		}
	}
	for _, on := range waits {
		op.Start = max(op.Start, s.w.Ops[s.ids[on]].End)
		op.After = append(op.After, workload.Dep{Op: s.ids[on], Why: workload.HostWait})
	}
	op.End = op.Start + trace.Time(took)*1000
	s.ends[queue] = op.End
	var flow []workload.Edge
	for _, word := range reads {
		from, bytes := s.sized(word)
		flow = append(flow, workload.Edge{Op: s.ids[from], Kind: workload.ReadAfterWrite, Evidence: workload.Exact, Bytes: bytes})
	}
	row := s.AddKernel(trace.Kernel{Setup: s.AddSetup(trace.Setup{Stream: queue}), Comm: trace.None, Op: trace.None, Origin: trace.None, Launch: trace.None})
	for _, c := range stepOps {
		if strings.HasPrefix(name, c.prefix) {
			op.Kind, op.Tiling.WGs, op.Footprint = trace.Collective, 16, program.Footprint{Threads: 640, Registers: 64}
			s.Run.Kernels[row].Comm = s.AddComm(trace.Comm{Op: c.op, Group: s.group, In: bytes, Out: bytes, Peer: trace.None})
			op.Collective = s.collective(&op, c.op, name, bytes)
		}
	}
	s.Add(trace.Span{
		Start: op.Start, End: op.End, Kind: op.Kind, Attr: row, Parent: trace.None, Name: s.Intern(name),
		Lane: s.Lane(trace.Lane{Kind: trace.Queue, Rank: int32(rank), ID: queue, Peer: trace.None}),
	})
	s.ids[name] = id
	s.w.Ops, s.w.Ranks[rank], s.w.Flow = append(s.w.Ops, op), append(s.w.Ranks[rank], id), append(s.w.Flow, flow)
}

// collective is the row of an op's collective: a new one on the first rank.
func (s *stepBuilder) collective(op *workload.Op, kind trace.CollectiveOp, name string, bytes int64) int32 {
	row := int32(slices.IndexFunc(s.w.Collectives, func(c workload.Collective) bool { return s.w.Ops[c.Members[0]].Name == name }))
	if row < 0 {
		row = int32(len(s.w.Collectives))
		s.w.Collectives = append(s.w.Collectives, workload.Collective{Op: kind, Group: s.group, Seq: int64(row), Bytes: bytes, In: bytes, Out: bytes, Channels: 16, Times: workload.Times{Arrive: op.Start, Depart: op.End}})
	}
	c := &s.w.Collectives[row]
	c.Members = append(c.Members, op.ID)
	return row
}

// InBackward marks operations of a Step as launched by autograd.
func InBackward(t testing.TB, w *workload.Workload, names ...string) {
	t.Helper()
	for i := range w.Ops {
		if slices.Contains(names, w.Ops[i].Name) {
			w.Ops[i].Backward = true
		}
	}
}

// An Iteration is one step of Iterations: its operations, as of Step, and what it computes.
type Iteration struct {
	Text  string
	Batch workload.Batch
}

// Served is a capture on two ranks of a prefill of 2.8 ms behind a decode of 0.28 ms and in front of more.
func Served(t testing.TB, more int) *workload.Workload {
	t.Helper()
	step := func(n, tenths int, phase workload.Phase, tokens int64) Iteration {
		return Iteration{Text: Layers(n, tenths), Batch: workload.Batch{Phase: phase, Tokens: tokens}}
	}
	each := []Iteration{step(1, 1, workload.Decode, 32), step(2, 10, workload.Prefill, 8192)}
	for i := range more {
		each = append(each, step(3+i, 1, workload.Decode, 32))
	}
	return Iterations(t, 2, each...)
}

// Iterations is a capture of several steps on some ranks. Operations of a name are of one step; the number at the end of a name
// is no part of the kernel's name, so that steps may have kernels in common.
func Iterations(t testing.TB, ranks int, each ...Iteration) *workload.Workload {
	t.Helper()
	var lines []string
	var of []int32
	w := &workload.Workload{}
	for i, it := range each {
		for line := range strings.Lines(strings.TrimSpace(it.Text)) {
			lines, of = append(lines, strings.TrimSpace(line)), append(of, int32(i))
		}
		w.Steps = append(w.Steps, workload.Step{Name: fmt.Sprint("step#", i), Batch: it.Batch})
	}
	steps := w.Steps
	w = Step(t, ranks, strings.Join(lines, "\n"))
	w.Steps = steps
	for i := range w.Ops {
		op := &w.Ops[i]
		op.Step, op.Issued = of[i%len(of)], op.Start
		k := *op.Kernel
		if k.Name = strings.TrimRight(k.Name, "0123456789"); op.Collective < 0 {
			k.Name, k.Shape, op.Dense = "nvjet_"+k.Name, workload.Shape{}, false
		}
		op.Kernel = &k
	}
	w.TimeSteps()
	w.Classify()
	return w
}

// Layers are the operations of a serving step: GEMMs of two layers with all-to-alls between, in tenths of the times and bytes
// of a prefill of 2.8 ms. The number of the step tells its operations from those of others.
func Layers(step, tenths int) string {
	took := func(of int) int { return of * tenths / 10 }
	return fmt.Sprintf(`
7 D%[1]d0 %[2]d
7 A2A%[1]d0=%[4]d %[3]d D%[1]d0
7 E%[1]d0 %[2]d A2A%[1]d0
7 E%[1]d1 %[2]d E%[1]d0
7 A2A%[1]d1=%[4]d %[3]d E%[1]d1
7 F%[1]d0 %[2]d A2A%[1]d1`, step, took(500), took(400), max(1, took(64)))
}
