package engines

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// transfers plans the copies and signals of all pairs of the one-sided strategies.
type transfers struct {
	pl       *planner
	impl     string // as the user has it; see implOf
	swizzle  string // never auto
	chunks   bool   // a launch a shard
	kernel   bool   // a communication kernel moves the data, not copy engines
	after    bool   // and is launched after the product
	blocks   int    // workgroups of the communication kernel
	reserve  int    // CUs that the product leaves free
	rows     int    // of a piece
	numa     int
	reducers int            // workgroups that add beside a product between nodes; 0: as few as keep up
	relays   map[int]*relay // by index of pair
	boards   map[int]*board // by index of pair
}

func newTransfers(pl *planner, v Values) *transfers {
	t := &transfers{
		pl: pl, impl: v["impl"], swizzle: v["swizzle"], chunks: v["product"] == "chunks",
		kernel: v["mover"] == "kernel", after: v["first"] == "product",
		blocks: v.Int("blocks"), reserve: v.Int("reserve"), rows: v.Int("rows"), numa: max(1, v.Int("numa")),
		reducers: v.Int("reducers"), relays: map[int]*relay{}, boards: map[int]*board{},
	}
	if t.swizzle == "auto" {
		t.swizzle = "switch"
		if pl.m.Fabric.Topology == machine.Mesh {
			t.swizzle = "mesh"
		}
	}
	if t.blocks == 0 {
		f := pl.m.Fabric
		t.blocks = max(1, int(f.Egress.Value/f.StoreCU.Or(f.Egress.Value)+0.999))
	}
	return t
}

// contradiction says which settings cannot go together; "" where all can.
func (t *transfers) contradiction() string {
	switch {
	case t.kernel && t.impl != "auto" && t.impl != "push":
		return "a communication kernel stores: mover=kernel is for impl=push, not " + t.impl
	case t.chunks && (t.kernel || t.impl != "auto" && t.impl != "pull"):
		return "product=chunks is for copy engines that read: impl=pull"
	case t.reserve >= int(t.pl.m.GPU.CUs.Value):
		return fmt.Sprintf("reserve=%d leaves the product none of %.0f compute units", t.reserve, t.pl.m.GPU.CUs.Value)
	}
	return ""
}

// implOf is how a pair's data move (MECHANISM A2, A5, S1, S2).
func (t *transfers) implOf(p *pair) string {
	gather, top := p.Direction == workload.CollectiveThenCompute, t.pl.m.Fabric.Topology
	switch {
	case t.impl != "auto":
		return t.impl
	case t.kernel:
		return "push"
	case t.chunks:
		return "pull"
	case top == machine.Ring && gather && p.coll.Op == trace.AllGather:
		return "ring"
	case top == machine.Mesh && !gather:
		return "store"
	case top == machine.Switch && gather:
		return "pull"
	}
	return "push"
}

// A board is what the ranks of one pair share.
type board struct {
	impl     string
	ranks    []int32         // in the group's order
	cuts     int             // pieces in which a shard travels
	there    replay.Flag     // ranks whose buffers hold what peers may read
	over     replay.Flag     // ranks whose transfers are over
	free     []replay.Flag   // by rank: its buffer may be written
	sent     []replay.Flag   // by rank: copies that it has finished
	arrived  [][]replay.Flag // by destination, source: pieces that have arrived, times posts
	done     [][]replay.Flag // by source, destination·cuts + piece: tiles of a scatter that are computed
	meetings []replay.Flag   // barriers of the pipelines that launch a product a shard
	across   bool            // the ranks are of several nodes
	posts    int             // by which a piece's arrival counts: one, or one a workgroup that stores
}

func (t *transfers) board(p *pair) *board {
	if b, ok := t.boards[p.index]; ok {
		return b
	}
	pl := t.pl
	b := &board{
		impl: t.implOf(p), ranks: pl.destinations(p), cuts: 1, posts: 1,
		there: pl.p.NewFlag("all ranks at the barrier"), over: pl.p.NewFlag("all ranks at the barrier behind the transfers"),
	}
	n := len(b.ranks)
	compute := &pl.w.Ops[p.First[0]]
	if p.Direction == workload.CollectiveThenCompute {
		compute = &pl.w.Ops[p.Second[0]]
	}
	if t.swizzle == "mesh" && !t.chunks {
		b.cuts = max(1, int(compute.Shape.M)/(n*t.rows))
	}
	if t.kernel {
		b.posts = t.blocks
	}
	if c, _ := t.pl.cluster(b.ranks, 0); c.nodes > 1 {
		b.impl, b.cuts, b.posts, b.across = "push", 1, max(1, t.forwards(c)), true
	}
	for i := range n {
		b.free = append(b.free, pl.p.NewFlag(fmt.Sprintf("rank %d's buffer free", b.ranks[i])))
		b.sent = append(b.sent, pl.p.NewFlag(fmt.Sprintf("copies of rank %d finished", b.ranks[i])))
		b.arrived, b.done = append(b.arrived, nil), append(b.done, nil)
		for j := range n {
			b.arrived[i] = append(b.arrived[i], pl.p.NewFlag(fmt.Sprintf("shard of rank %d on rank %d", b.ranks[j], b.ranks[i])))
			for c := range b.cuts {
				b.done[i] = append(b.done[i], pl.p.NewFlag(fmt.Sprintf("rank %d's piece %d for rank %d computed", b.ranks[i], c, b.ranks[j])))
			}
		}
	}
	t.boards[p.index] = b
	return b
}

// place is a rank's position in the group.
func (b *board) place(r *rank) int { return max(0, slices.Index(b.ranks, int32(r.id))) }

// A unit is one piece of one shard, in the order in which a product computes them.
type unit struct{ shard, piece int }

// arrival lists the shards in the order in which they should reach a rank, its
// own first (MECHANISM A2): read from the next rank first, or written by the
// rank before first. A ring cut into parts brings the own part's first, then of
// each other part what entered through the rank's counterpart there.
func (t *transfers) arrival(b *board, me int) []int {
	n := len(b.ranks)
	var order []int
	for i := range n {
		switch {
		case b.impl == "ring":
			g := n / t.numa
			part, step := i/g, i%g
			order = append(order, ((me/g-part+t.numa)%t.numa)*g+(me%g-step+g)%g)
		case b.impl == "push" && t.swizzle != "mesh":
			order = append(order, (me-i+n)%n)
		default:
			order = append(order, (me+i)%n)
		}
	}
	return order
}

// units lists the pieces of all shards in the order in which a product takes
// them. Where shards travel in pieces, the first pieces of all ranks come before
// the second ones.
func (t *transfers) units(b *board, me int, gather bool) []unit {
	n := len(b.ranks)
	var shards []int
	switch {
	case t.swizzle == "index":
		for i := range n {
			shards = append(shards, i)
		}
	case b.across:
		c, _ := t.pl.cluster(b.ranks, me)
		shards = c.order(gather)
	case gather:
		shards = t.arrival(b, me)
	default:
		for i := range n {
			shards = append(shards, (me+1+i)%n)
		}
	}
	if t.swizzle == "reverse" {
		slices.Reverse(shards)
	}
	var units []unit
	for piece := range b.cuts {
		for _, s := range shards {
			units = append(units, unit{s, piece})
		}
	}
	return units
}

// lane is the stream of the copies to or from the i-th peer: one for all, or, with
// the swizzle for a mesh, one each.
func (t *transfers) lane(r *rank, compute, comm *workload.Op, i int) *stream {
	if t.swizzle != "mesh" || i == 1 {
		return r.commStream(compute, comm)
	}
	return r.stream(-1000 - int64(i))
}

// issue makes a stream wait for the host to have enqueued one more command.
func (t *transfers) issue(r *rank, s *stream, name string) {
	if !t.pl.graph {
		s.wait(r.issued, r.issue(t.pl.m.Launch.Host.Value, name), "host")
	}
}

// signalBytes is what a copy moves that only sets a signal.
const signalBytes = 4

// move copies one piece between this rank and another, and signals. The signal is
// the write of a value behind the copy; on a mesh a small copy, because the
// driver's writes disturb the product (MECHANISM A5).
func (t *transfers) move(r *rank, s *stream, comm *workload.Op, from, to int32, bytes float64, done ...replay.Flag) {
	t.issue(r, s, "copy")
	copyOf := func(name string, bytes float64) replay.Command {
		return replay.Command{
			Op: replay.Start, Name: comm.Name, Origin: comm.ID,
			Copy: &replay.Copy{Name: fmt.Sprintf("%s %d→%d", name, from, to), From: from, Peer: to, Bytes: bytes},
		}
	}
	s.launch(0, copyOf("copy", bytes))
	switch {
	case from == to || t.chunks:
	case t.swizzle == "mesh":
		t.issue(r, s, "signal")
		s.launch(0, copyOf("signal", signalBytes))
	case int(to) != r.id: // into another GPU's memory
		s.delay(duration(t.pl.m.Fabric.Latency.Value), replay.LaunchGap, "signal")
	}
	for _, f := range done {
		s.post(f, 1)
	}
}

// barrier makes a stream wait until those of all n ranks have come to it.
func (r *rank) barrier(s *stream, all replay.Flag, n int) {
	s.post(all, 1)
	s.wait(all, int64(n), "barrier")
	s.delay(duration(r.pl.m.Launch.Barrier.Value), replay.PeerSkew, "barrier")
}

// sweepGrain is the bytes that a workgroup of a memory-bound kernel handles at
// least: 512 threads of 16 bytes.
const sweepGrain = 8 << 10

// sweepFootprint is that of kernels that only move data.
var sweepFootprint = replay.Footprint{Threads: 512, Registers: 32}

// sweep is a kernel that does nothing but read and write memory.
func (pl *planner) sweep(name string, read, write float64) *replay.Kernel {
	return pl.sweepOn(name, pl.sweepers(read, write), read, write, 0)
}

// sweepers is how many workgroups such a kernel has.
func (pl *planner) sweepers(read, write float64) int {
	slots := min(4, pl.residents(sweepFootprint)) * int(pl.m.GPU.CUs.Value) // all resident: some wait for each other
	return min(slots, max(1, int(max(read, write)/sweepGrain)))
}

// sweepOn is such a kernel with so many workgroups, that takes at least so many seconds.
func (pl *planner) sweepOn(name string, wgs int, read, write, least float64) *replay.Kernel {
	time := max(pl.m.Launch.Graph.Value, least)
	if rate := pl.m.GPU.StreamAt(wgs); rate > 0 {
		time = max(time, (read+write)/rate)
	}
	n := float64(wgs)
	return &replay.Kernel{
		Name: name, Kind: trace.Compute, WGs: wgs, Footprint: sweepFootprint, Pipe: 1 / float64(max(1, ceilDiv(wgs, int(pl.m.GPU.CUs.Value)))),
		Recipe: func(_ int, buf []replay.Phase) []replay.Phase {
			return append(buf, replay.Phase{Op: replay.Work, Time: duration(time), Read: read / n, Write: write / n})
		},
		Attr: trace.Kernel{Comm: trace.None, Op: trace.None, Origin: trace.None, Block: [3]int32{512, 1, 1}},
	}
}
