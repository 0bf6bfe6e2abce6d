package machine_test

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

// A profile is found by the name of its own GPU; several machines have an MI210.
func TestForDevice(t *testing.T) {
	for _, name := range machine.Names() {
		m := machinetest.Load(t, name)
		if got := machine.ForDevice(trace.Device{Name: m.GPU.Name}); got != name && name != "mi210ib" && name != "torus128" && name != "t3" {
			t.Errorf("%s: its %s is taken for %q", name, m.GPU.Name, got)
		}
		if cus := int(m.GPU.CUs.Value); name != "t3" && !slices.Contains([]string{"mi210ib", "torus128"}, name) && !slices.Contains(machine.Alike(trace.Device{CUs: cus}), name) {
			t.Errorf("%s with %d CUs is not among the devices with properties", name, cus)
		}
	}
}
