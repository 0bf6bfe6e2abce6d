package machine_test

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// Occupancy is what the scarcest of threads, registers, shared memory and
// workgroups allows, the driver's own shared memory included.
func TestResidents(t *testing.T) {
	h200 := must.Have(machine.Load("h200"))(t)
	q := func(v float64) machine.Quantity { return machine.Quantity{Value: v} }
	for _, c := range []struct {
		name                       string
		gpu                        machine.GPU
		threads, registers, shared int
		want                       int
	}{
		{"threads", h200.GPU, 384, 32, 0, 5},
		{"registers", h200.GPU, 384, 168, 0, 1},
		{"shared memory", h200.GPU, 128, 32, 75 << 10, 3},
		{"shared memory with what the driver takes", h200.GPU, 128, 32, 76 << 10, 2},
		{"workgroups", h200.GPU, 32, 16, 0, 32},
		{"none fits", h200.GPU, 4096, 16, 0, 0},
		{"what is not given does not limit", machine.GPU{Threads: q(1024)}, 256, 255, 1 << 20, 4},
	} {
		if got := c.gpu.Residents(c.threads, c.registers, c.shared); got != c.want {
			t.Errorf("%s: %d workgroups fit, want %d", c.name, got, c.want)
		}
	}
}

func TestUncrowded(t *testing.T) {
	g := machine.GPU{MemoryRates: machine.MemoryRates{Crowding: machine.Table{Rows: [][]float64{{.25, .5}, {.75, 1}, {1, .8}}}}}
	for _, c := range []struct{ occupancy, want float64 }{{.1, .5}, {.25, .5}, {.75, 1}, {1, .8}, {0, 1}} {
		if got := machine.OccupancyShare(g, c.occupancy); machinetest.Off(got, c.want) > 1e-12 {
			t.Errorf("at %g: %g, want %g", c.occupancy, got, c.want)
		}
	}
	if got := machine.OccupancyShare(machine.GPU{}, .9); got != 1 {
		t.Errorf("without a curve: %g", got)
	}
}

// Between two measured numbers the rate lies between theirs, beyond the last it stays.
func TestSumAt(t *testing.T) {
	g := machinetest.Load(t, "h200").GPU
	for n, want := range map[int]float64{2: 543.5e9, 3: 544e9, 4: 544.4e9, 8: 374.1e9, 16: 374.1e9} {
		if got := g.SumAt(n); machinetest.Off(got, want) > 1e-3 {
			t.Errorf("of %d: %g, want %g", n, got, want)
		}
	}
	if got := (machine.GPU{}).SumAt(4); got != 0 {
		t.Errorf("without a curve: %g", got)
	}
}

func TestHitShare(t *testing.T) {
	g := machine.GPU{MemoryRates: machine.MemoryRates{Cache: machine.Quantity{Value: 16 << 20}}}
	for _, c := range []struct{ footprint, want float64 }{{1 << 20, 1}, {16 << 20, 1}, {64 << 20, .25}, {0, 0}} {
		if got := g.HitShare(c.footprint); got != c.want {
			t.Errorf("of %g bytes: %g, want %g", c.footprint, got, c.want)
		}
	}
	if got := (machine.GPU{}).HitShare(100); got != 0 {
		t.Errorf("without a cache: %g", got)
	}
}

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

func grouped(cus float64, rows ...[]float64) machine.GPU {
	return machine.GPU{CUs: machine.Quantity{Value: cus}, Groups: machine.Table{Rows: rows}}
}

// The drawing of groups.go.
func TestGrouping(t *testing.T) {
	for _, c := range []struct {
		g    machine.GPU
		want []int
	}{
		{grouped(12, []float64{2, 2}, []float64{4, 2}), []int{0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3}},
		{grouped(9, []float64{1, 1}, []float64{3, 1}, []float64{5, 1}), []int{0, 1, 2, 1, 2, 2, 1, 2, 2}},
		{machine.GPU{CUs: machine.Quantity{Value: 3}}, nil},
	} {
		if got := c.g.Grouping(); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.g.Groups.Rows, got, c.want)
		}
	}
}

// What an H200 held at once while a plain grid held so many SMs
// (H200, 2026-11-22; clusters that did not start late).
func TestClustersBesideHeldCUs(t *testing.T) {
	g := machinetest.Load(t, "h200").GPU
	for size, want := range map[int]map[int]int{ // by how many are held
		1:  {40: 92},
		2:  {0: 66, 1: 65, 2: 64, 3: 63, 4: 62, 5: 62, 8: 62, 9: 61, 12: 58, 16: 54, 20: 54, 24: 54, 28: 50, 32: 46, 40: 46, 48: 39, 56: 37, 64: 32, 66: 32, 80: 24},
		4:  {0: 30, 8: 30, 9: 29, 12: 26, 16: 24, 28: 24, 32: 22, 40: 22, 48: 17, 64: 15, 80: 9},
		8:  {0: 15, 9: 14, 16: 9, 28: 9, 32: 7, 66: 7, 80: 2},
		16: {0: 7},
	} {
		for held, want := range want {
			if got := g.Clusters(size, held); got != want {
				t.Errorf("clusters of %d with %d held: %d, measured %d", size, held, got, want)
			}
		}
	}
	if n := g.Clustered(4); n != 120 {
		t.Errorf("clusters of 4 lie on %v CUs", n)
	}
	unknown := machine.GPU{CUs: machine.Quantity{Value: 132}}
	if a, b := unknown.Clusters(2, 3), unknown.Clustered(8); a != 64 || b != 132 {
		t.Errorf("unknown groups: %d clusters alongside 3 held, %v CUs", a, b)
	}
}
