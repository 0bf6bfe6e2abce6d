package machine_test

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

// What sends in pairs runs on a power of two of channels, rings on as many as they are
// given: workgroups of NCCL's kernels in 2026-11-22-h200-products. So an all-to-all of
// 72 MiB in five takes what it takes in eight, 451 us, and not the 663 us of four.
func TestRuns(t *testing.T) {
	m := machinetest.Load(t, "h200")
	l := &m.Library
	for given, grid := range map[int]int{1: 1, 2: 2, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 8: 8, 9: 16, 10: 16, 12: 16, 14: 16, 16: 16, 20: 32, 24: 32, 28: 32, 32: 32} {
		if n := l.Runs(trace.AllToAll, given); n != grid {
			t.Errorf("an all-to-all that is given %d channels runs on %d, want %d", given, n, grid)
		}
		for _, op := range []trace.CollectiveOp{trace.AllReduce, trace.AllGather, trace.ReduceScatter} {
			if n := l.Runs(op, given); n != given {
				t.Errorf("%v: %d channels of %d", op, n, given)
			}
		}
	}
	for _, x := range []struct {
		channels int
		us       float64
	}{{5, 451.1}, {7, 453.4}, {8, 451}, {9, 237.4}, {16, 237.9}, {20, 145.7}, {32, 146.1}} {
		if got := 1e6 * l.Time(trace.AllToAll, 72<<20, 2, x.channels); machinetest.Off(got, x.us) > 0.13 {
			t.Errorf("%d channels: %.1f us, measured %.1f", x.channels, got, x.us)
		}
	}
}

// More channels never take longer (2 % for the ends of curves, 4 % where a power of two is passed at once); the law never less for more bytes. Recorded
// times do fall with bytes where the library changes its protocol, but by no
// more than the quarter that one channel shows.
func TestTimeIsMonotone(t *testing.T) {
	for _, name := range machine.Names() {
		m := machinetest.Load(t, name)
		for _, op := range machine.RecordedOps {
			c := m.Library.Of(op)
			for _, ranks := range []int{2, 3, 4, 8} {
				for channels := 1; channels <= 40; channels++ {
					last, lastLaw := 0.0, 0.0
					for bytes := int64(1 << 20); bytes <= 1<<30; bytes += bytes / 3 {
						now := m.Library.Time(op, bytes, ranks, channels)
						if !(now > 0) || math.IsInf(now, 0) {
							t.Fatalf("%s %v: %v s for %d bytes, %d ranks, %d channels", name, op, now, bytes, ranks, channels)
						}
						if now < last*0.75 {
							t.Errorf("%s %v: %d bytes, %d ranks, %d channels: %.1f us after %.1f", name, op, bytes, ranks, channels, now*1e6, last*1e6)
						}
						law := c.Law(op, float64(ranks), float64(channels), float64(bytes))
						if law < lastLaw {
							t.Errorf("%s %v: law falls at %d bytes, %d channels", name, op, bytes, channels)
						}
						slack := 1.02
						if op == trace.AllToAll {
							slack = 1.04
						}
						if fewer := m.Library.Time(op, bytes, ranks, channels-1); channels > 1 && now > fewer*slack {
							t.Errorf("%s %v: %d bytes, %d ranks: %d channels take %.1f us, one fewer %.1f", name, op, bytes, ranks, channels, now*1e6, fewer*1e6)
						}
						last, lastLaw = now, law
					}
				}
			}
		}
	}
}

func TestTimeOfNothing(t *testing.T) {
	m := machinetest.Load(t, "h200")
	if v := m.Library.Time(trace.AllReduce, 1<<20, 1, 0); v != 0 {
		t.Errorf("one rank: %v", v)
	}
	if v := m.Library.Time(trace.AllReduce, 0, 4, 0); !(v > 0 && v < 20e-6) {
		t.Errorf("no bytes: %v", v)
	}
	if v := machinetest.Slowdown(&m.Library, trace.AllReduce, 0, 4, 0, machine.CoRunner{Kind: machine.CoRunMemory}); v != 1 {
		t.Errorf("no bytes: slowdown %v", v)
	}
}

// Grids of the kernels in traces of H200.
func TestChannelsFor(t *testing.T) {
	m := machinetest.Load(t, "h200")
	for _, c := range []struct {
		op    trace.CollectiveOp
		bytes int64
		want  int
	}{
		{trace.AllReduce, 4, 1},
		{trace.AllReduce, 16384, 1},
		{trace.AllReduce, 32768, 2},
		{trace.AllReduce, 65536, 4},
		{trace.AllReduce, 131072, 8},
		{trace.AllReduce, 524288, 24},
		{trace.AllReduce, 134217728, 24},
		{trace.ReduceScatter, 69730304, 24},
		{trace.AllGather, 14155776, 24},
		{trace.AllToAll, 16777216, 32},
	} {
		if got := m.Library.ChannelsFor(c.op, c.bytes); got != c.want {
			t.Errorf("%v of %d bytes: %d channels, want %d", c.op, c.bytes, got, c.want)
		}
	}
}

// Channels that are the limit are slowed most; a link that is the limit hides it.
func TestSlowdownFallsWithChannels(t *testing.T) {
	m := machinetest.Load(t, "h200")
	for _, op := range machine.RecordedOps {
		for _, n := range []machine.CoRunKind{machine.CoRunLibrary, machine.CoRunTiles, machine.CoRunMemory} {
			few, many := machinetest.Slowdown(&m.Library, op, 128<<20, 4, 4, machine.CoRunner{Kind: n, Load: 1}), machinetest.Slowdown(&m.Library, op, 128<<20, 4, 32, machine.CoRunner{Kind: n, Load: 1})
			if !(few > many && many >= 1) {
				t.Errorf("%v alongside %d: %v at 4 channels, %v at 32", op, n, few, many)
			}
		}
	}
}

// A kernel that uses less of the memory delays a collective less, and one of unknown
// traffic less than one that saturates the memory.
func TestCoRunnersThatSpareTheMemory(t *testing.T) {
	m := machinetest.Load(t, "h200")
	slow := func(load float64) float64 {
		return machinetest.Slowdown(&m.Library, trace.AllReduce, 256<<20, 2, 24, machine.CoRunner{Kind: machine.CoRunMemory, Load: load})
	}
	last := slow(1)
	for _, load := range []float64{0.8, 0.5, 0.1} {
		if s := slow(load); s >= last {
			t.Errorf("alongside a load of %g %.3f, not less than %.3f", load, s, last)
		} else {
			last = s
		}
	}
	if s := slow(0); s <= slow(0.5) || s >= slow(1) {
		t.Errorf("alongside unknown traffic %.3f", s)
	}
}
