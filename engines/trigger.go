package engines

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// trigger is a product whose stores are counted in memory, where the last one
// starts the transfer of what they completed (T3 section 4, MECHANISM section 7).
//
//	stage      1          2          3          4 (own)
//	product |stores →   |writes    |writes    |writes    |
//	arrives |           |stores    |DMA 2     |DMA 3     |
//	DMA     |           |     2 →  |     3 →  |          |  N-2 rounds
var trigger = Engine{
	Name:    "trigger",
	From:    "T3",
	Summary: "stores counted in memory start DMA transfers of a ring beside the product",
	Detail: "A product and the reduce-scatter behind it, which is also the first half of an all-reduce. The output is computed in " +
		"as many stages as there are ranks, each rank one chunk ahead of the next, so that what arrives in a stage is the chunk " +
		"being computed. The first stage's stores go straight into the neighbour's memory. In the others a tracker counts the " +
		"rank's own stores and those that arrive; when both are complete, a transfer that was queued beforehand reads the " +
		"sum and sends it on, without a compute unit. The last chunk stays. algorithm=direct stores each chunk to its owner " +
		"instead, and serves all-to-alls too. Stores update memory in place (nmc=on); without that (nmc=off) both partial results " +
		"are read for each transfer and a kernel adds the last. The second half of an all-reduce is the library's all-gather, afterwards.",
	Params: []Param{
		{Name: "algorithm", Default: "ring", Choices: []string{"ring", "direct"}, Doc: "pass chunks on around a ring, or store each to its owner"},
		{Name: "nmc", Default: "on", Choices: []string{"on", "off"}, Doc: "memory adds what is stored to it"},
		{Name: "arbitration", Default: "rr", Choices: []string{"rr", "mca"}, Doc: "of contended memory: transfers as much as compute in turn, or compute first"},
	},
	Inside: true,
	Future: true,
	plan:   planTrigger,
}

func planTrigger(pl *planner, v Values) (emitter, error) {
	if pl.m.Fabric.Egress.Value <= 0 {
		return nil, &NotApplicable{"trigger", "machine " + pl.m.Name + " has no links between GPUs"}
	}
	why := "no kernel followed by a reduce-scatter or an all-reduce was found"
	pl.take(func(p *workload.Pair) bool {
		ok, no := pl.triggers(p, v["algorithm"] == "direct")
		if no != "" {
			why = no
		}
		return ok
	})
	if len(pl.pairs) == 0 {
		return nil, &NotApplicable{"trigger", why}
	}
	t := tracker{pl: pl, direct: v["algorithm"] == "direct", nmc: v["nmc"] == "on", computeFirst: v["arbitration"] == "mca", rings: map[int]*ring{}}
	return t.emit, nil
}

// triggers reports whether a pair is one for the engine; why says what is
// missing where the operation is the right one.
func (pl *planner) triggers(p *workload.Pair, direct bool) (ok bool, why string) {
	if p.Direction != workload.ComputeThenCollective || p.Collective < 0 || len(p.First) < 2 {
		return false, ""
	}
	switch op := pl.w.Collectives[p.Collective].Op; {
	case op == trace.ReduceScatter || op == trace.AllReduce:
	case op == trace.AllToAll && direct:
	case op == trace.AllToAll:
		return false, "an all-to-all has nothing to pass around a ring (algorithm=direct)"
	default:
		return false, ""
	}
	for k := range p.First {
		first, second := &pl.w.Ops[p.First[k]], &pl.w.Ops[p.Second[k]]
		if first.Tiling.Tiles < len(p.First) {
			return false, fmt.Sprintf("%s has no known tiles, or fewer than ranks", first.Name)
		}
		if name := pl.between(first, second); name != "" {
			return false, fmt.Sprintf("%s reads the whole output before it is sent", name)
		}
	}
	return true, ""
}

// between names the first kernel or copy, other than a fill, that lies between
// two operations on the stream of either.
func (pl *planner) between(a, b *workload.Op) string {
	for id := a.ID + 1; id < b.ID; id++ {
		op := &pl.w.Ops[id]
		if (op.Queue == a.Queue || op.Queue == b.Queue) && op.Collective < 0 && !pl.isFill(op) {
			return op.Name
		}
	}
	return ""
}

// storeQueue is the lane of stores on their way, which no stream of a program shows.
const storeQueue = -2000

// tracker plans the pairs of one program.
type tracker struct {
	pl                        *planner
	direct, nmc, computeFirst bool
	rings                     map[int]*ring // by index of pair
}

// A ring is what the ranks of one pair share. Stages count from 0: in stage s
// rank i computes chunk i+1+s and sends it to rank i-1; the last is its own.
type ring struct {
	ranks    []int32
	tiles    int                  // of the product
	remote   int                  // of them the first ones, which are stored to other ranks
	left     []replay.Flag        // by rank: remote tiles computed
	blocks   int                  // of a chunk, each tracked by itself
	counters [][]replay.Flag      // by rank, stage·blocks + block: stores and transfers seen
	gathered *workload.Collective // second half of an all-reduce
}

// mostBlocks is into how many parts a chunk's transfer is cut at most; the
// tracker itself counts single tiles of wavefronts.
const mostBlocks = 32

func (t *tracker) ring(p *pair) *ring {
	if g, ok := t.rings[p.index]; ok {
		return g
	}
	pl := t.pl
	first := &pl.w.Ops[p.First[0]]
	n := len(p.First)
	g := &ring{ranks: pl.destinations(p)}
	shape := pl.gridOf(first, first.Dur())
	g.tiles = max(shape.tiles, shape.wgs)
	g.blocks = min(mostBlocks, max(1, g.tiles/n))
	_, g.remote = g.stage(0)
	if t.direct {
		g.blocks = 1
		_, g.remote = g.stage(n - 2)
	}
	for i := range n {
		g.left = append(g.left, pl.p.NewFlag(fmt.Sprintf("tiles for other ranks computed on rank %d", g.ranks[i])))
		g.counters = append(g.counters, nil)
		for s := range n {
			for b := range g.blocks {
				g.counters[i] = append(g.counters[i], pl.p.NewFlag(fmt.Sprintf("stage %d block %d on rank %d complete", s+1, b, g.ranks[i])))
			}
		}
	}
	if p.coll.Op == trace.AllReduce {
		g.gathered = gatherOf(p.coll)
	}
	t.rings[p.index] = g
	return g
}

// of is the stage and the block of the i-th tile.
func (g *ring) of(i int) (stage, block int) {
	n := len(g.ranks)
	stage = i * n / g.tiles
	from, to := g.stage(stage)
	return stage, (i - from) * g.blocks / (to - from)
}

// stage is the tiles of a stage.
func (g *ring) stage(s int) (from, to int) {
	n := len(g.ranks)
	return ceilDiv(s*g.tiles, n), ceilDiv((s+1)*g.tiles, n)
}

// size is how many tiles make up a block.
func (g *ring) size(stage, block int) int64 {
	from, to := g.stage(stage)
	n := to - from
	return int64(ceilDiv((block+1)*n, g.blocks) - ceilDiv(block*n, g.blocks))
}

// complete is the count at which a block of a stage holds the rank's own and the
// neighbour's part: stored tile by tile in the first stage, one transfer after it.
func (g *ring) complete(stage, block int) int64 {
	own := g.size(stage, block)
	if stage == 1 {
		return own + g.size(0, block)
	}
	return own + 1
}

func (g *ring) counter(rank, stage, block int) replay.Flag {
	return g.counters[rank][stage*g.blocks+block]
}

// emit writes a pair on one rank.
func (t *tracker) emit(r *rank, p *pair) {
	compute, comm := r.ops(p)
	g := t.ring(p)
	me := slices.Index(g.ranks, int32(r.id))
	s, c, l := r.stream(compute.Queue), r.commStream(compute, comm), t.pl.m.Launch

	r.enter(p)
	gap := r.ready(s, compute, slices.Concat(r.before(p, compute), comm.After), r.within(p)...)
	begun := t.pl.p.NewFlag(compute.Name + " launched")
	gap = r.fills(p, s, gap)
	s.post(begun, 1)
	s.launch(gap, launchOf(compute, t.product(compute, p, g, me)))

	q := r.stream(storeQueue)
	q.Name = "stores"
	q.wait(begun, 1, compute.Name)
	q.launch(0, replay.Command{Op: replay.Launch, Name: comm.Name, Origin: comm.ID, Kernel: t.stores(p, g, me)})
	c.wait(r.issued, r.issue(l.Host.Value, "transfers"), "host")
	c.wait(begun, 1, compute.Name)
	c.launch(0, replay.Command{Op: replay.Launch, Name: comm.Name, Origin: comm.ID, Kernel: t.transfers(p, g, me)})
	chunk := float64(p.coll.Bytes) / float64(len(g.ranks))
	if !t.nmc && p.coll.Op != trace.AllToAll {
		parts := 2.0
		if t.direct {
			parts = float64(len(g.ranks))
		}
		c.wait(r.issued, r.issue(l.Host.Value, "sum"), "host")
		c.launch(duration(l.Gap.Value), replay.Command{Op: replay.Launch, Name: "sum of the last chunk", Origin: comm.ID, Kernel: t.pl.sweep("sum of the last chunk", parts*chunk, chunk)})
	}
	if g.gathered != nil {
		c.wait(r.issued, r.issue(l.HostCollective.Value, "all_gather"), "host")
		c.launch(duration(l.Gap.Value), launchOf(comm, t.pl.collective(comm, t.secondHalf(p, g))))
	}
	for _, op := range r.within(p) {
		if op != comm {
			r.finished(s, op)
		}
	}
	r.finished(c, comm)
	r.leave(p)
}

// secondHalf is the all-gather that completes an all-reduce.
func (t *tracker) secondHalf(p *pair, g *ring) part {
	_, gather := t.pl.halves(p.coll)
	return part{coll: g.gathered, index: whole, of: 1, channels: t.pl.channels(p.coll), alone: gather, beside: 1}
}

// product is the kernel whose stores are tracked. Tiles for other ranks never
// reach the memory here.
func (t *tracker) product(op *workload.Op, p *pair, g *ring, me int) *replay.Kernel {
	shape := t.pl.gridOf(op, op.Dur())
	k := t.pl.kernelOf(op, shape)
	favor := 1.0
	if !t.computeFirst { // all workgroups together weigh as much as one transfer
		favor = 1 / float64(max(1, k.WGs))
	}
	k.Recipe = func(i int, buf []replay.Phase) []replay.Phase {
		work := replay.Phase{Op: replay.Work, Time: shape.time, Read: shape.read, Favor: favor}
		post := replay.Phase{Op: replay.PostTo, Flag: g.left[me], Count: 1}
		if i >= g.remote {
			work.Write = g.bytes(p, i)
			stage, block := g.of(i)
			post.Flag = g.counter(me, stage, block)
		}
		return append(buf, work, post)
	}
	return k
}

// bytes is the output of the i-th tile.
func (g *ring) bytes(p *pair, i int) float64 {
	stage, _ := g.of(i)
	from, to := g.stage(stage)
	return float64(p.coll.Bytes) / float64(len(g.ranks)*(to-from))
}

// stores is the tiles on their way to other ranks. A workgroup does not wait for
// its stores: they are in the write queues when it leaves, and hold no slot.
func (t *tracker) stores(p *pair, g *ring, me int) *replay.Kernel {
	n := len(g.ranks)
	rate := t.pl.m.Fabric.StoreCU.Or(t.pl.m.Fabric.Egress.Value)
	return &replay.Kernel{
		Name: "tracked stores", Kind: trace.Collective, Free: true, WGs: g.remote,
		Attr: trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None},
		Recipe: func(i int, buf []replay.Phase) []replay.Phase {
			stage, block := g.of(i)
			dest, at := (me+n-1)%n, 1
			if t.direct {
				dest, at = (me+1+stage)%n, n-1
			}
			bytes := g.bytes(p, i)
			return append(buf,
				replay.Phase{Op: replay.WaitFor, Flag: g.left[me], Count: int64(i + 1)},
				replay.Phase{Op: replay.Store, Peer: g.ranks[dest], Bytes: bytes, Time: duration(bytes / rate)},
				replay.Phase{Op: replay.PostTo, Flag: g.counter(dest, at, block), Count: 1})
		},
	}
}

// transfers is the DMA commands that were queued beforehand, each behind its
// counter, and the end of the last chunk. It holds no slot.
func (t *tracker) transfers(p *pair, g *ring, me int) *replay.Kernel {
	n := len(g.ranks)
	next := (me + n - 1) % n
	bytes := float64(p.coll.Bytes) / float64(n*g.blocks)
	rate := t.pl.m.Engines.Rate.Or(t.pl.m.Fabric.Egress.Value)
	rounds := n - 2
	if t.direct {
		rounds = 0
	}
	last := n - 1
	k := &replay.Kernel{
		Name: fmt.Sprintf("%s by triggered transfers", p.coll.Op), Kind: trace.Collective, Free: true,
		WGs:  (rounds + 1) * g.blocks,
		Attr: trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None},
	}
	k.Recipe = func(wg int, buf []replay.Phase) []replay.Phase {
		stage, block := 1+wg/g.blocks, wg%g.blocks
		if wg >= rounds*g.blocks {
			stage = last
		}
		count := g.complete(stage, block)
		if t.direct {
			count = int64(g.tiles)
		}
		buf = append(buf, replay.Phase{Op: replay.WaitFor, Flag: g.counter(me, stage, block), Count: count})
		if stage == last {
			return buf
		}
		if !t.nmc {
			buf = append(buf, replay.Phase{Op: replay.Work, Read: bytes})
		}
		return append(buf, replay.Phase{
			Op: replay.Put, Peer: g.ranks[next], Bytes: bytes, Time: duration(bytes / rate),
			Flag: g.counter(next, stage+1, block), Count: 1,
		})
	}
	return k
}
