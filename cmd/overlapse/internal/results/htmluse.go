package results

import (
	"slices"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/html"
	"github.com/overlapse/overlapse/viz/layout"
)

// leastShare is the share of a resource that a chart shows.
const leastShare = 0.005

// useOf is what the GPUs use over time, as shares: compute units, memory and links as
// simulated, and how many copies run.
func useOf(r *replay.Result) []html.Use {
	classes := map[string]layout.Class{replay.ComputeUnits: layout.Local, replay.Memory.String(): layout.Memory, replay.MemoryOfComputation: layout.Memory, replay.Cache.String(): layout.Memory}
	var all []html.Use
	for _, u := range r.Usage {
		if slices.Max(u.Shares) < leastShare {
			continue
		}
		class, ok := classes[u.Of]
		if !ok {
			class = layout.Comm
		}
		use := html.Use{Rank: int32(u.GPU), Name: u.Of, Color: class.CSS(), Most: 100, Unit: "%"}
		for i, share := range u.Shares {
			use.Points = append(use.Points, html.Point{At: trace.Time(i) * u.Width, Value: 100 * share})
		}
		all = append(all, use)
	}
	return all
}
