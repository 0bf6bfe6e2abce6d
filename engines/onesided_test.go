package engines

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
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
	m.Fabric.StoreCU.Value = rate / 4
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
