package replay

import (
	"math"

	"github.com/overlapse/overlapse/replay/machine"
)

// A fabric says which pools bytes cross. Pools lie in a row: memory, egress
// and ingress of each GPU, then the links. A pool whose capacity the machine
// does not give (0) holds nothing back and is no part of a route.
type fabric struct {
	gpus     int
	topology machine.Topology
	links    bool // pairs, or neighbours on a ring, have a capacity of their own
	pools    []pool
	latency  Time // of a store becoming visible on a peer
}

const poolsPerGPU = 3 // Memory, Egress, Ingress

func newFabric(m *machine.Machine, p *Program) fabric {
	factor := 1.0
	if p.Links > 0 {
		factor = p.Links
	}
	n := len(p.GPUs)
	f := fabric{
		gpus:     n,
		topology: m.Fabric.Topology,
		links:    m.Fabric.Pair.Value > 0,
		latency:  nanoseconds(m.Fabric.Latency.Value),
	}
	count := poolsPerGPU * n
	if f.links {
		count += n * n
	}
	f.pools = make([]pool, count)
	for g := range n {
		f.pools[f.pool(g, Memory)].capacity = perNanosecond(m.GPU.Memory.Value)
		f.pools[f.pool(g, Egress)].capacity = factor * perNanosecond(m.Fabric.Egress.Value)
		f.pools[f.pool(g, Ingress)].capacity = factor * perNanosecond(m.Fabric.Ingress.Value)
	}
	for i := poolsPerGPU * n; i < count; i++ {
		f.pools[i].capacity = factor * perNanosecond(m.Fabric.Pair.Value)
	}
	return f
}

func perNanosecond(perSecond float64) float64 { return perSecond / 1e9 }

func nanoseconds(seconds float64) Time { return Time(math.Round(seconds * 1e9)) }

func (f *fabric) pool(gpu int, r Resource) int32 { return int32(poolsPerGPU*gpu + int(r)) }

func (f *fabric) link(from, to int) int32 { return int32(poolsPerGPU*f.gpus + from*f.gpus + to) }

// route is the pools that a byte crosses on the path.
func (f *fabric) route(k pathKey) []share {
	from, to := int(k.from), int(k.to)
	if from == to {
		return f.cross(nil, f.pool(from, Memory), 1+k.read)
	}
	s := f.cross(nil, f.pool(from, Memory), k.read)
	s = f.cross(s, f.pool(from, Egress), 1)
	if f.links {
		s = f.hops(s, from, to)
	}
	s = f.cross(s, f.pool(to, Ingress), 1)
	return f.cross(s, f.pool(to, Memory), 1)
}

// hops appends the links between two GPUs: their own, or on a ring those of
// the shorter way round (upwards where both are equal).
func (f *fabric) hops(s []share, from, to int) []share {
	if f.topology != machine.Ring {
		return f.cross(s, f.link(from, to), 1)
	}
	step := 1
	if up := (to - from + f.gpus) % f.gpus; 2*up > f.gpus {
		step = f.gpus - 1
	}
	for from != to {
		next := (from + step) % f.gpus
		s = f.cross(s, f.link(from, next), 1)
		from = next
	}
	return s
}

func (f *fabric) cross(s []share, pool int32, weight float64) []share {
	if f.pools[pool].capacity == 0 || weight == 0 {
		return s
	}
	return append(s, share{pool: pool, weight: weight})
}
