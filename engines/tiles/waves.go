package tiles

import (
	"math"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// Waves are how often two dependent kernels fill a GPU, as in cuSync's Tables I, IV and V: the
// unit is a wave, all slots of the GPU.
type Waves struct {
	First    float64 `json:"first"`    // workgroups of the producer, or the tiles of persistent ones, over slots
	Second   float64 `json:"second"`   // those of the consumer
	Apart    float64 `json:"apart"`    // whole waves one after the other
	Together float64 `json:"together"` // side by side; rounded up, the whole waves
}

// WavesOf counts the waves of two kernels; false if their workgroups are unknown.
func WavesOf(m machine.Machine, first, second *workload.Op) (Waves, bool) {
	var n [2]float64
	for i, op := range []*workload.Op{first, second} {
		slots := m.GPU.CUs.Value * float64(max(1, op.Footprint.Residents(&m.GPU)))
		if op.Tiling.WGs <= 0 || slots <= 0 {
			return Waves{}, false
		}
		n[i] = float64(op.Tiling.WGs) / slots
		if op.Tiling.Persistent {
			n[i] = float64(op.Tiling.Tiles) / slots
		}
	}
	return Waves{n[0], n[1], math.Ceil(n[0]) + math.Ceil(n[1]), n[0] + n[1]}, true
}
