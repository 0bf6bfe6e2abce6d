package engines

import (
	"errors"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
)

// selfAttention is three dependent kernels: queries, keys and values side by
// side, the dot product of those of one column, the output projection.
func selfAttention(m int64) chain {
	return chain{ranks: 1, steps: 4, m: m, products: []dense{
		{name: "qkv", n: 4608, k: 12288, dur: 160_000},
		{name: "dot product", n: 1536, k: 1536, dur: 40_000},
		{name: "projection", n: 12288, k: 1536, dur: 66_000},
	}}
}

// The three kernels of attention run as one chain: each once a step, on streams of their
// own, the third beside the first if there is room, and no kernel before its producer's first tile.
func TestChainsOfThree(t *testing.T) {
	w, m := selfAttention(1024).build(t), h200(t, 1)
	for _, policy := range []string{"row", "tile", "strided"} {
		got := outcome(t, w, m, "tilesync", map[string]string{"policy": policy})
		if got.Result == nil {
			t.Fatalf("%s: %s", policy, got.Why)
		}
		runs, starts := map[string]int{}, map[string]trace.Time{}
		queues := map[int64]bool{}
		for _, s := range got.Result.Run.Spans {
			if s.Kind == trace.Compute {
				name := got.Result.Run.NameOf(s)
				if runs[name]++; runs[name] == 1 {
					starts[name] = s.Start
				}
				queues[got.Result.Run.Kernel(s).Stream] = true
			}
		}
		if runs["qkv"] != 4 || runs["dot product"] != 4 || runs["projection"] != 4 || runs["wait kernel"] != 8 || len(queues) != 3 {
			t.Errorf("%s: %v on %d streams", policy, runs, len(queues))
		}
		if starts["dot product"] < starts["qkv"] || starts["projection"] < starts["dot product"] {
			t.Errorf("%s: started at %v", policy, starts)
		}
		if base := outcome(t, w, m, "captured", nil); got.Time >= base.Time {
			t.Errorf("%s: %d ns, one after another %d", policy, got.Time, base.Time)
		}
	}
}

// A dot product waits for the queries, keys and values of its own columns; a
// product over all of them waits for every part in turn.
func TestWhatConsumersWaitFor(t *testing.T) {
	w := selfAttention(256).build(t)
	pl, err := newPlanner(w, h200(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	v := Values{"policy": "strided", "order": "row"}
	qkv := pl.link(&w.Ops[0], &w.Ops[1], v)
	if qkv.parts != 12 || qkv.posts != 3 {
		t.Errorf("queries, keys, values: %d parts of %d posts, want 12 of 3", qkv.parts, qkv.posts)
	}
	if lo, hi := qkv.needs(5); lo != 5 || hi != 5 {
		t.Errorf("column 5 of the dot product waits for parts %d to %d", lo, hi)
	}
	for _, col := range []int{5, 17, 29} { // of queries, of keys, of values
		if part := qkv.of(col); part != 5 {
			t.Errorf("column %d posts to part %d, want 5", col, part)
		}
	}
	tiles := pl.link(&w.Ops[0], &w.Ops[1], Values{"policy": "tile", "order": "row"})
	if buf := tiles.wait(0, 5, nil); len(buf) != 6 || buf[0].Flag != tiles.flags[5] || buf[2].Flag != tiles.flags[17] || buf[4].Flag != tiles.flags[29] {
		t.Errorf("by tiles, column 5 waits in %d phases, for %v", len(buf), buf)
	}
	dot := pl.link(&w.Ops[1], &w.Ops[2], v) // by tiles: it holds one matrix
	if lo, hi := dot.needs(7); dot.parts != 12 || dot.posts != 1 || lo != 0 || hi != 11 {
		t.Errorf("projection: parts %d to %d of %d, %d posts", lo, hi, dot.parts, dot.posts)
	}
}

// The bytes of memory of a chain are those of its kernels, whatever waits for what.
func TestChainsKeepTheirBytes(t *testing.T) {
	w, m := selfAttention(512).build(t), h200(t, 1)
	for _, policy := range []string{"row", "strided"} {
		moved := memory(outcome(t, w, m, "tilesync", map[string]string{"policy": policy}))
		for i := range 3 {
			op := &w.Ops[i]
			if want := 4 * (op.Read + op.Write); !near(moved[op.Name], want) {
				t.Errorf("%s %s: %.0f bytes, want %.0f", policy, op.Name, moved[op.Name], want)
			}
		}
	}
}

// Without wait kernels a chain that is launched last kernel first, and fills the
// device with it, stands still; launched first kernel first, or with wait
// kernels, it does not.
func TestChainDeadlock(t *testing.T) {
	w, m := selfAttention(1024).build(t), h200(t, 1)
	for _, c := range []struct {
		set      map[string]string
		deadlock bool
	}{
		{map[string]string{"waitkernel": "off", "first": "consumer"}, true},
		{map[string]string{"waitkernel": "off"}, false},
		{map[string]string{"first": "consumer"}, false},
	} {
		got := outcome(t, w, m, "tilesync", c.set)
		var dead *replay.DeadlockError
		if errors.As(got.Err, &dead) != c.deadlock || (got.Result == nil) != c.deadlock {
			t.Errorf("%v: deadlock %v (%v)", c.set, dead != nil, got.Why)
		}
	}
}

// Pairs of convolutions, as products over 3×3 positions of the channels: by tile
// of channels or by row.
func TestConvolutionPairs(t *testing.T) {
	conv := func(channels int64) chain {
		x := dense{n: channels, k: 9 * channels, dur: 60_000}
		first, second := x, x
		first.name, second.name = "conv 1", "conv 2"
		return chain{ranks: 1, steps: 4, m: 56 * 56 * 12, products: []dense{first, second}}
	}
	w, m := conv(256).build(t), h200(t, 1)
	base := outcome(t, w, m, "captured", nil)
	for _, policy := range []string{"row", "conv"} {
		got := outcome(t, w, m, "tilesync", map[string]string{"policy": policy})
		if got.Result == nil {
			t.Fatalf("%s: %s", policy, got.Why)
		}
		if got.Time >= base.Time {
			t.Errorf("%s: %d ns, one after the other %d", policy, got.Time, base.Time)
		}
	}
	// With one tile of channels a row is a tile, and the policies are one.
	w = conv(128).build(t)
	row := outcome(t, w, m, "tilesync", map[string]string{"policy": "row"})
	tile := outcome(t, w, m, "tilesync", map[string]string{"policy": "conv"})
	if row.Time != tile.Time {
		t.Errorf("one tile of channels: by row %d ns, by tile %d", row.Time, tile.Time)
	}
}

// A counter of tiles costs each workgroup a trip to memory and nothing more.
func TestTickets(t *testing.T) {
	w, m := mlp512.build(t), h200(t, mlp512.ranks)
	off := outcome(t, w, m, "tilesync", nil)
	on := outcome(t, w, m, "tilesync", map[string]string{"tickets": "on"})
	if d := on.Time - off.Time; d <= 0 || d > 8*duration(m.GPU.Poll.Value) {
		t.Errorf("with a counter %d ns, without %d", on.Time, off.Time)
	}
}

// What cannot be synchronised is said in one line.
func TestTilesyncRefusals(t *testing.T) {
	m := h200(t, 1)
	for _, c := range []struct {
		chain  chain
		policy string
		want   string
	}{
		{chain{ranks: 1, steps: 2, m: 512, products: []dense{{name: "qkv", n: 768, k: 512, dur: 20_000}, {name: "out", n: 512, k: 256, dur: 20_000}}}, "tile", "policy tile needs a consumer that sums over the producer's 768 columns, not 256"},
		{selfAttention(512), "conv", "policy conv needs a consumer that sums over a whole number of filter positions of the producer's channels"},
		{chain{ranks: 1, steps: 2, m: 512, products: []dense{{name: "up", n: 1024, k: 512, dur: 20_000}, {name: "down", n: 512, k: 1024, dur: 20_000}}}, "strided", "policy strided needs a producer whose columns hold several matrices (queries, keys, values), each as wide as the consumer sums over"},
	} {
		if got := outcome(t, c.chain.build(t), m, "tilesync", map[string]string{"policy": c.policy}); got.Why != c.want {
			t.Errorf("%s: %q\nwant %q", c.policy, got.Why, c.want)
		}
	}
}
