package lift

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A part is what a letter of a drawn timeline stands for. The zero value is a
// kernel of the letter's name.
type part struct {
	name  string
	kind  trace.Kind // 0 stands for Compute
	comm  *trace.Comm
	copy  trace.CopyDir
	bytes int64
	op    *trace.Operator
	grid  int32
	block int32
	regs  int32
	lds   int32
}

// comm is a kernel of a collective of so many bytes.
func comm(op trace.CollectiveOp, group int32, seq, bytes int64) part {
	return part{comm: &trace.Comm{Op: op, Group: group, Seq: seq, In: bytes, Out: bytes, ElemSize: 2, Peer: trace.None}, grid: 24}
}

// gemm is a GEMM of m×k by k×n of two-byte elements.
func gemm(m, n, k int64) *trace.Operator {
	return &trace.Operator{Name: "aten::mm", Dims: [][]int64{{m, k}, {k, n}}, Types: []string{"c10::Half", "c10::Half"}}
}

// A drawing is a run drawn as text, a column a microsecond:
//
//	0 host |a b w   c   |   small letters launch the op of the capital one; w makes a stream wait
//	0 7    |  AAAA BB   |   rank 0, queue 7
//	0 19   |      CCCC  |
//	1 mark |<s#0 ><s#1> |   marks on the host; mark' above the device
//
// Beside them stand the parts, the groups, and the ranks where they are not 0, 1, ... of as many.
type drawing struct {
	text   string
	parts  map[byte]part
	groups []trace.Group
	ranks  []trace.Rank
	device trace.Device

	operators map[string]int32 // rows of the run
}

const column = trace.Time(1000)

var h200 = trace.Device{
	Name: "H200", CUs: 132, WaveSize: 32, ThreadsPerCU: 2048, RegistersPerCU: 65536,
	SharedPerCU: 233472, SharedPerWG: 232448, ComputeMajor: 9,
}

// run builds the drawn run. Everything starts at the time of its column.
func (d drawing) run(t testing.TB) *trace.Run {
	t.Helper()
	d.operators = map[string]int32{}
	var b trace.Builder
	for _, g := range d.groups {
		b.AddGroup(g)
	}
	lines := strings.Split(strings.TrimSpace(d.text), "\n")
	rows := map[int]int32{}
	for _, line := range lines {
		rank, _, _ := d.split(t, line)
		if _, ok := rows[rank]; ok {
			continue
		}
		r := trace.Rank{ID: rank, Device: d.device}
		if len(d.ranks) > len(rows) {
			r = d.ranks[len(rows)]
			r.Device = d.device
		}
		rows[rank] = b.AddRank(r)
	}
	for _, line := range lines {
		rank, lane, cells := d.split(t, line)
		switch lane {
		case "host":
			d.host(&b, rows[rank], cells)
		case "mark", "mark'":
			d.marks(&b, rows[rank], lane, cells)
		default:
			var queue int64
			if _, err := fmt.Sscan(lane, &queue); err != nil {
				t.Fatalf("line %q: no queue", line)
			}
			d.queue(&b, rows[rank], queue, cells)
		}
	}
	return b.Finish(trace.Options{Name: t.Name(), KeepZero: true})
}

func (d drawing) split(t testing.TB, line string) (rank int, lane, cells string) {
	t.Helper()
	head, cells, ok := strings.Cut(strings.TrimSpace(line), "|")
	cells = strings.TrimSuffix(cells, "|")
	if _, err := fmt.Sscan(head, &rank, &lane); err != nil || !ok {
		t.Fatalf("line %q is not: rank lane |cells|", line)
	}
	return rank, lane, cells
}

// stretches calls f for every stretch of one letter.
func stretches(cells string, f func(c byte, from, to trace.Time)) {
	for i := 0; i < len(cells); {
		j := i
		for j < len(cells) && cells[j] == cells[i] {
			j++
		}
		if cells[i] != ' ' && cells[i] != '.' {
			f(cells[i], trace.Time(i)*column, trace.Time(j)*column)
		}
		i = j
	}
}

// correlation joins the launch of a letter with its op; upper and lower case are one.
func correlationOf(c byte) int64 { return int64(c | 0x20) }

func (d drawing) host(b *trace.Builder, rank int32, cells string) {
	lane := b.Lane(trace.Lane{Kind: trace.HostThread, Rank: rank, ID: 1, Peer: trace.None})
	stretches(cells, func(c byte, from, _ trace.Time) {
		s := trace.Span{Start: from, End: from + 100, Name: b.Intern("launch"), Lane: lane, Parent: trace.None, Kind: trace.Launch}
		call := trace.Call{Op: trace.None}
		if c == 'w' {
			s.Kind, s.Name = trace.HostCall, b.Intern("cudaStreamWaitEvent")
		} else {
			call.Correlation = correlationOf(c)
		}
		s.Attr = b.AddCall(call)
		b.Add(s)
	})
}

func (d drawing) marks(b *trace.Builder, rank int32, kind, cells string) {
	lane := trace.Lane{Kind: trace.HostThread, Rank: rank, ID: 1, Peer: trace.None}
	if kind == "mark'" {
		lane = trace.Lane{Kind: trace.Annotation, Rank: rank, ID: 7, Peer: trace.None}
	}
	for i := range len(cells) {
		if cells[i] != '<' {
			continue
		}
		n := strings.IndexByte(cells[i:], '>')
		b.Add(trace.Span{
			Start: trace.Time(i) * column, End: trace.Time(i+n+1) * column,
			Name: b.Intern(strings.TrimSpace(cells[i+1 : i+n])), Lane: b.Lane(lane), Parent: trace.None, Attr: trace.None,
		})
	}
}

// Peers of a message in a drawing that are not a rank.
const (
	nextRank   = -2
	rankBefore = -3
)

func (d drawing) queue(b *trace.Builder, rank int32, queue int64, cells string) {
	lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, ID: queue, Peer: trace.None})
	stretches(cells, func(c byte, from, to trace.Time) {
		p := d.parts[c]
		if p.name == "" {
			p.name = string(c)
		}
		if p.comm != nil {
			p.kind = trace.Collective
		}
		if p.kind == trace.Marker {
			p.kind = trace.Compute
		}
		op := int32(trace.None)
		if p.op != nil {
			op = d.operator(b, *p.op)
		}
		s := trace.Span{Start: from, End: to, Name: b.Intern(p.name), Lane: lane, Parent: trace.None, Kind: p.kind}
		if p.kind == trace.Copy {
			s.Attr = b.AddCopy(trace.CopyAttr{Bytes: p.bytes, Dir: p.copy, Correlation: correlationOf(c), Stream: queue, Peer: trace.None, Op: op, Origin: trace.None})
			b.Add(s)
			return
		}
		setup := trace.Setup{Stream: queue, Registers: p.regs, Shared: p.lds}
		if p.grid > 0 {
			setup.Grid, setup.Block = [3]int32{p.grid, 1, 1}, [3]int32{max(1, p.block), 1, 1}
		}
		k := trace.Kernel{Correlation: correlationOf(c), Comm: trace.None, Op: op, Origin: trace.None, Setup: b.AddSetup(setup)}
		if p.comm != nil {
			comm := *p.comm
			switch comm.Peer {
			case nextRank:
				comm.Peer = rank + 1
			case rankBefore:
				comm.Peer = rank - 1
			}
			k.Comm = b.AddComm(comm)
		}
		s.Attr = b.AddKernel(k)
		b.Add(s)
	})
}

// operator is the row of an operator, one for equal ones as readers give them.
func (d drawing) operator(b *trace.Builder, op trace.Operator) int32 {
	key := fmt.Sprint(op)
	if _, ok := d.operators[key]; !ok {
		d.operators[key] = b.AddOperator(op)
	}
	return d.operators[key]
}

func lift(t testing.TB, d drawing, o Options) *workload.Workload {
	t.Helper()
	w := must.Have(Workload(d.run(t), o))(t)
	checkInvariants(t, w)
	return w
}

// letters names ops by rank and letter: "0B".
func letters(w *workload.Workload, ids []int32) string {
	var names []string
	for _, id := range ids {
		names = append(names, fmt.Sprintf("%d%s", w.Ops[id].Rank, w.Ops[id].Name))
	}
	return strings.Join(names, " ")
}

// after draws the dependencies of a rank: "C: A stream, B enqueue; gap 2".
func after(w *workload.Workload, rank int) string {
	why := map[workload.Reason]string{workload.StreamOrder: "stream", workload.EnqueuedAfter: "enqueue", workload.HostWait: "wait", workload.Timing: "time", workload.Stated: "event"}
	var lines []string
	for _, id := range w.Ranks[rank] {
		op := &w.Ops[id]
		var deps []string
		for _, d := range op.After {
			deps = append(deps, w.Ops[d.Op].Name+" "+why[d.Why])
		}
		if deps == nil {
			deps = []string{"-"}
		}
		lines = append(lines, fmt.Sprintf("%s: %s; gap %d", op.Name, strings.Join(deps, ", "), op.Gap/column))
	}
	return strings.Join(lines, "\n")
}

// sameText compares texts line by line, without indentation.
func sameText(t *testing.T, what, got, want string) {
	t.Helper()
	clean := func(s string) []string {
		var lines []string
		for _, l := range strings.Split(s, "\n") {
			if l = strings.TrimSpace(l); l != "" {
				lines = append(lines, l)
			}
		}
		return lines
	}
	if g, w := clean(got), clean(want); !slices.Equal(g, w) {
		t.Errorf("%s:\ngot\n\t%s\nwant\n\t%s", what, strings.Join(g, "\n\t"), strings.Join(w, "\n\t"))
	}
}

// checkInvariants states what holds of every workload.
func checkInvariants(t testing.TB, w *workload.Workload) {
	t.Helper()
	if len(w.Ranks) != w.World || len(w.Rows) != w.World || len(w.Copies) != w.World {
		t.Fatalf("world %d: %d ranks, %d rows, %d copies", w.World, len(w.Ranks), len(w.Rows), len(w.Copies))
	}
	next := int32(0)
	for rank, ids := range w.Ranks {
		for i, id := range ids {
			op := &w.Ops[id]
			switch {
			case id != next || op.ID != id || op.Rank != rank:
				t.Fatalf("op %d of rank %d: id %d, rank %d, want %d", i, rank, op.ID, op.Rank, next)
			case i > 0 && w.Ops[id-1].Start > op.Start:
				t.Fatalf("op %d starts before the op before it", id)
			case (op.Kind == trace.Collective) != (op.Collective >= 0):
				t.Fatalf("op %d is a %s of collective %d", id, op.Kind, op.Collective)
			}
			next++
			last := trace.Time(0)
			for k, d := range op.After {
				dep := &w.Ops[d.Op]
				if d.Op >= id || dep.Rank != rank || dep.End > op.Start || d.Why == 0 || k > 0 && op.After[k-1].Op >= d.Op {
					t.Fatalf("op %d waits for %d, why %d: it is not over, or not in order", id, d.Op, d.Why)
				}
				last = max(last, dep.End)
			}
			if op.Gap < 0 || last+op.Gap != op.Start {
				t.Fatalf("op %d: %d + gap %d is not %d", id, last, op.Gap, op.Start)
			}
			if tl := op.Tiling; tl.Persistent && (tl.Tiles <= tl.WGs && tl.Evidence != "given") || tl.Dynamic && !tl.Persistent && tl.Evidence != "given" {
				t.Fatalf("op %d: tiling %+v", id, tl)
			}
		}
	}
	if int(next) != len(w.Ops) {
		t.Fatalf("%d ops in ranks, %d in all", next, len(w.Ops))
	}
	checkCollectives(t, w)
	checkPairs(t, w)
}

func checkCollectives(t testing.TB, w *workload.Workload) {
	t.Helper()
	members := 0
	for i := range w.Collectives {
		c := &w.Collectives[i]
		if len(c.Members) == 0 || c.Depart < c.Arrive && c.Sender == 0 || c.Evidence == "" {
			t.Fatalf("collective %d: %+v", i, c)
		}
		if i > 0 && w.StartOf(&w.Collectives[i-1]) > w.StartOf(c) {
			t.Fatalf("collective %d starts before the one before it", i)
		}
		rank := -1
		for _, id := range c.Members {
			op := &w.Ops[id]
			if op.Collective != int32(i) || op.Rank <= rank || op.Start > c.Arrive || op.End < c.Depart {
				t.Fatalf("collective %d: member %d: %+v", i, id, op)
			}
			rank = op.Rank
			members++
		}
	}
	for i := range w.Ops {
		if w.Ops[i].Kind == trace.Collective {
			members--
		}
	}
	if members != 0 {
		t.Fatalf("%d more members than collective ops", members)
	}
}

func checkPairs(t testing.TB, w *workload.Workload) {
	t.Helper()
	for i := range w.Pairs {
		p := &w.Pairs[i]
		if len(p.First) == 0 || len(p.First) != len(p.Second) || p.Confidence < 0.3 || p.Confidence > 1 || len(p.Evidence) == 0 {
			t.Fatalf("pair %d: %+v", i, p)
		}
		for k := range p.First {
			a, b := &w.Ops[p.First[k]], &w.Ops[p.Second[k]]
			if a.Rank != b.Rank || a.ID >= b.ID || a.End > b.Start {
				t.Fatalf("pair %d: %d does not run before %d", i, a.ID, b.ID)
			}
			if k > 0 && w.Ops[p.First[k-1]].Rank >= a.Rank {
				t.Fatalf("pair %d: ranks out of order", i)
			}
		}
	}
}
