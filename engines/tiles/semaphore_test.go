package tiles

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A dot product waits for the queries, keys and values of its own columns. A GEMM that
// sums over all columns waits for every part in sequence.
func TestConsumerWaits(t *testing.T) {
	w := plantest.SelfAttention(256).Build(t)
	pl, err := plan.NewPlanner(w, plantest.H200(t, 1), plan.Scenario{})
	if err != nil {
		t.Fatal(err)
	}
	v := plan.Values{"policy": "strided"}
	qkv := newLink(pl, &w.Ops[0], &w.Ops[1], v)
	if _, posts := qkv.waits(0, 0); qkv.parts != 12 || posts != 3 {
		t.Errorf("queries, keys, values: %d parts of %d posts, want 12 of 3", qkv.parts, posts)
	}
	if lo, hi := qkv.needs(5, 0, 1); lo != 5 || hi != 5 {
		t.Errorf("column 5 of the dot product waits for parts %d to %d", lo, hi)
	}
	for _, col := range []int{5, 17, 29} { // of queries, of keys, of values
		if part := qkv.ready(0, col); part != 5 {
			t.Errorf("column %d posts to part %d, want 5", col, part)
		}
	}
	for _, c := range []struct{ split, splits, lo, hi int }{{0, 2, 0, 5}, {1, 2, 6, 11}, {1, 3, 4, 7}, {0, 24, 0, 0}, {23, 24, 11, 11}} {
		if lo, hi := newLink(pl, &w.Ops[1], &w.Ops[2], v).needs(7, c.split, c.splits); lo != c.lo || hi != c.hi {
			t.Errorf("part %d of %d along K waits for parts %d to %d, want %d to %d", c.split, c.splits, lo, hi, c.lo, c.hi)
		}
	}
	tiles := newLink(pl, &w.Ops[0], &w.Ops[1], plan.Values{"policy": "tile"})
	want := plan.Duration(pl.Machine.GPU.Poll.Value)
	if one, two := poll(pl, 1, nil).Time, poll(pl, 2, nil).Time; one != want || two != want/2 {
		t.Errorf("a wait inside of the loop costs %d ns alone on a CU and %d ns for two, want %d and half of it", one, two, want)
	}
	if buf := tiles.wait(0, 5, program.Phase{}, nil); len(buf) != 6 || buf[0].Flag != tiles.flags[5] || buf[2].Flag != tiles.flags[17] || buf[4].Flag != tiles.flags[29] {
		t.Errorf("by tiles, column 5 waits in %d phases, for %v", len(buf), buf)
	}
	dot := newLink(pl, &w.Ops[1], &w.Ops[2], v) // by tiles: it holds one matrix
	_, posts := dot.waits(0, 0)
	if lo, hi := dot.needs(7, 0, 1); dot.parts != 12 || posts != 1 || lo != 0 || hi != 11 {
		t.Errorf("projection: parts %d to %d of %d, %d posts", lo, hi, dot.parts, posts)
	}
}

// A GEMM whose loop can wait is another build and takes longer, unless memory bounds it. One that
// waits before its loop only is not, as by row (rule T10).
func TestWaitsInLoop(t *testing.T) {
	measured := plantest.H200(t, 1).GPU.LoopWait
	for _, c := range []struct {
		op     int // of the chain
		policy string
		load   float64
		longer machine.Quantity
		want   float64
	}{{2, "tile", 0.5, measured, 1.059}, {2, "row", 0.5, measured, 1}, {2, "tile", 1, measured, 1}, {1, "tile", 0.5, measured, 1}, {2, "tile", 0.5, machine.Quantity{}, 1}} {
		w, m := plantest.SelfAttention(256).Build(t), plantest.H200(t, 1)
		m.GPU.LoopWait = c.longer
		op := &w.Ops[c.op]
		op.Read, op.Write = c.load*m.GPU.Memory.Value*float64(op.DurAlone())/1e9, 0
		pl, err := plan.NewPlanner(w, m, plan.Scenario{})
		if err != nil {
			t.Fatal(err)
		}
		time := func(in *link) float64 {
			k := synchronisedKernel(pl, &linked{op: op, built: op}, in, nil, pl.Program.NewFlag(""), plan.Values{"policy": c.policy})
			sum := 0.0
			for _, p := range k.Recipe(0, nil) {
				if p.Op == program.Work {
					sum += float64(p.Time)
				}
			}
			return sum
		}
		in := newLink(pl, &w.Ops[c.op-1], op, plan.Values{"policy": c.policy})
		if got := time(in) / time(nil); math.Abs(got-c.want) > 0.001 {
			t.Errorf("kernel %d by %s at %.1f of the memory's rate: %.4f of the time of a build without waits, want %.3f", c.op, c.policy, c.load, got, c.want)
		}
	}
}

// Drawn from a counter in the order of cuSync's first version, the parts of a tile along K follow each other; else
// they are a whole grid apart. Each part posts what its tile completes.
func TestPartsInOrder(t *testing.T) {
	w := plantest.Mlp512.Build(t)
	w.Ops[0].Tiling.WGs *= 2
	pl, err := plan.NewPlanner(w, plantest.H200(t, plantest.Mlp512.Ranks), plan.Scenario{})
	if err != nil {
		t.Fatal(err)
	}
	op := &pl.Workload.Ops[0]
	for tickets, apart := range map[string]int{"off": op.Tiling.WGs / 2, "on": op.Tiling.WGs / 2, "parts": 1} {
		v := plan.Values{"policy": "tile", "tickets": tickets}
		out := newLink(pl, op, &pl.Workload.Ops[1], v)
		k := synchronisedKernel(pl, &linked{op: op, built: op}, nil, out, pl.Program.NewFlag(""), v)
		for i := range op.Tiling.WGs {
			buf := k.Recipe(i, nil)
			if tile := i/2/apart*apart + i%apart; buf[len(buf)-1].Flag != out.flags[tile%len(out.flags)] {
				t.Fatalf("tickets=%s: workgroup %d posts %v, want that of tile %d", tickets, i, buf[len(buf)-1].Flag, tile)
			}
		}
	}
}

// A GEMM in parts along K is spread anew over the slots, or keeps its parts (rule T6).
func TestKeptSplits(t *testing.T) {
	w := plantest.Mlp512.Build(t)
	op := &w.Ops[0]
	op.Tiling.WGs *= 2
	pl, err := plan.NewPlanner(w, plantest.H200(t, plantest.Mlp512.Ranks), plan.Scenario{})
	if err != nil {
		t.Fatal(err)
	}
	op = &pl.Workload.Ops[0]
	if k := splitAlongK(pl, op, true); len(k) != 1 || k[0].WGs != op.Tiling.WGs {
		t.Errorf("kept: %d kernels, want one of %d workgroups", len(k), op.Tiling.WGs)
	}
	if k := splitAlongK(pl, op, false); len(k) != 1 || k[0].WGs >= op.Tiling.WGs {
		t.Errorf("spread: %d kernels, want one of fewer than %d workgroups", len(k), op.Tiling.WGs)
	}
}

// Another number of parts along K changes the waves, and with them the time, unless memory bounds it.
func TestOtherParts(t *testing.T) {
	w := plantest.Mlp512.Build(t)
	w.Ops[0].Tiling.WGs *= 2
	pl, err := plan.NewPlanner(w, plantest.H200(t, plantest.Mlp512.Ranks), plan.Scenario{})
	if err != nil {
		t.Fatal(err)
	}
	op, kernel := pl.Workload.Ops[0], *pl.Workload.Ops[0].Kernel
	op.Kernel, kernel.Footprint.Shared = &kernel, int(pl.Machine.GPU.Shared.Value)/2 // one workgroup a CU
	c, _ := plan.CoverOf(&op)
	waves := func(parts int) float64 {
		return float64(machine.CeilDiv(c.Tiles()*parts, int(pl.Machine.GPU.CUs.Value))) / float64(parts)
	}
	for _, x := range []struct {
		parts string
		n     int
		load  float64
		want  float64
	}{{"captured", 2, 0.1, 1}, {"1x3", 1, 0.1, waves(1) / waves(2)}, {"1", 1, 1, 1}, {"11", 11, 0.1, waves(11) / waves(2)}, {"11", 11, 0.99, 0.99}} {
		op.Read, op.Write = x.load*pl.Machine.GPU.Memory.Value*float64(op.DurAlone())/1e9, 0
		built := inParts(pl, &op, x.parts, 0)
		if got := float64(built.DurAlone()) / float64(op.DurAlone()); math.Abs(got-x.want) > 0.001 {
			t.Errorf("parts=%s at %.2f of the memory's rate: %.3f of the time, want %.3f", x.parts, x.load, got, x.want)
		}
		if n, _ := plan.CoverOf(built); n.Splits != x.n {
			t.Errorf("parts=%s: %d parts", x.parts, n.Splits)
		}
	}
	if pl.Laws().Residents(op.Footprint) != 1 || waves(1) < 1.1*waves(2) || waves(11) >= 0.985*waves(2) {
		t.Fatalf("%d workgroups a CU, waves of parts 1, 2, 11: %.2f, %.2f, %.2f: nothing to see", pl.Laws().Residents(op.Footprint), waves(1), waves(2), waves(11))
	}
	for text, ok := range map[string]bool{"captured": true, "2": true, "2x1": true, "0": false, "2x": false, "65": false} {
		if err := checkParts(text); (err == nil) != ok {
			t.Errorf("parts=%s: %v", text, err)
		}
	}
}

func TestSemaphores(t *testing.T) {
	square := func(m, n, k int64) workload.Shape {
		return workload.Shape{Kind: workload.GEMM, M: m, N: n, K: k}
	}
	c := plan.Cover{Rows: 2, Cols: 6, Splits: 2}
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
		s, why := semaphoresFor(x.policy, nil, c, x.a, x.b)
		if (why == "") != x.ok {
			t.Errorf("%s %v %v: %q", x.policy, x.a, x.b, why)
			continue
		} else if !x.ok {
			continue
		}
		posts := map[int]int64{} // by semaphore
		for tile := range c.Tiles() {
			posts[s.ready(tile/c.Cols, tile%c.Cols)] += int64(c.Splits)
		}
		for row := range c.Rows {
			for part := range s.parts {
				if set, count := s.waits(row, part); count != x.posts || posts[set] != count || s.parts != x.parts {
					t.Errorf("%s: %d parts; the tiles post %d times to part %d of row %d, whose consumers wait for %d", x.policy, s.parts, posts[set], part, row, count)
				}
			}
		}
	}
}

// Whatever the order, every tile is computed once; with a stride, tiles that
// complete one semaphore follow each other.
func TestTileOrder(t *testing.T) {
	strided := &link{semaphores: semaphores{stride: 3}}
	for _, x := range []struct {
		link   *link
		splits int
	}{{nil, 1}, {nil, 2}, {strided, 1}} {
		c := plan.Cover{Rows: 3, Cols: 6, Splits: x.splits}
		seen := map[[2]int]int{}
		for i := range c.Tiles() * c.Splits {
			row, col := x.link.at(c, i)
			seen[[2]int{row, col}]++
		}
		if len(seen) != 18 {
			t.Errorf("%+v computes %d different tiles of 18", x, len(seen))
		}
	}
	c := plan.Cover{Rows: 1, Cols: 6, Splits: 1}
	var cols []int
	for i := range 3 {
		_, col := strided.at(c, i)
		cols = append(cols, col)
	}
	if cols[0] != 0 || cols[1] != 2 || cols[2] != 4 { // column 0 of queries, of keys, of values
		t.Errorf("first three columns are %v", cols)
	}
}
