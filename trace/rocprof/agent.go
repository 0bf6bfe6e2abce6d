package rocprof

import (
	"cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
)

// An agentSize has the properties of an agent that CSV, JSON and rocpd name alike.
type agentSize struct{ cus, wave, waves, ldsKB int64 }

// field returns where a property is kept, or nil for another name.
func (a *agentSize) field(name string) *int64 {
	switch name {
	case "cu_count":
		return &a.cus
	case "wave_front_size":
		return &a.wave
	case "max_waves_per_cu":
		return &a.waves
	case "lds_size_in_kb":
		return &a.ldsKB
	}
	return nil
}

// device returns the agent as a device, which has the first of the names that is not empty.
func (a *agentSize) device(names ...string) trace.Device {
	n := func(n int64) int { return int(assemble.Narrow(n)) }
	return trace.Device{
		Name: cmp.Or(names...), CUs: n(a.cus), WaveSize: n(a.wave), ThreadsPerCU: n(a.waves * a.wave), SharedPerCU: n(a.ldsKB << 10),
	}
}
