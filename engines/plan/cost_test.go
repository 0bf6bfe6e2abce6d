package plan

import (
	"math"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// With 16 times the bytes a collective has as many channels as the library takes then, unless it was limited.
func TestChannelsOfMore(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 2), Workload: &workload.Workload{}}
	pl.Workload.Ops = make([]workload.Op, 2)
	for _, c := range []struct {
		bytes          int64
		channels, want int
	}{{40 << 10, 2, 24}, {40 << 10, 5, 24}, {64 << 20, 4, 4}, {64 << 20, 24, 24}} {
		captured := &workload.Collective{Op: trace.AllReduce, Bytes: c.bytes, Channels: c.channels, Times: workload.Times{Depart: 50_000}, Members: []int32{0, 1}}
		if got := pl.Laws().Cut(slices.Repeat([]*workload.Collective{captured}, 16), 1, 0); got.Channels != c.want {
			t.Errorf("16 × %d bytes, captured with %d channels: %d, want %d", c.bytes, c.channels, got.Channels, c.want)
		}
	}
}

// A collective of the captured size takes its captured time, though the library would take fewer channels.
func TestPartOfOne(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 2), Workload: &workload.Workload{}}
	pl.Workload.Ops = make([]workload.Op, 2)
	c := workload.Collective{Op: trace.AllReduce, Bytes: 64 << 10, Channels: 32, Times: workload.Times{Depart: 50_000}, Members: []int32{0, 1}}
	if got := pl.Laws().Cut([]*workload.Collective{&c}, 1, 0); got.Alone != 50_000 {
		t.Errorf("%d ns on %d channels", got.Alone, got.Channels)
	}
}

// Persistent workgroups of which few have another tile take no more memory bandwidth in the first round than the kernel had.
func TestRoundsOfMemory(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 2), Workload: &workload.Workload{}}
	s := workload.Shape{Kind: workload.GEMV, M: 1, N: 28672, K: 8192, ElemSize: 2}
	op := &workload.Op{End: 113_000, Kind: trace.Compute, Kernel: &workload.Kernel{Shape: s, Tiling: workload.Tiling{TileM: 8, TileN: 128, Tiles: 224, WGs: 132, Persistent: true}, Footprint: program.Footprint{Threads: 384, Shared: 225_652}}}
	op.Read, op.Write = s.Traffic()
	g := pl.GridOf(op, op.Dur())
	if rate := g.Read * float64(g.WGs) / Seconds(g.Time); rate > pl.Machine.GPU.Memory.Value {
		t.Errorf("the first round reads %.2f TB/s", rate/1e12)
	}
}

// More channels than the captured ones change nothing where the bytes allow no more.
func TestMoreChannels(t *testing.T) {
	pl := &Planner{Machine: plantest.H200(t, 4), Workload: &workload.Workload{}}
	pl.Workload.Ops = make([]workload.Op, 4)
	for _, c := range []struct {
		bytes                    int64
		captured, given, becomes int
	}{{40 << 10, 2, 16, 2}, {64 << 20, 4, 16, 16}, {64 << 20, 24, 8, 8}} {
		coll := &workload.Collective{Op: trace.AllReduce, Bytes: c.bytes, Channels: c.captured, Times: workload.Times{Depart: 50_000}, Members: []int32{0, 1, 2, 3}}
		p := pl.Chunks(coll, 1, c.given, nil)
		if p.Channels != c.becomes || (p.DurAlone == 50_000) != (c.becomes == c.captured) {
			t.Errorf("%d bytes on %d channels, given %d: %d, %d ns", c.bytes, c.captured, c.given, p.Channels, p.DurAlone)
		}
	}
}

// The host's time for an iteration is that of all it issues as planned, operations that were not captured too.
func TestHostPeriod(t *testing.T) {
	pl := &Planner{Workload: &workload.Workload{}, iterationOf: []int32{0, 1, 1}, rounds: 2}
	r := &Rank{Planner: pl, order: []int32{0, 1, 2}, calls: []hostCall{{place: 0, cost: 50}, {place: 1, cost: 7}, {place: 1, cost: 20}, {place: 2, cost: 8}, {place: 3, cost: 1}}}
	if got := r.period(); got != 36 {
		t.Errorf("%d ns an iteration, not 36", got)
	}
}

// A kernel that streams memory: 128 threads a workgroup, so 16 on each of the 132
// compute units of an H200, 2112 in all.
func streamer(wgs int) (*workload.Op, *workload.Workload) {
	op := &workload.Op{
		End: 200_000, Read: 400e6, Write: 400e6,
		Kernel: &workload.Kernel{Shape: workload.Shape{Kind: workload.Elementwise}, Tiling: workload.Tiling{WGs: wgs}, Footprint: program.Footprint{Threads: 128}},
	}
	var b trace.Builder
	b.Add(trace.Span{End: op.End, Kind: trace.Compute, Parent: trace.None, Attr: trace.None, Lane: b.Lane(trace.Lane{Rank: b.AddRank(trace.Rank{})})})
	return op, &workload.Workload{Run: b.Finish(trace.Options{})}
}

// It takes time by its bytes and by the compute units that it has, not by whole
// waves, of which 7000 workgroups are 3.3, 70,000 are 33.1.
func TestStreamingKernelFollowsItsBytes(t *testing.T) {
	m := plantest.H200(t, 1)
	for _, wgs := range []int{7000, 70_000} {
		for _, c := range []struct {
			parts, held int
		}{{1, 0}, {3, 0}, {1, 4}, {1, 8}, {1, 16}, {1, 24}, {1, 66}} {
			op, w := streamer(wgs)
			op.Read, op.Write = 280e6, 280e6 // the memory moves more: the units bound it
			pl := &Planner{Machine: m, Workload: w}
			k := pl.chunkOf(op, 0, c.parts)
			holder := &program.Kernel{
				Name: "holder", Kind: trace.Collective, WGs: c.held, Footprint: program.Footprint{Exclusive: true},
				Recipe: func(_ int, buf []program.Phase) []program.Phase {
					return append(buf, program.Phase{Op: program.Sleep, Time: 10 * op.End})
				},
			}
			var p program.Program
			kernel := program.Stream{Queue: 1, Commands: []program.Command{{Kernel: k, Origin: -1}}}
			p.GPUs = []program.GPU{{Streams: []program.Stream{kernel}}}
			if c.held > 0 {
				p.GPUs[0].Streams = []program.Stream{{Queue: 2, Commands: []program.Command{{Kernel: holder, Origin: -1}}}, kernel}
			}
			r := must.Have(replay.Simulate(m, &p, replay.Options{}))(t)
			var took trace.Time
			for _, s := range r.Run.Spans {
				if r.Run.NameOf(s) == k.Name {
					took = s.End - s.Start
				}
			}
			launch := m.Launch.Graph.Value * 1e9 // of each part
			part := trace.Time(launch + (float64(op.End)-launch)/float64(c.parts))
			want := float64(part) * 132 / float64(132-c.held)
			last := float64(part) / float64(piecesOf(part).fine) // no more than one piece is left over
			if off := float64(took) - want; off < -1 || off > last || c.held == 0 && off > 1 {
				t.Errorf("%d workgroups, in %d parts, %d units held: %d ns, want %.0f", wgs, c.parts, c.held, took, want)
			}
		}
	}
}

// A part that fits at once is one round of its workgroups: of 4224, two rounds
// long 200 µs, a quarter is 1056, which reach 4124 GB/s where 2112 reach 4058
// (gpu.stream of h200). Its launch takes as long as the whole's, and the rest one round instead of two.
func TestPartOfStreamingKernel(t *testing.T) {
	op, w := streamer(4224)
	k := (&Planner{Machine: plantest.H200(t, 1), Workload: w}).chunkOf(op, 0, 4)
	const launch, moving = 1226, 800e6 / 4058
	want := launch + moving/4*4058/4124 + (200_000-launch-moving)/2
	if got := float64(k.Phases(0, nil)[0].Time); k.WGs != 1056 || math.Abs(got-want) > 1 {
		t.Errorf("%d workgroups of %.0f ns, want 1056 of %.0f", k.WGs, got, want)
	}
	var bytes float64
	for i := range k.WGs {
		bytes += k.Phases(i, nil)[0].Read
	}
	if math.Abs(4*bytes-op.Read) > 1 {
		t.Errorf("four parts read %.0f bytes, the whole %.0f", 4*bytes, op.Read)
	}
}

// Kernels of matrix instructions draw power for their operations: attention of FlashAttention-2 on an H200, 290 of
// 829 TFLOP/s, for 0.35 of its time.
func TestMatrixKernelsDrawByFlops(t *testing.T) {
	var m machine.Machine
	m.GPU.Flops.Value, m.GPU.CUs.Value = 829e12, 132
	for _, c := range []struct {
		what  string
		k     workload.Kernel
		share float64 // of 1 ms
	}{
		{"attention of known sizes", workload.Kernel{Dense: true, Flops: 290e9}, 0.35},
		{"attention faster than the profile's GEMMs", workload.Kernel{Dense: true, Flops: 900e9}, 1},
		{"attention of unknown sizes", workload.Kernel{Dense: true}, 0.75},
		{"a convolution on all CUs", workload.Kernel{Dense: true, Tiling: workload.Tiling{WGs: 132}}, 0.75},
		{"a convolution on a sixth of the CUs", workload.Kernel{Dense: true, Tiling: workload.Tiling{WGs: 22}}, 0.125},
		{"a GEMM", workload.Kernel{Shape: workload.Shape{Kind: workload.GEMM, M: 4096, N: 4096, K: 8192}}, 0.3316},
	} {
		var clock Clock
		clock.add(&cost.Laws{Machine: &m, Workload: &workload.Workload{}}, &workload.Op{Kernel: &c.k, Kind: trace.Compute, End: 1_000_000, Collective: -1, Step: -1})
		if got := clock.demand.Matrix / 1e-3; math.Abs(got-c.share) > 0.001 || clock.demand.Memory > 0 {
			t.Errorf("%s draws for %.4f of its time, want %.4f", c.what, got, c.share)
		}
	}
}

// Parts hold all things, in order, each as many as its size says and none fewer than the number of parts allows.
func TestCuts(t *testing.T) {
	for _, c := range []Cut{{2, 1}, {3, 3}, {17, 8}, {100, 3}, {513, 32}, {4, 8}} {
		counts := make([]int, c.Parts)
		for i := range c.N {
			part := c.Of(i)
			counts[part]++
			if i < c.From(part) || i >= c.From(part+1) {
				t.Errorf("%+v: %d is in part %d from %d to %d", c, i, part, c.From(part), c.From(part+1))
			}
		}
		for part, n := range counts {
			if n != c.From(part+1)-c.From(part) || n < c.N/c.Parts {
				t.Errorf("%+v: part %d has %d, not those from %d to %d", c, part, n, c.From(part), c.From(part+1))
			}
		}
	}
}

func TestAround(t *testing.T) {
	for _, c := range []struct {
		from, step int
		want       []int
	}{{0, 1, []int{0, 1, 2, 3}}, {3, 1, []int{3, 0, 1, 2}}, {-1, -1, []int{3, 2, 1, 0}}, {4, -1, []int{0, 3, 2, 1}}} {
		if got := Around(4, c.from, c.step); !slices.Equal(got, c.want) {
			t.Errorf("from %d by %d: %v, want %v", c.from, c.step, got, c.want)
		}
	}
}
