package rocprof

import (
	"cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
)

// An agentSize has the properties of an agent that CSV, JSON and rocpd name alike.
type agentSize struct{ cus, wave, waves, ldsKB, id int64 }

// products are the names of AMD's data center GPUs by their number on the PCI bus (libdrm data/amdgpu.ids), which
// tells MI325X from MI300X and MI355X from MI350X where the driver does not know the product.
var products = map[int64]string{
	0x7408: "AMD Instinct MI250X", 0x740c: "AMD Instinct MI250X/MI250", 0x740f: "AMD Instinct MI210",
	0x74a0: "AMD Instinct MI300A", 0x74a1: "AMD Instinct MI300X", 0x74a9: "AMD Instinct MI300X HF", 0x74b5: "AMD Instinct MI300X VF",
	0x74bd: "AMD Instinct MI300X HF",
	0x74a2: "AMD Instinct MI308X", 0x74a8: "AMD Instinct MI308X HF", 0x74b6: "AMD Instinct MI308X", 0x74bc: "AMD Instinct MI308X HF VF",
	0x74a5: "AMD Instinct MI325X", 0x74b9: "AMD Instinct MI325X VF",
	0x75a0: "AMD Instinct MI350X", 0x75b0: "AMD Instinct MI350X VF", 0x75a3: "AMD Instinct MI355X", 0x75b3: "AMD Instinct MI355X VF",
}

// members are where the properties are kept, by name.
func (a *agentSize) members() map[string]any {
	return map[string]any{
		"cu_count": &a.cus, "wave_front_size": &a.wave, "max_waves_per_cu": &a.waves, "lds_size_in_kb": &a.ldsKB, "device_id": &a.id,
	}
}

// newSession is a session for a file of AMD's profilers, which record no other GPUs.
func newSession(name string) *assemble.Session {
	s := assemble.New(name)
	s.Runtime = "ROCm"
	return s
}

// device returns the agent as a device, by its product or, where nothing tells that, its architecture.
func (a *agentSize) device(product, architecture string) trace.Device {
	if product == "" || product == "AMD Radeon Graphics" {
		product = cmp.Or(products[a.id], product)
	}
	n := func(n int64) int { return int(assemble.Narrow(n)) }
	return trace.Device{
		Name: cmp.Or(product, architecture), CUs: n(a.cus), WaveSize: n(a.wave), ThreadsPerCU: n(a.waves * a.wave),
		SharedPerCU: n(a.ldsKB << 10),
	}
}
