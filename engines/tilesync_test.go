package engines

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// An mlp is a chain of two products in tiles of 128×128, two workgroups a CU:
// batch×ffn over hidden, then batch×hidden over ffn.
type mlp struct {
	ranks, steps       int
	batch, hidden, ffn int64
	up, down           trace.Time
}

var mlp512 = mlp{ranks: 2, steps: 3, batch: 512, hidden: 12288, ffn: 6144, up: 144_300, down: 147_500}

func (s mlp) build(t testing.TB) *workload.Workload {
	t.Helper()
	up := dense{name: "up", n: s.ffn, k: s.hidden, dur: s.up}
	down := dense{name: "down", n: s.hidden, k: s.ffn, dur: s.down}
	return chain{ranks: s.ranks, steps: s.steps, m: s.batch, products: []dense{up, down}}.build(t)
}

// A chain is a loop of dependent products over the same m rows.
type chain struct {
	ranks, steps int
	m            int64
	products     []dense
}

type dense struct {
	name   string
	n, k   int64
	dur    trace.Time
	rows   int                // of a tile; 0: 128, as columns
	cols   int                //
	splits int                // workgroups a tile; 0: 1
	kind   workload.ShapeKind // 0: GEMM
}

// build makes the workload that workload.Lift would find.
func (s chain) build(t testing.TB) *workload.Workload {
	t.Helper()
	var b trace.Builder
	w := &workload.Workload{World: s.ranks, Captured: s.ranks}
	for r := range s.ranks {
		b.AddRank(trace.Rank{ID: r, World: s.ranks})
		w.Ranks = append(w.Ranks, nil)
	}
	links := len(s.products) - 1
	w.Pairs = make([]workload.Pair, s.steps*links)
	w.Steps = make([]workload.Step, s.steps)
	for r := range s.ranks {
		at, prev := trace.Time(10_000), int32(-1)
		for step := range s.steps {
			w.Steps[step].Start = append(w.Steps[step].Start, at)
			for i, x := range s.products {
				rows, cols, splits := cmp.Or(x.rows, 128), cmp.Or(x.cols, 128), max(1, x.splits)
				sh := workload.Shape{Kind: max(workload.GEMM, x.kind), M: s.m, N: x.n, K: x.k, ElemSize: 2}
				tiles := ceilDiv(int(sh.M), rows) * ceilDiv(int(sh.N), cols)
				op := workload.Op{
					ID: int32(len(w.Ops)), Rank: r, Kind: trace.Compute, Queue: 7, Collective: -1,
					Start: at, End: at + x.dur, Issued: trace.Never, Gap: launchGap, Step: int32(step),
					Read: 2 * float64(sh.M*sh.K+sh.K*sh.N), Write: 2 * float64(sh.M*sh.N),
					Kernel: &workload.Kernel{
						Name: x.name, Shape: sh,
						Tiling:    workload.Tiling{TileM: rows, TileN: cols, Tiles: tiles * splits, WGs: tiles * splits},
						Footprint: replay.Footprint{Threads: 256, Registers: 116, Shared: 98304},
					},
				}
				if prev >= 0 {
					op.After = []workload.Dep{{Op: prev, Why: workload.StreamOrder}}
				}
				row := b.AddKernel(trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None, Stream: op.Queue})
				b.Add(trace.Span{
					Start: op.Start, End: op.End, Kind: op.Kind, Attr: row, Parent: trace.None, Name: b.Intern(op.Name),
					Lane: b.Lane(trace.Lane{Kind: trace.Queue, Rank: int32(r), ID: op.Queue, Peer: trace.None}),
				})
				w.Ops = append(w.Ops, op)
				w.Ranks[r] = append(w.Ranks[r], op.ID)
				if i < links {
					p := &w.Pairs[step*links+i]
					p.Direction, p.Collective, p.Step = workload.ComputeThenCompute, -1, int32(step)
					p.First = append(p.First, op.ID)
				}
				if i > 0 {
					p := &w.Pairs[step*links+i-1]
					p.Second = append(p.Second, op.ID)
				}
				prev, at = op.ID, op.End+launchGap
			}
			w.Steps[step].End = append(w.Steps[step].End, at-launchGap)
		}
	}
	w.Run = b.Finish(trace.Options{Name: "chain", KeepZero: true})
	spec{}.link(w, nil, nil)
	return w
}

// Rows that complete while the producer's last wave still runs let the
// consumer's first wave fill the CUs that wave leaves idle; with one wave there
// is nothing to fill, and semaphores only cost. So do those of 48 tiles a row, one
// after another: measured, they lose what the wave gains (validate.jsonl v0107 to v0109).
func TestTilesyncWinsAndLoses(t *testing.T) {
	many := mlp{ranks: 1, steps: 4, batch: 1024, hidden: 12288, ffn: 6144, up: 290_000, down: 233_000}
	one := mlp{ranks: 1, steps: 4, batch: 128, hidden: 12288, ffn: 6144, up: 91_400, down: 53_500}
	for _, c := range []struct {
		name string
		mlp  mlp
		set  map[string]string
		wins bool
	}{
		{"rows of two waves", many, nil, true},
		{"tiles of two waves", many, map[string]string{"policy": "tile"}, false},
		{"one row, one wave", one, map[string]string{"reset": "on", "waitkernel": "off"}, false},
	} {
		w, m := c.mlp.build(t), h200(t, 1)
		base := outcome(t, w, m, "captured", nil)
		got := outcome(t, w, m, "tilesync", c.set)
		if got.Result == nil {
			t.Fatalf("%s: does not apply: %s", c.name, got.Why)
		}
		if wins := got.Time < base.Time; wins != c.wins {
			t.Errorf("%s: %d ns, stream order %d", c.name, got.Time, base.Time)
		}
	}
}

// The pitfall of waiting in a slot: 384 consumers fill 264 slots before the
// producer is there. Fewer consumers than slots, the producer first, or a wait
// kernel, and all ends well.
func TestTilesyncDeadlock(t *testing.T) {
	small := mlp{ranks: 1, steps: 2, batch: 128, hidden: 12288, ffn: 6144, up: 91_400, down: 53_500}
	for _, c := range []struct {
		name     string
		mlp      mlp
		set      map[string]string
		deadlock bool
	}{
		{"consumer first", mlp512, map[string]string{"waitkernel": "off", "first": "consumer"}, true},
		{"consumer first, by tiles", mlp512, map[string]string{"waitkernel": "off", "first": "consumer", "policy": "tile"}, true},
		{"consumer first, but it fits beside", small, map[string]string{"waitkernel": "off", "first": "consumer"}, false},
		{"producer first", mlp512, map[string]string{"waitkernel": "off"}, false},
		{"wait kernel", mlp512, map[string]string{"first": "consumer"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := tilesync.Values(c.set)
			if err != nil {
				t.Fatal(err)
			}
			out, err := Run(c.mlp.build(t), h200(t, c.mlp.ranks), Selection{tilesync, v}, replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var dead *replay.DeadlockError
			if errors.As(out.Err, &dead) != c.deadlock || !c.deadlock && out.Err != nil {
				t.Errorf("deadlock: %v, want %v (%v)", dead != nil, c.deadlock, out.Err)
			}
			if c.deadlock && dead != nil && len(dead.Chain) < 2 {
				t.Errorf("the chain names no cycle: %q", dead.Chain)
			}
		})
	}
}

// Loading weights before waiting can only help, and only by that load.
func TestTilesyncReorder(t *testing.T) {
	w, m := mlp512.build(t), h200(t, mlp512.ranks)
	plain := outcome(t, w, m, "tilesync", nil)
	early := outcome(t, w, m, "tilesync", map[string]string{"reorder": "on"})
	if early.Time >= plain.Time || plain.Time-early.Time > 10_000 {
		t.Errorf("%d ns with weights loaded first, %d without", early.Time, plain.Time)
	}
}

// Stream-K saves most of a last wave that is nearly empty, and pays for a
// second kernel and partial sums where it is nearly full.
func TestStreamK(t *testing.T) {
	for _, c := range []struct {
		name string
		mlp  mlp
		wins bool
	}{
		{"288 tiles on 264 slots", mlp{ranks: 1, steps: 4, batch: 768, hidden: 6144, ffn: 6144, up: 150_000, down: 150_000}, true},
		{"516 tiles on 264 slots", mlp{ranks: 1, steps: 4, batch: 1536, hidden: 5504, ffn: 5504, up: 140_000, down: 140_000}, false},
	} {
		w, m := c.mlp.build(t), h200(t, 1)
		base := outcome(t, w, m, "captured", nil)
		got := outcome(t, w, m, "tilesync", map[string]string{"policy": "streamk"})
		if got.Result == nil {
			t.Fatalf("%s: does not apply: %s", c.name, got.Why)
		}
		if wins := got.Time < base.Time; wins != c.wins {
			t.Errorf("%s: %d ns, stream order %d", c.name, got.Time, base.Time)
		}
	}
}

func TestSemaphores(t *testing.T) {
	square := func(m, n, k int64) workload.Shape {
		return workload.Shape{Kind: workload.GEMM, M: m, N: n, K: k}
	}
	c := cover{rows: 2, cols: 6, splits: 2}
	for _, x := range []struct {
		policy string
		a, b   workload.Shape
		parts  int
		posts  int64
		ok     bool
	}{
		{"row", square(256, 768, 64), square(256, 512, 768), 1, 12, true},
		{"tile", square(256, 768, 64), square(256, 512, 768), 6, 2, true},
		{"tile", square(256, 768, 64), square(256, 512, 256), 0, 0, false},
		{"strided", square(256, 768, 64), square(256, 512, 256), 2, 6, true}, // queries, keys, values
		{"strided", square(256, 768, 64), square(256, 512, 768), 0, 0, false},
		{"conv", square(256, 768, 64), square(256, 512, 9*768), 6, 2, true}, // 3×3 filters
		{"conv", square(256, 768, 64), square(256, 512, 768), 0, 0, false},
		{"row", square(128, 768, 64), square(256, 512, 768), 0, 0, false},
	} {
		s, why := semaphoresFor(x.policy, c, x.a, x.b)
		if (why == "") != x.ok {
			t.Errorf("%s %v %v: %q", x.policy, x.a, x.b, why)
		} else if x.ok && (s.parts != x.parts || s.posts != x.posts) {
			t.Errorf("%s: %d parts of %d posts, want %d of %d", x.policy, s.parts, s.posts, x.parts, x.posts)
		}
	}
}

// Whatever the order, every tile is computed once; with a stride, tiles that
// complete one semaphore follow each other.
func TestCoverOrder(t *testing.T) {
	for _, c := range []cover{{rows: 3, cols: 6, splits: 1}, {rows: 3, cols: 6, splits: 2, byColumn: true}, {rows: 3, cols: 6, splits: 1, stride: 3}} {
		seen := map[[2]int]int{}
		for i := range c.tiles() * c.splits {
			row, col := c.at(i)
			seen[[2]int{row, col}]++
		}
		if len(seen) != 18 {
			t.Errorf("%+v computes %d different tiles of 18", c, len(seen))
		}
	}
	c := cover{rows: 1, cols: 6, splits: 1, stride: 3}
	var cols []int
	for i := range 3 {
		_, col := c.at(i)
		cols = append(cols, col)
	}
	if cols[0] != 0 || cols[1] != 2 || cols[2] != 4 { // column 0 of queries, of keys, of values
		t.Errorf("first three columns are %v", cols)
	}
}

// Alone, a kernel cut into a workgroup a tile takes its measured time again.
func TestSynchronisedGridKeepsTheTime(t *testing.T) {
	for _, s := range []mlp{mlp512, {ranks: 1, steps: 1, batch: 128, hidden: 12288, ffn: 6144, up: 91_400, down: 53_500}} {
		w, m := s.build(t), h200(t, s.ranks)
		pl, err := newPlanner(w, m)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range w.Ops[:2] {
			c, ok := coverOf(&op, false)
			if !ok {
				t.Fatal("no tiles")
			}
			k := pl.kernelOf(&op, pl.apartGrid(&op, c.tiles()*c.splits))
			p := &replay.Program{GPUs: []replay.GPU{{Streams: []replay.Stream{{Commands: []replay.Command{{Op: replay.Launch, Kernel: k}}}}}}}
			res, err := replay.Simulate(m, p, replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if d := res.Makespan - op.Dur(); d < -op.Dur()/100 || d > op.Dur()/100 {
				t.Errorf("%s of batch %d takes %d ns, measured %d", op.Name, s.batch, res.Makespan, op.Dur())
			}
		}
	}
}

// stamps are the workgroups' durations of a measured kernel, in nanoseconds,
// split into those that had their CU alone all the while and those that did not.
func stamps(t *testing.T, file string) (alone, shared []float64) {
	t.Helper()
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s: the folder shared is not beside the checkout", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(z).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := func(name string) int { return slices.Index(rows[0], name) }
	cu, start, end := column("CU_Id"), column("Wait_End_Timestamp"), column("End_Timestamp")
	on := map[string]int{}
	for _, r := range rows[1:] {
		on[r[cu]]++
	}
	for _, r := range rows[1:] {
		a, _ := strconv.ParseFloat(r[start], 64)
		b, _ := strconv.ParseFloat(r[end], 64)
		if on[r[cu]] == 1 {
			alone = append(alone, b-a)
		} else {
			shared = append(shared, b-a)
		}
	}
	slices.Sort(alone)
	slices.Sort(shared)
	return alone, shared
}

// The stamps of 192 workgroups on 132 CUs, of which 72 had one and 60 two:
// from the kernel's time alone, the model finds how long either kind took.
func TestWorkgroupsAgainstStamps(t *testing.T) {
	alone, shared := stamps(t, "../samples/measurements/2026-11-20-h200x4/wg/mlp_b512_stream_producer_rank0_wg_trace.csv.gz")
	s := mlp512
	s.up = trace.Time(shared[len(shared)-1])
	w, m := s.build(t), h200(t, s.ranks)
	pl, err := newPlanner(w, m)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := coverOf(&w.Ops[0], false)
	g := pl.apartGrid(&w.Ops[0], c.tiles()*c.splits)
	for _, x := range []struct {
		what        string
		model, real float64
		n, want     int
	}{
		{"alone on a CU", float64(g.time), quantile(alone, 0.5), len(alone), 72},
		{"two on a CU", float64(g.time) * 2 * g.pipe, quantile(shared, 0.5), len(shared), 120},
	} {
		if x.n != x.want {
			t.Errorf("%s: %d workgroups measured, %d expected", x.what, x.n, x.want)
		}
		if e := x.model/x.real - 1; e < -0.08 || e > 0.08 {
			t.Errorf("%s: %.0f ns, measured %.0f (%+.1f %%)", x.what, x.model, x.real, 100*e)
		}
		t.Logf("%s: %.0f ns, measured %.0f", x.what, x.model, x.real)
	}
}
