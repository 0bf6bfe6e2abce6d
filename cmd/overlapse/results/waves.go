package results

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/cmd/overlapse/console"
	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/tilesync"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// A pairWaves is the waves of the two kernels of a kind of pair.
type pairWaves struct {
	Pair   int    `json:"pair"` // from 1, as inspect lists them
	First  string `json:"first_kernel"`
	Second string `json:"second_kernel"`
	tilesync.Waves
}

// wavesOf counts the waves of each kind of dependent kernels.
func wavesOf(w *workload.Workload, m machine.Machine) []pairWaves {
	var all []pairWaves
	for i, kind := range w.PairKinds() {
		p := &w.Pairs[kind.Rows[0]]
		if p.Direction != workload.ComputeThenCompute || len(p.First) == 0 {
			continue
		}
		first, second := &w.Ops[p.First[0]], &w.Ops[p.Second[0]]
		if waves, ok := tilesync.WavesOf(m, first, second); ok {
			all = append(all, pairWaves{i + 1, first.Name, second.Name, waves})
		}
	}
	return all
}

// printWaves prints the waves of dependent kernels, where a strategy runs them side by side.
func printWaves(con *console.Console, r *Replayed) {
	if !slices.ContainsFunc(r.Outcomes, func(o compare.Outcome) bool {
		return o.Result != nil && len(o.Changed.Pairs) > 0 && len(o.Changed.Ops()) == 0
	}) {
		return
	}
	for i, p := range r.Waves {
		if i == 0 {
			fmt.Fprintln(con.Out)
		}
		fmt.Fprintf(con.Out, "waves of pair %d, %s → %s: %.2f and %.2f; %.0f one after the other, %.2f side by side\n",
			p.Pair, text.Shorten(p.First, 30), text.Shorten(p.Second, 30), p.Waves.First, p.Waves.Second, p.Apart, p.Together)
	}
}
