package replay

import (
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
)

// share gives every flow its rate: all rise together until a limit or a full resource stops them.
func (n *naive) share() {
	occupied := map[*ncu]float64{} // by compute
	whole := make([]float64, len(n.gpus))
	moving := make([]float64, len(n.gpus))
	own, matrix := map[*nkernel]float64{}, map[*nkernel]bool{}
	load := map[*ncu]float64{}
	for _, a := range n.actors {
		if a.kind == dueWorkgroup && a.flow != nil {
			if a.kernel.k.Kind != trace.Compute && a.cu != nil {
				moving[a.gpu]++
			}
			if a.kernel.k.Kind == trace.Compute {
				by := float64(pipeShare(a.kernel.k.Pipe)) / wholePipe
				if a.cu == nil {
					by = float64(len(n.gpus[a.gpu].cus)) / float64(a.kernel.k.WGs)
					whole[a.gpu] += by
				} else {
					occupied[a.cu] += by
				}
				own[a.kernel] += by
				matrix[a.kernel] = a.kernel.k.Matrix
			}
			if a.phases[a.phase].Op == program.Work {
				load[a.cu] += float64(pipeShare(a.kernel.k.Pipe)) / wholePipe
			}
		}
	}
	var flows []*nflow
	limit := map[*nflow]float64{}
	for _, a := range n.actors {
		if a.flow == nil {
			continue
		}
		f := a.flow
		var most float64
		if a.kind == dueWorkgroup {
			p := &a.phases[a.phase]
			slow := 1.0
			if a.cu != nil && p.Op == program.Work {
				slow = max(1, load[a.cu])
			}
			key, size := n.key(a, p, slow)
			if math.IsNaN(f.left) {
				n.flow(a, key, size)
				f = a.flow
			}
			f.key = key
			most = key.alone() / slow
			beside := a.kernel.k.Kind == trace.Compute && a.kernel.k.Channels
			if beside && sizeOf(p) > 0 {
				all, held := float64(len(n.gpus[a.gpu].cus)), 0.0
				for _, c := range n.gpus[a.gpu].cus {
					if slices.ContainsFunc(c.wgs, func(w *nactor) bool { return w.kernel.k.Kind != trace.Compute }) {
						held++
					}
				}
				most /= (1 + (key.beside-1)*min(1, moving[a.gpu]/all)) * (1 - a.kernel.k.Fed*min(max(0, held-moving[a.gpu]), all-1)/all)
			} else if p.Slowdown > 1 {
				others, rest := whole[a.gpu], 0.0
				for _, c := range n.gpus[a.gpu].cus {
					others += min(1, occupied[c])
					if !slices.ContainsFunc(c.wgs, func(w *nactor) bool { return w.kernel.k.Kind != trace.Compute }) {
						rest++
					}
				}
				if a.kernel.k.Kind == trace.Compute {
					others -= own[a.kernel]
				}
				onset := 0.0
				for k, is := range matrix {
					if is && k != a.kernel && k.gpu == a.gpu {
						onset = a.kernel.k.Onset
					}
				}
				share := onset + (1-onset)*min(1, max(0, others)/max(1, rest))
				if beside { // it moves nothing
					share = min(1, moving[a.gpu]/float64(len(n.gpus[a.gpu].cus)))
				}
				most /= 1 + (p.Slowdown-1)*share
			}
		} else {
			most = f.key.limit
		}
		limit[f] = most
		flows = append(flows, f)
	}
	n.fill(flows, limit)
}

func (n *naive) key(a *nactor, p *program.Phase, slow float64) (nkey, float64) {
	k := nkey{from: int32(a.gpu), to: int32(a.gpu), cu: none, launch: none, beside: max(1, p.Slowdown), onset: a.kernel.k.Onset, slow: 1, weight: 1}
	alone := float64(p.Time)
	if a.young && p.Op == program.Work {
		longer := alone * a.kernel.k.Lag
		n.rounded = n.rounded || longer != math.Trunc(longer)
		alone += math.Trunc(longer)
	}
	if k.beside > 1 && a.kernel.k.Kind == trace.Compute {
		k.launch = int32(a.kernel.order)
	}
	if sizeOf(p) == 0 {
		if p.Op == program.Work {
			k.cu = int32(a.cuAt)
		}
		return k, alone
	}
	k.side, k.write = "communication", n.written(p.Update)
	if p.Weight > 0 {
		k.weight = p.Weight
	}
	k.limit, k.slow = limitOf(sizeOf(p), alone), slow
	if p.Op == program.Store {
		k.to, k.read = p.Peer, (p.Read+p.Write)/p.Bytes
	} else {
		k.cache = 1
		k.write = (p.Read*(1-p.Hit) + p.Write*k.write) / sizeOf(p)
	}
	if a.kernel.k.Kind == trace.Compute && (p.Op == program.Work || int(p.Peer) == a.gpu) {
		k.side = "computation"
	}
	return k, sizeOf(p)
}

func (n *naive) fill(flows []*nflow, limit map[*nflow]float64) {
	cross := func(f *nflow) map[string]float64 { return n.cross(&f.key) }
	sides := n.sides(flows, limit)
	capacity := func(resource string) float64 {
		if c, ok := sides[resource]; ok {
			return c
		}
		return n.capacity(resource)
	}
	done := map[*nflow]bool{}
	for {
		level := math.Inf(1)
		left, load := map[string]float64{}, map[string]float64{}
		for _, f := range flows {
			for resource, w := range cross(f) {
				if _, ok := left[resource]; !ok {
					left[resource] = capacity(resource)
				}
				if done[f] {
					left[resource] -= w * f.rate
				} else {
					load[resource] += w * f.key.weight
				}
			}
		}
		open := false
		for _, f := range flows {
			if !done[f] {
				open = true
				level = min(level, limit[f]/f.key.weight)
			}
		}
		if !open {
			return
		}
		for resource := range load {
			level = min(level, max(0, left[resource]/load[resource])) // below 0 by rounding, nothing would be full
		}
		for _, f := range flows {
			if done[f] {
				continue
			}
			full := limit[f] <= level*f.key.weight*(1+1e-12)
			for resource := range cross(f) {
				full = full || left[resource] <= level*load[resource]*(1+1e-12)
			}
			if full {
				done[f], f.rate = true, min(limit[f], level*f.key.weight)
			}
		}
	}
}

// cross is the resources that a byte of a flow crosses, and how much of each. Names
// are slow to make, so they are made once.
func (n *naive) cross(k *nkey) map[string]float64 {
	if k.timed() {
		return nil
	}
	if _, ok := n.ways[*k]; !ok {
		n.ways[*k] = n.way(k)
	}
	return n.ways[*k]
}

func (n *naive) way(k *nkey) map[string]float64 {
	name := func(kind string, ids ...int32) string { return fmt.Sprint(kind, ids) }
	if k.from == k.to {
		x := n.memory(map[string]float64{}, k, k.from, k.read+k.write)
		if k.cache > 0 {
			x[fmt.Sprint("c", k.from)] = k.cache
		}
		return x
	}
	from, to := int(k.from), int(k.to)
	if k.to == program.Everyone {
		x := n.memory(map[string]float64{}, k, k.from, k.read)
		x[name("e", k.from)] = 1
		for g := range n.gpus {
			if g != from && n.node(g) == n.node(from) {
				x[name("i", int32(g))] = 1
				n.memory(x, k, int32(g), k.write)
			}
		}
		return x
	}
	x := n.memory(map[string]float64{}, k, k.to, k.write)
	if k.read > 0 {
		n.memory(x, k, k.from, k.read)
	}
	if a, b := n.node(from), n.node(to); a != b {
		x["o"+n.nic(from)], x["j"+n.nic(to)] = 1, 1
		for _, link := range n.links(n.m.Network.Topology, n.nodes(), a, b) {
			x["n"+link] = 1
		}
		return x
	}
	x[name("e", k.from)], x[name("i", k.to)] = 1, 1
	per := n.perNode()
	for _, link := range n.links(n.m.Fabric.Topology, per, from%per, to%per) {
		x[fmt.Sprint("p", from/per, link)] = 1
	}
	return x
}

// capacity is what the machine gives a resource.
func (n *naive) capacity(resource string) float64 {
	var q machine.Quantity
	switch resource[0] {
	case 'm':
		q = n.m.GPU.Memory
	case 'c':
		q = n.m.GPU.CacheRate
	case 'e':
		q = n.m.Fabric.Egress
	case 'i':
		q = n.m.Fabric.Ingress
	case 'p':
		q = n.m.Fabric.Pair
	case 'o':
		q = n.m.Network.Egress
	case 'j':
		q = n.m.Network.Ingress
	case 'n':
		q = n.m.Network.Pair
	}
	if q.Value == 0 {
		return math.Inf(1)
	}
	return perNanosecond(q.Value)
}
