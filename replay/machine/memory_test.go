package machine_test

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

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
