package machine_test

import (
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

// Groups whose rows are whole tiles take as long as one GEMM of all rows, but for the further
// weights that are read; others take whole tiles more.
func TestGrouped(t *testing.T) {
	m := machinetest.Load(t, "h200")
	whole := m.LawWithTile(16384, 4096, 4096, 256, 128, 1)
	got := m.GroupedWithTile(16, 16384, 4096, 4096, 256, 128)
	if want := 128 * 16; got.Tiles != want || whole.Tiles != want || got.Waves != whole.Waves {
		t.Errorf("%d tiles in %d waves, one GEMM %d in %d, want %d tiles", got.Tiles, got.Waves, whole.Tiles, whole.Waves, want)
	}
	moving := func(M, N, K float64) float64 { return 2 * (M*K + K*N + M*N) / m.GPU.Memory.Value }
	weights := moving(1024, 4096, 4096)*16 - moving(16384, 4096, 4096)
	if want := whole.Seconds + m.Matmul.Exposed.Value*weights; machinetest.Off(got.Seconds, want) > 1e-9 || weights <= 0 {
		t.Errorf("%g s, want %g", got.Seconds, want)
	}
	// 1025 rows of a group are nine tiles of 128.
	if more := m.GroupedWithTile(16, 16*1025, 4096, 4096, 256, 128); more.Tiles != 16*9*16 || more.Seconds <= got.Seconds {
		t.Errorf("%d tiles, %g s, without the rest of a tile %g", more.Tiles, more.Seconds, got.Seconds)
	}
	// Few rows a group: bound by the weights.
	if few := m.Grouped(64, 64*16, 4096, 4096); !few.InMemory || machinetest.Off(few.Seconds, 64*moving(16, 4096, 4096)) > 1e-9 {
		t.Errorf("%+v: want the memory's time for 64 weights", few)
	}
	if one := m.Grouped(1, 4096, 8192, 7168); one != m.Tiling(4096, 8192, 7168) {
		t.Errorf("one group: %+v", one)
	}
	// No candidate is expected to be faster than the one taken.
	taken := m.Grouped(32, 32768, 1024, 8192)
	for _, c := range m.Matmul.Tiles.Rows {
		if x := m.GroupedWithTile(32, 32768, 1024, 8192, int(c[0]), int(c[1])); x.Seconds < 0.95*taken.Seconds {
			t.Errorf("%vx%v takes %g s, the one taken (%dx%d) %g", c[0], c[1], x.Seconds, taken.Rows, taken.Columns, taken.Seconds)
		}
	}
}
