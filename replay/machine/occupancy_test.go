package machine_test

import (
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
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
