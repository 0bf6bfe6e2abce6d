package replay

import (
	"cmp"
	"fmt"
	"math"

	"github.com/overlapse/overlapse/replay/program"
)

func (n *naive) written(update bool) float64 {
	if update {
		return n.m.GPU.UpdateCost()
	}
	return 1
}

// memory adds a GPU's memory to what is crossed, and its side where there are sides.
func (n *naive) memory(x map[string]float64, k *nkey, gpu int32, weight float64) map[string]float64 {
	if weight == 0 {
		return x
	}
	x[fmt.Sprint("m", gpu)] = weight
	if n.p.Arbiter.Policy != program.Fair && n.m.GPU.Memory.Value > 0 {
		x[fmt.Sprint("s", gpu, k.side)] = weight
	}
	return x
}

// sides is what each side of each memory may take: what the other could not
// send even if it had the machine to itself, and its share in any case.
func (n *naive) sides(flows []*nflow, limit map[*nflow]float64) map[string]float64 {
	capacity := map[string]float64{}
	if n.p.Arbiter.Policy == program.Fair || n.m.GPU.Memory.Value == 0 {
		return capacity
	}
	type way struct {
		from, to           int32
		side               string
		read, write, cache float64
	}
	sends := map[way]float64{}
	ways := map[way]map[string]float64{}
	for _, f := range flows {
		k := &f.key
		if k.timed() {
			continue
		}
		w := way{k.from, k.to, k.side, k.read, k.write, k.cache}
		sends[w] += limit[f]
		ways[w] = n.cross(k)
	}
	asks := map[string]float64{}
	for w, all := range sends {
		for resource, weight := range ways[w] {
			if resource[0] != 's' {
				all = min(all, n.capacity(resource)/weight)
			}
		}
		for resource, weight := range ways[w] {
			asks[resource] += weight * all
		}
	}
	rate := perNanosecond(n.m.GPU.Memory.Value)
	for g, gpu := range n.gpus {
		share := .5
		if n.p.Arbiter.Policy == program.ComputeFirst {
			share = cmp.Or(gpu.commShare, n.p.Arbiter.Share)
		}
		compute, comm := fmt.Sprint("s", g, "computation"), fmt.Sprint("s", g, "communication")
		capacity[compute] = math.Max((1-share)*rate, rate-asks[comm])
		capacity[comm] = math.Max(share*rate, rate-asks[compute])
	}
	return capacity
}
