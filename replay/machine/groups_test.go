package machine_test

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

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
