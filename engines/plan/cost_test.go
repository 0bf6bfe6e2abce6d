package plan

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
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
