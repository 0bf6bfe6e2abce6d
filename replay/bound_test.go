package replay

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/fluid"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// Nothing is faster than its bytes through the narrowest resource.
func TestNotFasterThanPhysics(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p, m, r := drawRun(t, Options{Usage: true})
		n := newNaive(m, p)
		bytes := map[string]float64{} // by resource: GPUs may share a NIC
		for _, x := range r.Traffic {
			if x.Resource != dma {
				bytes[n.poolOf(x.GPU, x.Resource)] += x.Bytes
			}
		}
		for resource, b := range bytes {
			if c := n.capacity(resource); float64(r.Makespan) < b/c*(1-1e-9)-1 {
				t.Fatalf("%g bytes through %s of %g bytes a nanosecond in %d ns", b, resource, c, r.Makespan)
			}
		}
		for _, u := range r.Usage {
			if most := slices.Max(u.Shares); most > 1+1e-9 {
				t.Fatalf("use of %s of GPU %d: %g of capacity", u.Of, u.GPU, most)
			}
		}
	})
}

// A program takes at least as long as its longest chain of what waits for each
// other, each alone on the machine, and as its fullest resource needs for all that
// crosses it: memory, cache, card, or link of a ring. It takes at most as long as
// all it does one after another: something always goes on, as fast as alone or
// alongside others that make up for it. Each that ends is rounded up once.
func TestBetweenCriticalPathAndSerialSum(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p := drawProgram(t)
		m := drawMachine(t, len(p.GPUs))
		eachPhase(p, func(x *program.Phase) { x.Last = 0 }) // what is left out is known only from the run
		eachKernel(p, func(k *program.Kernel) { k.Owned = -1 })
		r, err := Simulate(m, p, Options{})
		skipDeadlock(t, err)
		b := &bounds{naive: newNaive(m, p)}
		for range 6 { // chains of more waits are cut
			b.pass()
		}
		for resource, bytes := range b.load {
			if c := b.capacity(resource); float64(r.Makespan) < bytes/c*(1-1e-9)-1 {
				t.Fatalf("%g bytes through %s of %g bytes a nanosecond in %d ns", bytes, resource, c, r.Makespan)
			}
		}
		if took := float64(r.Makespan); took < b.chain-fluid.Slack*float64(b.n) || took > b.sum+float64(b.n) {
			t.Fatalf("%d ns, the longest chain takes %g, all %d one after another %g", r.Makespan, b.chain, b.n, b.sum)
		}
	})
}

// Bounds of a program's time. Each pass knows posts as early as the one before
// had them, the first those of a machine on which every flag is there at once.
type bounds struct {
	*naive
	posts, next map[program.Flag][]npost
	chain, sum  float64            // nanoseconds
	n           int                // of what ends
	load        map[string]float64 // bytes by resource
}

func (b *bounds) pass() {
	b.posts, b.next = b.next, map[program.Flag][]npost{}
	b.chain, b.sum, b.n, b.load = 0, 0, 0, map[string]float64{}
	for g := range b.p.GPUs {
		for _, st := range b.p.GPUs[g].Streams {
			at := 0.0
			for i := range st.Commands {
				at = b.command(g, &st.Commands[i], at)
			}
		}
	}
	for _, posts := range b.next {
		slices.SortFunc(posts, func(x, y npost) int { return cmp.Compare(x.at, y.at) })
	}
}

// takes counts what takes a while from at on, alone and at most.
func (b *bounds) takes(at, alone, most float64) (end float64) {
	b.sum += most
	b.n++
	return at + alone
}

// reached is when a flag reaches a count at the earliest.
func (b *bounds) reached(f program.Flag, count int64) float64 {
	if b.posts == nil || f == program.NoFlag || count <= 0 {
		return 0
	}
	for _, p := range b.posts[f] {
		if count -= p.count; count <= 0 {
			return float64(p.at)
		}
	}
	return 0
}

func (b *bounds) post(f program.Flag, count int64, at float64) {
	b.next[f] = append(b.next[f], npost{at: program.Time(math.Floor(at)), count: count})
}

func (b *bounds) command(gpu int, c *program.Command, at float64) (end float64) {
	at = b.takes(at, float64(c.Delay), float64(c.Delay))
	switch c.Op {
	case program.Wait:
		return max(at, b.reached(c.Flag, c.Count))
	case program.Post:
		b.post(c.Flag, c.Count, at)
		return at
	case program.Delay:
		return at
	case program.Start:
		x := c.Copy
		took := float64(x.Time)
		latency := nanoseconds(b.m.Engines.Latency.Value)
		if queued := nanoseconds(b.m.Engines.Queued.Value); queued > 0 {
			latency = min(latency, queued)
		}
		if !x.Free {
			if b.node(int(x.From)) != b.node(int(x.Peer)) {
				latency += b.latency(int(x.From), int(x.Peer))
			}
			sent := b.send(&nkey{from: x.From, to: x.Peer, limit: 1, read: 1, write: b.written(x.Update)}, x.Bytes)
			if b.m.Engines.Rate.Value > 0 && x.From != x.Peer {
				sent = max(sent, x.Bytes/perNanosecond(b.m.Engines.Rate.Value))
			}
			took = max(took, float64(latency)+sent)
		}
		end = b.takes(at, took, took*b.unsure())
	default:
		k := c.Kernel
		end = at
		for w := range k.WGs {
			if k.Tiles == 0 {
				end = max(end, b.phases(gpu, k, k.Phases(w, nil), at))
				continue
			}
			now := b.phases(gpu, k, k.Prologue(w, nil), at)
			for tile := w; tile < k.Tiles; tile += k.WGs {
				now = b.phases(gpu, k, k.Phases(tile, nil), now)
			}
			end = max(end, b.phases(gpu, k, k.Epilogue(w, nil), now))
		}
	}
	b.chain = max(b.chain, end)
	return end
}

// phases is when a workgroup that begins them at a time ends them.
func (b *bounds) phases(gpu int, k *program.Kernel, phases []program.Phase, at float64) float64 {
	far := program.Time(0)
	for i := range phases {
		p := &phases[i]
		key, size := b.key(&nactor{gpu: gpu, kernel: &nkernel{k: k}}, p, 1)
		switch p.Op {
		case program.WaitFor:
			at = max(at, b.reached(p.Flag, p.Count))
		case program.Sleep:
			at = b.takes(at, float64(p.Time), float64(p.Time))
		case program.Work, program.Store:
			took := float64(p.Time)
			if p.Op == program.Work && !k.Free {
				took *= max(1, k.Pipe)
			}
			if size > 0 {
				took = max(took, b.send(&key, size))
			}
			at = b.takes(at, took, took*b.unsure()*max(1, p.Slowdown))
			if p.Op == program.Store && took > 0 { // one of nothing is none
				far = max(far, b.latency(gpu, int(p.Peer)))
			}
		case program.PostTo:
			way := p.Time
			if way == 0 {
				way = far
			}
			b.post(p.Flag, p.Count, b.takes(at, float64(way), float64(way)+b.m.Fabric.Message.Value*1e9)-fluid.Slack*float64(b.n))
		case program.Put:
			to := int(p.Peer)
			messages := 0.0
			if b.node(gpu) != b.node(to) {
				messages = b.m.Network.Message.Value * 1e9
			}
			took := 0.0
			if p.Bytes > 0 {
				took = max(float64(p.Time), b.send(&nkey{from: int32(gpu), to: p.Peer, limit: 1, read: readByPut(p), write: b.written(p.Update)}, p.Bytes))
			}
			// Where the one before has left in this nanosecond it goes on from there, up to one early.
			there := b.takes(at, max(0, took-1), max(took, messages)*b.unsure()+2*messages)
			b.chain = max(b.chain, there)
			way := float64(b.latency(gpu, to))
			b.post(p.Flag, p.Count, b.takes(there, way, way)-fluid.Slack*float64(b.n))
		}
	}
	b.chain = max(b.chain, at)
	return at
}

// send puts bytes on the resources of their way; they take so long alone.
func (b *bounds) send(k *nkey, bytes float64) (took float64) {
	for resource, weight := range b.cross(k) {
		b.load[resource] += weight * bytes
		took = max(took, weight*bytes/b.capacity(resource))
	}
	return took
}

// unsure is by how much an arbiter may slow what its side of a memory has no share for.
func (b *bounds) unsure() float64 {
	switch b.p.Arbiter.Policy {
	case program.RoundRobin:
		return 2
	case program.ComputeFirst:
		least, most := b.p.Arbiter.Share, b.p.Arbiter.Share
		for _, g := range b.p.GPUs {
			for _, st := range g.Streams {
				for _, c := range st.Commands {
					if c.Kernel != nil && c.Kernel.CommShare > 0 {
						least, most = min(least, c.Kernel.CommShare), max(most, c.Kernel.CommShare)
					}
				}
			}
		}
		return 1 / min(least, 1-most)
	}
	return 1
}
