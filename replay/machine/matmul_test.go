package machine_test

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

// Names of cuBLAS kernels in traces of H200, N and M of a tile whichever way it
// lies. The shapes of the calibration must come out; of the others (other
// layouts, forward and backward passes) all but the listed ones do.
func TestTilingChoosesAsTheLibrary(t *testing.T) {
	m := machinetest.Load(t, "h200")
	for _, c := range []struct {
		M, N, K       int64
		rows, columns int
	}{
		{8192, 8192, 7168, 320, 128},
		{4096, 8192, 7168, 256, 128},
		{2048, 8192, 7168, 256, 128},
		{1024, 8192, 7168, 256, 128},
		{512, 8192, 7168, 256, 128},
		{8192, 8192, 2048, 320, 128},
		{4096, 8192, 2048, 256, 128},
		{512, 8192, 2048, 256, 128},
		{4096, 4256, 4256, 192, 192},
		{2048, 4256, 4256, 192, 192},
		{1024, 4256, 4256, 288, 128},
		{512, 4256, 4256, 160, 128},
		{8192, 4096, 3584, 256, 128},
		{4096, 4096, 3584, 256, 128},
		{512, 4096, 3584, 128, 128},
		{1024, 2048, 4096, 128, 128},
		{512, 2048, 4096, 128, 64},
		{8192, 4096, 4096, 256, 128},
		{8192, 8192, 4096, 320, 128},
		{8192, 5120, 3456, 320, 128},
		{4096, 8192, 14336, 256, 128},
		{4096, 14336, 8192, 320, 128},
		{8192, 14336, 8192, 320, 128},
		{14336, 8192, 4096, 192, 192},
		{128, 16384, 8192, 128, 128},
		{256, 16384, 8192, 256, 128},
		{384, 5376, 7680, 128, 128},
		{512, 2560, 5120, 96, 128},
		{256, 3072, 6144, 96, 64},
		{64, 3072, 6144, 64, 64},
		{512, 12288, 24576, 192, 128},
		{4096, 12288, 24576, 256, 128},
		{1024, 3584, 9472, 256, 128},
		{4096, 3584, 9472, 320, 128},
	} { // of 8192x8192x14784 it takes 320x128, where 128x192 and 256x128 are expected to be as good within 1 %
		got := m.Tiling(c.M, c.N, c.K)
		if min(got.Rows, got.Columns) != min(c.rows, c.columns) || max(got.Rows, got.Columns) != max(c.rows, c.columns) {
			t.Errorf("%d x %d x %d: %dx%d, the library takes %dx%d", c.M, c.N, c.K, got.Rows, got.Columns, c.rows, c.columns)
		}
	}
}

// A tile that the library was seen to take counts, whatever it is expected to prefer.
func TestTilingTaken(t *testing.T) {
	m := machinetest.Load(t, "h200")
	m.Matmul.Taken.Rows = [][]float64{{4096, 8192, 7169, 64, 64, 1}}
	if got := m.Tiling(4096, 8192, 7169); got.Rows != 64 || got.Columns != 64 || got.Tiles != 64*128 {
		t.Errorf("got %+v", got)
	}
	if got := m.Tiling(4096, 8192, 7170); got.Rows == 64 {
		t.Errorf("another GEMM: %+v", got)
	}
}

func TestTilingUsesRecordedShapes(t *testing.T) {
	m := machinetest.Load(t, "h200")
	got := m.Tiling(4096, 8192, 7168)
	if !got.Measured || machinetest.Off(got.Seconds, 583.6e-6) > 0.01 {
		t.Errorf("got %+v", got)
	}
	if machinetest.Off(got.Tile*float64(got.Waves), got.Seconds) > 1e-9 {
		t.Errorf("%d waves of %v s are not %v s", got.Waves, got.Tile, got.Seconds)
	}
	if m.Tiling(4096, 8192, 7169).Measured {
		t.Error("another shape counts as measured")
	}
	if a, b := m.GroupedWithTile(1, 4096, 8192, 7168, got.Rows, got.Columns), got; a != b {
		t.Errorf("with the tile that the library takes: %+v, else %+v", a, b)
	}
	if other := m.GroupedWithTile(1, 4096, 8192, 7168, 192, 192); other.Seconds != got.Seconds || other.Tiles == got.Tiles {
		t.Errorf("with another tile %+v, measured %v s", other, got.Seconds)
	}
}

func TestTilingIsWhole(t *testing.T) {
	for _, name := range machine.Names() {
		m := machinetest.Load(t, name)
		last := 0.0
		for M := int64(64); M <= 1<<15; M *= 2 {
			got := m.Tiling(M, 8192, 4096)
			if !(got.Seconds > 0) || got.Waves < 1 || got.Seconds < last {
				t.Errorf("%s: M=%d: %+v after %v s", name, M, got, last)
			}
			if flops := 2 * float64(M) * 8192 * 4096 / got.Seconds; flops > 1.1*m.GPU.Flops.Value {
				t.Errorf("%s: M=%d reaches %.0f TFLOP/s", name, M, flops/1e12)
			}
			last = got.Seconds
		}
	}
}

// A GEMM of few rows reads all of the other factor: 268 MB here, which the
// memory needs 63 us for, whatever the tiles do.
func TestTilingOfFewRows(t *testing.T) {
	m := machinetest.Load(t, "h200")
	few, many := m.Tiling(128, 16384, 8192), m.Tiling(1024, 16384, 8192)
	if least := 2.0 * 16384 * 8192 / m.GPU.Memory.Value; !few.InMemory || few.Seconds < least || few.Seconds > 1.1*least {
		t.Errorf("got %+v, the memory takes %v s for B", few, least)
	}
	if many.InMemory || machinetest.Off(many.Seconds, 342e-6) > 0.03 { // measured, for no row of the calibration
		t.Errorf("got %+v", many)
	}
	m.GPU.Memory.Value /= 2
	if slow := m.Tiling(128, 16384, 8192); machinetest.Off(slow.Seconds, 2*few.Seconds) > 1e-9 || machinetest.Off(slow.Tile, few.Tile) < 0.01 {
		t.Errorf("with half the memory's rate %+v, with all of it %+v", slow, few)
	}
}

func TestDynamic(t *testing.T) {
	m := machinetest.Load(t, "h200")
	for _, c := range []struct {
		M, N, K int64
		want    bool // a memset precedes the kernel in traces
	}{
		{8192, 8192, 7168, true},
		{2048, 8192, 7168, true},
		{1024, 8192, 7168, false},
		{4096, 4256, 4256, true},
		{2048, 4256, 4256, false},
		{2048, 4096, 3584, false},
		{4096, 4096, 3584, true},
	} {
		if got := m.Dynamic(m.Tiling(c.M, c.N, c.K)); got != c.want {
			t.Errorf("%d x %d x %d: %v", c.M, c.N, c.K, got)
		}
	}
	if a := machinetest.Load(t, "mi210"); a.Dynamic(a.Tiling(8192, 8192, 7168)) {
		t.Error("mi210: counter assumed")
	}
}

// Two producer tiles of gemm+gemm (128x128, K 12288, 90.5 us alone) on one CU
// take 1.6 times as long each (measured: 1.57); one of a thin tile none.
func TestPipe(t *testing.T) {
	m := machinetest.Load(t, "h200")
	if p := m.Pipe(2*128*128*12288, 90.5e-6); math.Abs(2*p-1.6) > 0.03 {
		t.Errorf("two tiles take %.2f times as long", 2*p)
	}
	if p := m.Pipe(2*128*128*12288, 1e-6); p != 1 {
		t.Errorf("a tile that takes the whole CU: %v", p)
	}
}

func TestIdleGain(t *testing.T) {
	m := machinetest.Load(t, "h200")
	if m.TileTimeFactor(132) != 1 || m.TileTimeFactor(1000) != 1 || !(m.TileTimeFactor(33) < m.TileTimeFactor(99)) || m.TileTimeFactor(1) < 0.85 {
		t.Errorf("%v %v %v", m.TileTimeFactor(132), m.TileTimeFactor(33), m.TileTimeFactor(99))
	}
}

func TestReach(t *testing.T) {
	g := machinetest.Load(t, "h200").GPU
	last := 0.0
	for n := 1; n <= 528; n++ {
		now := g.StreamAt(n)
		if now < last || now > 1.05*g.Memory.Value {
			t.Fatalf("%d workgroups reach %.3g B/s after %.3g", n, now, last)
		}
		last = now
	}
	if one := g.StreamAt(1); machinetest.Off(one, g.StreamAt(33)/33) > 1e-9 {
		t.Errorf("one workgroup reaches %.3g B/s", one)
	}
	if !(g.LookupAt(528, 0, true) < g.LookupAt(528, 0, false)) {
		t.Error("the fused gather is the slower build at 4 workgroups a CU")
	}
	if v := machinetest.Load(t, "mi210").GPU; v.StreamAt(104) != v.Memory.Value || v.StreamAt(52) != v.Memory.Value/2 {
		t.Error("without a curve CUs share the memory evenly")
	}
}

func TestStoreCost(t *testing.T) {
	f := machinetest.Load(t, "h200").Fabric
	ring, one, all := f.StoreCost(machine.ToNext), f.StoreCost(machine.ToOne), f.StoreCost(machine.ToAll)
	if !(1 < one && one < ring && ring < all && all < 1.3) {
		t.Errorf("to one %v, to next %v, to all %v", one, ring, all)
	}
	if machinetest.Load(t, "mi210").Fabric.StoreCost(machine.ToAll) != 1 {
		t.Error("unknown stores cost more than copies")
	}
}
