package results

import (
	"github.com/overlapse/overlapse/engines/tiles"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// A pairWaves is the waves of the two kernels of a kind of pair.
type pairWaves struct {
	Pair   int    `json:"pair"` // from 1, as inspect lists them
	First  string `json:"first_kernel"`
	Second string `json:"second_kernel"`
	tiles.Waves
}

// wavesOf counts the waves of each kind of dependent kernels.
func wavesOf(w *workload.Workload, m machine.Machine) []pairWaves {
	var all []pairWaves
	for i, kind := range workload.Pairs(w) {
		p := &w.Pairs[kind.Rows[0]]
		if p.Direction != workload.ComputeThenCompute || len(p.First) == 0 {
			continue
		}
		first, second := &w.Ops[p.First[0]], &w.Ops[p.Second[0]]
		if waves, ok := tiles.WavesOf(m, first, second); ok {
			all = append(all, pairWaves{i + 1, first.Name, second.Name, waves})
		}
	}
	return all
}
