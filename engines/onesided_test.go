package engines

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

var (
	scattered = spec{ranks: 4, steps: 3, op: trace.ReduceScatter, bytes: 64 << 20, gemm: 304_000, comm: 153_000, channels: 24}
	gathered  = spec{ranks: 4, steps: 3, op: trace.AllGather, bytes: 64 << 20, gemm: 304_000, comm: 170_000, channels: 24, reverse: true}
	vector    = spec{ranks: 4, steps: 3, op: trace.AllReduce, bytes: 64 << 10, gemm: 30_000, comm: 28_000, channels: 4}
)

// sent is the bytes that rank 0's GPU sent, by name.
func sent(out Outcome) map[string]float64 {
	by := map[string]float64{}
	for _, tr := range out.Result.Traffic {
		if tr.GPU == 0 && tr.Resource == replay.Egress {
			by[tr.Name] += tr.Bytes
		}
	}
	return by
}

func sum(by map[string]float64) (all float64) {
	for _, b := range by {
		all += b
	}
	return all
}

func near(got, want float64) bool { return got > 0.999*want && got < 1.001*want }

// Every way of moving and computing sends each shard once, and beats one after
// the other where communication can hide.
func TestOnesidedPipelines(t *testing.T) {
	for _, s := range []spec{scattered, gathered} {
		w, m := s.build(t), h200(t, s.ranks)
		base := outcome(t, w, m, "bulk", nil)
		for _, impl := range []string{"pull", "push"} {
			for _, product := range []string{"whole", "chunks"} {
				if impl == "push" && product == "chunks" {
					continue
				}
				got := outcome(t, w, m, "onesided", map[string]string{"impl": impl, "product": product})
				if got.Result == nil {
					t.Fatalf("%s %s %s: %s", s.op, impl, product, got.Why)
				}
				if got.Time >= base.Time {
					t.Errorf("%s %s %s: %d ns, bulk %d", s.op, impl, product, got.Time, base.Time)
				}
				want := float64(s.steps) * float64(s.bytes) * float64(s.ranks-1) / float64(s.ranks)
				if b := sum(sent(got)); !near(b, want) {
					t.Errorf("%s %s %s: rank 0 sent %.0f bytes, want %.0f", s.op, impl, product, b, want)
				}
			}
		}
	}
}

// PyTorch's kernel that adds partial results takes its own time, ours the memory's.
func TestSumsOfPartialResults(t *testing.T) {
	s := scattered
	w, m := s.build(t), h200(t, s.ranks)
	for product, want := range map[string]float64{
		"chunks": float64(s.bytes) / float64(s.ranks) / m.GPU.SumAt(s.ranks),
		"whole":  float64(s.bytes) * (1 + 1/float64(s.ranks)) / m.GPU.StreamAt(4*int(m.GPU.CUs.Value)),
	} {
		run := outcome(t, w, m, "onesided", map[string]string{"impl": "pull", "product": product}).Result.Run
		sums := 0
		for _, x := range run.Spans {
			if run.Kernel(x) != nil && strings.HasPrefix(run.NameOf(x), "sum of") {
				sums++
				if got := seconds(x.End - x.Start); math.Abs(got/want-1) > .02 {
					t.Errorf("%s: a sum takes %g s, want %g", product, got, want)
				}
			}
		}
		if sums != s.steps*s.ranks {
			t.Errorf("%s: %d sums in %d steps of %d ranks", product, sums, s.steps, s.ranks)
		}
	}
}

// A copy costs an engine's latency, whatever its size.
func TestOnesidedLoses(t *testing.T) {
	s := scattered
	s.bytes, s.gemm, s.comm = 256<<10, 20_000, 12_000
	w, m := s.build(t), h200(t, s.ranks)
	base := outcome(t, w, m, "bulk", nil)
	if got := outcome(t, w, m, "onesided", nil); got.Time <= base.Time {
		t.Errorf("copies of 64 KiB take %d ns, the library %d: they should lose", got.Time, base.Time)
	}
}

// One shot is for small vectors: it sends N-1 times as much as it has, in one step.
func TestOneShot(t *testing.T) {
	set := map[string]string{"impl": "oneshot"}
	w, m := vector.build(t), h200(t, 4)
	got := outcome(t, w, m, "onesided", set)
	if base := outcome(t, w, m, "bulk", nil); got.Time >= base.Time {
		t.Errorf("64 KiB: %d ns, library %d", got.Time, base.Time)
	}
	if b, want := sum(sent(got)), float64(vector.steps)*3*float64(vector.bytes); !near(b, want) {
		t.Errorf("rank 0 sent %.0f bytes, want %.0f", b, want)
	}
	large := vector
	large.bytes, large.comm, large.channels = 128<<20, 640_000, 24
	w = large.build(t)
	base := outcome(t, w, m, "bulk", nil)
	if got := outcome(t, w, m, "onesided", set); got.Time <= base.Time {
		t.Errorf("128 MiB: %d ns, library %d: it should lose", got.Time, base.Time)
	}
}

// On a mesh a link serves one peer, so all are used at once: a gather takes
// the time of one shard over one link, not of three.
func TestOnesidedOnMesh(t *testing.T) {
	const pair = 50e9
	m := h200(t, 4)
	m.Fabric.Topology = machine.Mesh
	m.Fabric.Pair.Value = pair
	w := gathered.build(t)
	got := outcome(t, w, m, "onesided", map[string]string{"impl": "push"})
	shard := trace.Time(float64(gathered.bytes) / 4 / pair * 1e9)
	if got.Time < shard || got.Time > gathered.gemm+2*shard {
		t.Errorf("%d ns; a shard over a link takes %d", got.Time, shard)
	}
}

// bare is a machine on which nothing but tiles and links takes time: a shard of
// 16 MiB takes 100 µs between two GPUs.
func bare(t testing.TB, gpus int, top machine.Topology) machine.Machine {
	m := h200(t, gpus)
	const rate = (16 << 20) / 100e-6
	m.Fabric = machine.Fabric{Topology: top}
	links := 1.0
	if top == machine.Mesh {
		links = float64(gpus - 1)
	}
	m.Fabric.Egress.Value, m.Fabric.Ingress.Value, m.Fabric.Pair.Value = links*rate, links*rate, rate
	m.Fabric.StoreCU.Value, m.Fabric.StoreRing.Value, m.Fabric.StoreSpread.Value, m.Fabric.StoreIncast.Value = rate/4, links*rate, links*rate, links*rate
	m.Engines.Rate.Value, m.Engines.Latency.Value, m.Engines.Count.Value = rate, 0, 4
	m.Launch, m.GPU.Stream, m.GPU.Flops.Value, m.GPU.Memory.Value = machine.Launch{}, machine.Table{}, 0, 1e18
	m.Matmul.Crowd.Value = 0
	return m
}

// Tiles of 38 µs on 132 compute units, 256 of them a shard: two rounds, the
// second of which reaches eight tiles into the next shard. Shards arrive, or
// leave, every 100 µs.
func TestOnesidedByHand(t *testing.T) {
	const µs = trace.Time(1000)
	for _, c := range []struct {
		name string
		op   trace.CollectiveOp
		top  machine.Topology
		set  string
		want trace.Time
	}{
		// The last shard arrives at 300; every compute unit has two tiles of it and of what is behind it left.
		{"pull, own first, then as they arrive", trace.AllGather, machine.Switch, "impl=pull", 376 * µs},
		{"push arrives from the rank before first", trace.AllGather, machine.Switch, "impl=push", 376 * µs},
		{"a ring hands on what came from the rank before", trace.AllGather, machine.Switch, "impl=ring", 376 * µs},
		{"each part of a ring gets every shard of the other across once", trace.AllGather, machine.Switch, "impl=ring:numa=2", 376 * µs},
		{"the shard that arrives last first: nothing overlaps", trace.AllGather, machine.Switch, "swizzle=reverse", 604 * µs},
		{"index order: the rank behind rank 0 waits for all", trace.AllGather, machine.Switch, "swizzle=index", 604 * µs},
		{"all-to-all like all-gather", trace.AllToAll, machine.Switch, "impl=pull", 376 * µs},

		// On a mesh an eighth of a shard of every peer comes every 12.5.
		{"mesh: all links at once", trace.AllGather, machine.Mesh, "", 316_500},
		{"mesh, order of a switch: one link of three", trace.AllGather, machine.Mesh, "swizzle=switch", 376 * µs},

		// 128 workgroups on the compute units that four of the communication kernel leave: two rounds a shard.
		{"communication kernel on reserved units", trace.AllGather, machine.Switch, "mover=kernel:reserve=4:first=product", 376 * µs},
		// 132 workgroups on 128: the last four start when the kernel is over, at 300, with seven tiles each.
		{"communication kernel on the product's units", trace.AllGather, machine.Switch, "mover=kernel", 566 * µs},
	} {
		s := gathered
		s.op = c.op
		w := s.build(t)
		if got := outcome(t, w, bare(t, 4, c.top), "onesided", settings("graph=on:"+c.set)); abs(got.Time-c.want) > 300 {
			t.Errorf("%s: %d ns, want %d (%s)", c.name, got.Time, c.want, got.Why)
		}
	}
	for _, c := range []struct {
		name string
		op   trace.CollectiveOp
		top  machine.Topology
		set  string
		want trace.Time
	}{
		// The first shard is computed at 76, and three copies follow one another.
		{"push, own last", trace.ReduceScatter, machine.Switch, "", 376 * µs},
		{"pull, own last", trace.ReduceScatter, machine.Switch, "impl=pull", 376 * µs},
		{"own first: the shard that is sent first is computed last", trace.ReduceScatter, machine.Switch, "swizzle=reverse", 604 * µs},
		{"all-to-all like reduce-scatter", trace.AllToAll, machine.Switch, "", 376 * µs},
		// The fourth step of eight begins at 152... a piece is sent in 12.5 and computed in 38: the last leaves after the product.
		{"mesh, copies", trace.ReduceScatter, machine.Mesh, "impl=push", 316_500},
	} {
		s := scattered
		s.op = c.op
		w := s.build(t)
		if got := outcome(t, w, bare(t, 4, c.top), "onesided", settings("graph=on:"+c.set)); abs(got.Time-c.want) > 300 {
			t.Errorf("%s: %d ns, want %d (%s)", c.name, got.Time, c.want, got.Why)
		}
	}
}

// settings are a selection's, without its engine.
func settings(s string) map[string]string {
	set := map[string]string{}
	for _, p := range strings.Split(s, ":") {
		if name, value, ok := strings.Cut(p, "="); ok {
			set[name] = value
		}
	}
	return set
}

// copies lists what rank 0's copy engines move in its first step, in order of start.
func copies(out Outcome) (names []string) {
	run := out.Result.Run
	for _, s := range run.Spans {
		if run.RankOf(s) == 0 && s.Kind == trace.Copy && run.Lanes[s.Lane].Kind == trace.Queue {
			names = append(names, run.NameOf(s))
		}
	}
	return names
}

// The order of the copies is the rule's: pulls from rank+1 on; pushes to rank+1
// on; a scatter's own shard last; a ring sends to one rank only; on a mesh every
// piece is followed by a small copy that is its signal; stores need no copies.
func TestOnesidedCopies(t *testing.T) {
	for _, c := range []struct {
		spec spec
		top  machine.Topology
		set  string
		want string
	}{
		{gathered, machine.Switch, "impl=pull", "copy 1→0, copy 2→0, copy 3→0"},
		{gathered, machine.Switch, "impl=push", "copy 0→1, copy 0→2, copy 0→3"},
		{gathered, machine.Switch, "impl=ring", "copy 0→1, copy 0→1, copy 0→1"},
		{gathered, machine.Switch, "impl=ring:numa=2", "copy 0→1, copy 0→2, copy 0→1"},
		{gathered, machine.Mesh, "rows=2048", "copy 0→1, copy 0→2, copy 0→3, signal 0→1, signal 0→2, signal 0→3"},
		{scattered, machine.Switch, "", "copy 0→1, copy 0→2, copy 0→3, copy 0→0"},
		{scattered, machine.Switch, "impl=pull", "copy 3→0, copy 2→0, copy 1→0, copy 0→0"},
		{scattered, machine.Mesh, "", ""},
	} {
		c.spec.steps = 1
		w, m := c.spec.build(t), bare(t, 4, c.top)
		if got := strings.Join(copies(outcome(t, w, m, "onesided", settings("graph=on:"+c.set))), ", "); got != c.want {
			t.Errorf("%s %s %q: %s, want %s", c.spec.op, c.top, c.set, got, c.want)
		}
	}
	// 2048 rows of a shard in pieces of 256: eight pieces, each with its signal, for three peers.
	one := gathered
	one.steps = 1
	if got := len(copies(outcome(t, one.build(t), bare(t, 4, machine.Mesh), "onesided", nil))); got != 48 {
		t.Errorf("mesh: %d copies, want 48", got)
	}
}

// A pull waits for all ranks before the product starts; a push only for its own.
func TestPushNeedsNoBarrier(t *testing.T) {
	const late = trace.Time(500_000)
	s := gathered
	s.steps = 1
	w := s.build(t)
	for _, id := range w.Ranks[0] {
		w.Ops[id].Issued = late
	}
	starts := map[string]trace.Time{}
	for _, impl := range []string{"pull", "push"} {
		run := outcome(t, w, bare(t, 4, machine.Switch), "onesided", settings("impl="+impl)).Result.Run
		for _, x := range run.Spans {
			if run.RankOf(x) == 1 && x.Kind == trace.Compute && run.NameOf(x) == "gemm_256x128" {
				starts[impl] = x.Start
			}
		}
	}
	if starts["pull"]-starts["push"] < late/2 {
		t.Errorf("with a late rank 0, rank 1's product starts at %d ns with push and at %d with pull", starts["push"], starts["pull"])
	}
}

// Stores of a scattered product: every byte crosses once, from the product itself.
func TestOnesidedStores(t *testing.T) {
	for _, op := range []trace.CollectiveOp{trace.ReduceScatter, trace.AllToAll} {
		s := scattered
		s.op = op
		got := outcome(t, s.build(t), bare(t, 4, machine.Mesh), "onesided", nil)
		for name, bytes := range sent(got) {
			want := float64(s.steps) * 0.75 * float64(s.bytes)
			if name != "gemm_256x128 + "+op.String() || !near(bytes, want) {
				t.Errorf("%s: %s sent %.0f bytes, want %.0f", op, name, bytes, want)
			}
		}
	}
}

// A product that waits and holds every slot that the communication kernel needs
// is a deadlock, found and named; kernels in the other order, or free compute
// units, are a way out (MECHANISM 6, R0.7).
func TestOnesidedDeadlock(t *testing.T) {
	w, m := gathered.build(t), h200(t, 4)
	got := outcome(t, w, m, "onesided", settings("mover=kernel:first=product"))
	var dead *replay.DeadlockError
	if !errors.As(got.Err, &dead) {
		t.Fatalf("the product was launched first and took every compute unit: %q, %v", got.Why, got.Err)
	}
	chain := strings.Join(dead.Chain, "\n")
	for _, want := range []string{`"gemm_256x128"`, `"nccl_all_gather"`, "hold their slots and wait", "shard of rank", "find no slot: held by"} {
		if !strings.Contains(chain, want) {
			t.Errorf("the cycle does not say %q:\n%s", want, chain)
		}
	}
	for _, set := range []string{"mover=kernel", "mover=kernel:first=product:reserve=8"} {
		if out := outcome(t, w, m, "onesided", settings(set)); out.Result == nil {
			t.Errorf("%s: %s", set, out.Why)
		}
	}
	// A scattered product waits for nothing: launched first, it only hides nothing.
	w = scattered.build(t)
	first := outcome(t, w, m, "onesided", settings("mover=kernel:first=product"))
	if spare := outcome(t, w, m, "onesided", settings("mover=kernel:reserve=8")); first.Result == nil || spare.Time >= first.Time {
		t.Errorf("reduce-scatter: %d ns with the product first (%s), %d with reserved compute units", first.Time, first.Why, spare.Time)
	}
}

// What cannot be is said, not replaced.
func TestOnesidedRefuses(t *testing.T) {
	dispatched := gathered
	dispatched.op = trace.AllToAll
	for _, c := range []struct {
		spec spec
		set  string
		want string
	}{
		{gathered, "impl=store", "for what a product makes"},
		{scattered, "impl=ring", "for what a product reads"},
		{dispatched, "impl=ring", "all-gathers, not all-to-alls"},
		{gathered, "impl=ring:numa=3", "does not divide 4 ranks"},
		{gathered, "impl=pull:mover=kernel", "a communication kernel stores"},
		{gathered, "product=chunks:mover=kernel", "product=chunks is for copy engines that read"},
		{gathered, "reserve=132", "leaves the product none"},
		{vector, "", "impl=oneshot"},
		{gathered, "impl=oneshot", "followed by an all-reduce"},
	} {
		out := outcome(t, c.spec.build(t), h200(t, 4), "onesided", settings(c.set))
		if out.Result != nil || !strings.Contains(out.Why, c.want) {
			t.Errorf("%s %q: %q, want %q", c.spec.op, c.set, out.Why, c.want)
		}
	}
}

func TestUnits(t *testing.T) {
	b := &board{ranks: []int32{0, 1, 2}, cuts: 2, impl: "push"}
	mesh := &transfers{swizzle: "mesh", numa: 1}
	// Step c takes piece c of every rank, its own first, or, of what it makes, last.
	if got, want := mesh.units(b, 1, true), []unit{{1, 0}, {2, 0}, {0, 0}, {1, 1}, {2, 1}, {0, 1}}; !slices.Equal(got, want) {
		t.Errorf("own first: %v", got)
	}
	if got, want := mesh.units(b, 1, false), []unit{{2, 0}, {0, 0}, {1, 0}, {2, 1}, {0, 1}, {1, 1}}; !slices.Equal(got, want) {
		t.Errorf("own last: %v", got)
	}
}

// Whatever the shapes, every tile is computed once, waits for all that its rows
// touch, in the order of the units: with the last of them, or, of what is made,
// with the first.
func TestRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks, cuts := rapid.IntRange(2, 8).Draw(t, "ranks"), rapid.IntRange(1, 4).Draw(t, "cuts")
		var units []unit
		for s := range ranks {
			for c := range cuts {
				units = append(units, unit{s, c})
			}
		}
		units = rapid.Permutation(units).Draw(t, "units")
		height, cols := rapid.SampledFrom([]int{0, 64, 100, 256}).Draw(t, "height"), rapid.IntRange(1, 5).Draw(t, "cols")
		m := rapid.IntRange(ranks*cuts, 5000).Draw(t, "m")
		panels := rapid.IntRange(1, 300).Draw(t, "tiles")
		if height > 0 {
			panels = ceilDiv(m, height)
		} else {
			cols = 1
		}
		part := product{op: &workload.Op{Kernel: &workload.Kernel{Shape: workload.Shape{M: int64(m)}, Tiling: workload.Tiling{TileM: height}}}, tiles: panels * cols}
		waits := rapid.Bool().Draw(t, "waits")
		all := runs([]product{part}, units, ranks, cuts, waits)
		last, before := 0, -1
		touched := make([]bool, len(units))
		for _, r := range all {
			turn := slices.Min(r.units)
			if waits {
				turn = slices.Max(r.units)
			}
			if r.until <= last || turn < before {
				t.Fatalf("run up to %d behind %d, unit %d behind %d", r.until, last, turn, before)
			}
			last, before = r.until, turn
			if height > 0 && r.until%cols != 0 {
				t.Fatalf("a run ends at tile %d of rows of %d", r.until, cols)
			}
			for _, u := range r.units {
				touched[u] = true
			}
		}
		if last != part.tiles {
			t.Fatalf("%d tiles of %d", last, part.tiles)
		}
		if slices.Contains(touched, false) {
			t.Fatalf("nothing reads some of the rows: %v", touched)
		}
	})
}
