package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
)

func (n *naive) launch(a *nactor, c *program.Command) {
	k := &nkernel{k: c.Kernel, gpu: a.gpu, order: n.orders, prio: a.st.Priority, fresh: true, stream: a}
	k.asked = k.k.Tiles
	if k.k.Owned >= 0 {
		k.asked = min(k.k.Owned*k.k.WGs, k.k.Tiles)
	}
	n.orders++
	g := n.gpus[a.gpu]
	if k.k.WGs == 0 {
		g.commShare = cmp.Or(k.k.CommShare, g.commShare)
		n.write("kernel", a.gpu, a.index, k.k.Name, n.now)
		n.queue = append(n.queue, a)
		return
	}
	g.line = append(g.line, k)
	slices.SortStableFunc(g.line, func(a, b *nkernel) int { return cmp.Compare(b.prio, a.prio) })
}

func (n *naive) dispatch() bool {
	for _, g := range n.gpus {
		held := map[*ncu]program.CUResources{}
		for i, k := range g.line {
			if i > 0 && g.line[i-1].prio > k.prio {
				n.hold(g, g.line[:i], held)
			}
			n.place(g, k)
		}
		g.line = slices.DeleteFunc(g.line, func(k *nkernel) bool { return k.placed == k.k.WGs })
		for _, c := range g.cus {
			c.freed, c.left = 0, false
		}
		for c, free := range held { // who was kept off looks at it again
			c.free, c.left = free, true
		}
	}
	return len(n.queue) > 0
}

// hold keeps a CU for each workgroup that kernels of higher priority have left, where one would fit
// without workgroups of lower priority.
func (n *naive) hold(g *ngpu, waiting []*nkernel, held map[*ncu]program.CUResources) {
	for c, free := range held {
		c.free = free
	}
	clear(held)
	for _, k := range waiting {
		need := n.need(&k.k.Footprint)
		for range k.k.WGs - k.placed {
			var best *ncu
			for _, c := range g.cus {
				empty := c.free
				for _, wg := range c.wgs {
					if wg.kernel.prio < k.prio {
						empty = empty.Plus(n.need(&wg.kernel.k.Footprint))
					}
				}
				if _, is := held[c]; !is && empty.Holds(need) && (best == nil || len(c.wgs) < len(best.wgs)) {
					best = c
				}
			}
			if best != nil {
				held[best], best.free = best.free, program.CUResources{}
			}
		}
	}
}

func (n *naive) place(g *ngpu, k *nkernel) {
	if k.k.Free {
		for k.placed < k.k.WGs {
			n.start(g, k, nil, none)
		}
		return
	}
	need := n.need(&k.k.Footprint)
	if !k.fresh && !n.clusters(k) {
		for again := true; again; {
			again = false
			for i, c := range g.cus {
				if c.freed > 0 && k.placed < k.k.WGs && c.free.Holds(need) {
					c.freed--
					n.start(g, k, c, i)
					again = true
				}
			}
		}
	}
	fresh := k.fresh
	k.fresh = false
	for n.clusters(k) {
		if !n.startCluster(g, k, need, fresh) {
			return
		}
	}
	for k.placed < k.k.WGs {
		best := -1
		for i, c := range g.cus {
			if c.free.Holds(need) && (best < 0 || len(c.wgs) < len(g.cus[best].wgs)) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		n.start(g, k, g.cus[best], best)
	}
}

// clusters reports whether more clusters are to be placed.
func (n *naive) clusters(k *nkernel) bool {
	return k.k.Cluster > 1 && n.m.GPU.Groups.Known() && k.placed < k.k.WGs
}

// startCluster tries the groups, first that of the emptiest and lowest CU; a
// kernel that waits only those that something has left in this instant, or that
// were held from it (rule D10).
func (n *naive) startCluster(g *ngpu, k *nkernel, need program.CUResources, fresh bool) bool {
	group := n.m.GPU.Grouping()
	var order []int
	for i := range g.cus {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(g.cus[a].wgs) - len(g.cus[b].wgs) })
	for _, first := range order {
		fits, left := 0, fresh
		for i, c := range g.cus {
			if group[i] == group[first] {
				left = left || c.left
				for room := c.free; room.Holds(need); fits++ {
					room = room.Minus(need)
				}
			}
		}
		if !left || fits < k.k.Cluster || !g.cus[first].free.Holds(need) {
			continue
		}
		for range k.k.Cluster {
			at := -1
			for i, c := range g.cus {
				if group[i] == group[first] && c.free.Holds(need) && (at < 0 || len(c.wgs) < len(g.cus[at].wgs)) {
					at = i
				}
			}
			g.cus[at].freed = max(0, g.cus[at].freed-1)
			n.start(g, k, g.cus[at], at)
		}
		return true
	}
	return false
}

// dealt is the number of the i-th workgroup to start: clusters of a persistent
// kernel that fit at once are numbered group by group.
func (n *naive) dealt(k *program.Kernel, i int) int {
	if k.Cluster <= 1 || k.Tiles == 0 || k.Free || !n.m.GPU.Groups.Known() {
		return i
	}
	left := map[int]int{}
	groups := 0
	for _, g := range n.m.GPU.Grouping() {
		left[g]++
		groups = max(groups, g+1)
	}
	var turns []int
	for round := 0; round < len(n.gpus[0].cus); round++ {
		for g := range groups {
			if left[g] >= (round+1)*k.Cluster && len(turns) < k.WGs/k.Cluster {
				turns = append(turns, g)
			}
		}
	}
	if len(turns) < k.WGs/k.Cluster {
		return i
	}
	mine, number := turns[i/k.Cluster], 0
	for at, g := range turns {
		if g < mine || g == mine && at < i/k.Cluster {
			number++
		}
	}
	return number*k.Cluster + i%k.Cluster
}

func (n *naive) start(g *ngpu, k *nkernel, c *ncu, at int) {
	w := &nactor{kind: dueWorkgroup, gpu: k.gpu, kernel: k, cu: c, cuAt: at, wg: n.dealt(k.k, k.placed), at: -1, to: none, lastEnd: -1}
	if !k.begun {
		k.begun, k.start = true, n.now
		g.commShare = cmp.Or(k.k.CommShare, g.commShare)
	}
	k.placed++
	if c != nil {
		c.free = c.free.Minus(n.need(&k.k.Footprint))
		old := 0
		for _, x := range c.wgs {
			old += map[bool]int{false: 1, true: -1}[x.young]
		}
		w.young = k.k.Lag > 0 && old > 0
		c.wgs = append(c.wgs, w)
	}
	n.actors = append(n.actors, w)
	n.queue = append(n.queue, w)
}

func (n *naive) workgroup(w *nactor) {
	k := w.kernel
	if w.in {
		w.in = false
		p := w.phases[w.phase]
		if p.Op == program.Store {
			if way := n.latency(w.gpu, int(p.Peer)); w.to == none || way > w.seen {
				w.seen, w.to = way, int(p.Peer)
			}
		}
		w.phase++
	}
	for {
		for w.phase < len(w.phases) {
			if w.in = n.enter(w, &w.phases[w.phase]); w.in {
				return
			}
			w.phase++
		}
		if w.stage > 0 && w.tile >= 0 && len(w.phases) > 0 && w.cu != nil {
			n.log = append(n.log, fmt.Sprintf("tile %d of %s gpu %d cu %d: %d-%d", w.tile, k.k.Name, w.gpu, w.cuAt, w.begun, n.now))
		}
		w.phase, w.seen, w.to, w.begun, w.phases, w.tile = 0, 0, none, n.now, nil, -1
		if w.stage == 0 {
			w.stage = 1
			if k.k.Prologue != nil && k.k.Tiles > 0 {
				w.phases = k.k.Prologue(w.wg, nil)
				continue
			}
		}
		if w.stage == 1 {
			if w.tile = n.tile(w); w.tile >= 0 {
				w.phases = k.k.Phases(w.tile, nil)
				continue
			}
			w.stage = 2
			if k.k.Epilogue != nil && k.k.Tiles > 0 {
				w.phases = k.k.Epilogue(w.wg, nil)
				continue
			}
		}
		break
	}
	n.actors = slices.DeleteFunc(n.actors, func(a *nactor) bool { return a == w })
	if w.cu != nil {
		w.cu.free = w.cu.free.Plus(n.need(&k.k.Footprint))
		w.cu.wgs = slices.DeleteFunc(w.cu.wgs, func(a *nactor) bool { return a == w })
		w.cu.freed++
		w.cu.left = true
	}
	if k.gone++; k.gone == k.k.WGs {
		n.write("kernel", k.gpu, k.stream.index, k.k.Name, k.start)
		n.queue = append(n.queue, k.stream)
	}
}

// tile is the workgroup's next, or -1.
func (n *naive) tile(w *nactor) int {
	k := w.kernel.k
	round := w.rounds
	w.rounds++
	if k.Tiles == 0 {
		return []int{w.wg, -1}[min(round, 1)]
	}
	tile := w.wg + round*k.WGs
	if k.Owned >= 0 && round >= k.Owned {
		tile = w.kernel.asked
		w.kernel.asked++
	}
	if tile >= k.Tiles {
		return -1
	}
	return tile
}

// enter reports whether the phase takes time.
func (n *naive) enter(w *nactor, p *program.Phase) bool {
	switch p.Op {
	case program.WaitFor:
		if p.Flag != program.NoFlag && n.flags[p.Flag] < p.Count {
			n.waiters = append(n.waiters, nwait{w, p.Flag, p.Count})
			return true
		}
	case program.PostTo:
		delay := p.Time
		if delay == 0 && p.Last == 0 {
			delay = w.seen
			if w.to == int(program.Everyone) || w.to != none && w.to != w.gpu && n.node(w.to) == n.node(w.gpu) {
				start := max(n.now, n.flagged[w.gpu])
				delay += start - n.now
				n.flagged[w.gpu] = start + nanoseconds(n.m.Fabric.Message.Value)
			}
		}
		n.postLater(delay, p.Flag, p.Count, w.kernel.k, w.gpu)
		if p.Last > 0 && n.flags[p.Flag] != p.Last {
			w.phase = len(w.phases) - 1
		}
	case program.Put:
		ch := n.actors[len(n.streams)+w.gpu*len(n.gpus)+int(p.Peer)]
		ch.puts = append(ch.puts, *p)
		ch.from = append(ch.from, w.kernel.k)
		n.charge(w.kernel.k.Name, w.gpu, int(p.Peer), p.Bytes, p.Bytes*readByPut(p))
		if p.DMA {
			n.ledger.add(w.gpu, dma, w.kernel.k.Name, p.Bytes)
		}
		if len(ch.puts) == 1 {
			n.putNext(ch)
		}
	case program.Sleep:
		if p.Time > 0 {
			w.at = n.now + p.Time
			return true
		}
	default:
		if p.Time > 0 || sizeOf(p) > 0 {
			n.chargePhase(w, p)
			// Its key is known once the instant has settled.
			w.flow = &nflow{left: math.NaN()}
			return true
		}
	}
	return false
}

// need is what a workgroup takes of a CU: registers are counted a thread, and
// shared memory comes with what the system takes of it for itself.
func (n *naive) need(f *program.Footprint) program.CUResources {
	if f.Exclusive {
		return n.empty()
	}
	return program.CUResources{
		Threads: int64(f.Threads), Registers: int64(f.Threads * f.Registers),
		Shared: int64(f.Shared + int(n.m.GPU.SharedSpare.Value)), WGs: 1,
	}
}

// empty is all of a CU.
func (n *naive) empty() program.CUResources {
	all := func(q machine.Quantity) int64 {
		if q.Value == 0 {
			return math.MaxInt64 / 4
		}
		return int64(q.Value)
	}
	g := &n.m.GPU
	return program.CUResources{Threads: all(g.Threads), Registers: all(g.Registers), Shared: all(g.Shared), WGs: all(g.WGs)}
}
