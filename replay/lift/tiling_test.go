package lift

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
)

var hopper = trace.Device{
	Name: "H200", CUs: 132, WaveSize: 32, ThreadsPerCU: 2048, RegistersPerCU: 65536,
	SharedPerCU: 233472, SharedPerWG: 232448, ComputeMajor: 9,
}

func TestResidents(t *testing.T) {
	kernel := func(threads, regs, shared int32) trace.Setup {
		return trace.Setup{Block: [3]int32{threads, 1, 1}, Registers: regs, Shared: shared}
	}
	mi300 := trace.Device{CUs: 304, WaveSize: 64, ThreadsPerCU: 2048, SharedPerCU: 65536}
	for _, c := range []struct {
		device trace.Device
		k      trace.Setup
		want   int
	}{
		{hopper, kernel(384, 168, 213188), 132}, // shared memory: one a CU
		{hopper, kernel(256, 64, 0), 132 * 4},   // registers
		{hopper, kernel(1024, 0, 0), 132 * 2},   // threads
		{hopper, kernel(32, 16, 0), 132 * 32},   // workgroups
		{hopper, kernel(128, 0, 116224), 132},   // two but for the driver's kilobyte each
		{hopper, kernel(1024, 255, 0), 132},     // at least one: it did run
		{mi300, kernel(256, 0, 32768), 304 * 2}, // AMD reserves none
		{mi300, kernel(65, 0, 0), 304 * 16},     // whole waves
		{trace.Device{}, kernel(256, 32, 0), 0}, // unknown
		{hopper, trace.Setup{}, 0},
	} {
		if got := residents(&c.device, c.k, int(c.k.Registers)); got != c.want {
			t.Errorf("%+v on %s: %d, want %d", c.k, c.device.Name, got, c.want)
		}
	}
}
