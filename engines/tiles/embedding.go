package tiles

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A slicing is what the fused kernels of one embedding and its all-to-all share
// (SC'24 section III-A, rule U7). The vectors that a rank computes for one
// destination are divided into slices of size vectors. A cluster of size persistent
// workgroups computes a slice, one vector per workgroup. The workgroup that finishes
// last sends the slice and continues with the next one.
//
//	workgroup 0 |A0   |B0   |C0   |D0   |wait  |     A, B: slices for the other node
//	workgroup 1 |A1     ●|B1     ●|C1   |D1 |wait|   ●  put of a slice, then of its flag
//	NIC                  |A→     |B→
//
// The WG_Done bits of a slice are modelled as a counter that its workgroups increment,
// its sliceRdy as a flag on the destination rank.
type slicing struct {
	ranks  []int32 // in the group's order
	size   int     // vectors per slice, workgroups per cluster
	each   int     // vectors per destination
	slices int     // slices per destination
	wgs    int     // persistent workgroups of a GPU, whole clusters
	bytes  float64 // size of a vector
	aware  bool
	quiet  bool             // slices have no flags (rule U17)
	joined machine.Topology // of the ranks
	done   [][]program.Flag // by rank index and computed slice: vectors finished
	ready  [][]program.Flag // by rank index, then source·slices + slice: the slice has arrived
}

// ofEight is the part of a CU's workgroups that a fused kernel can keep
// resident: the network library's calls take registers (SC'24 sections III-C and
// IV-C: 12.5 % fewer).
const ofEight = 7

const (
	defaultSlice = 16      // SC'24 section IV-C
	mostSlices   = 1 << 16 // of all ranks, where the user chooses no size: so many are replayed in half a minute
)

// newSlicing creates the shared data of a pair's ranks, with so many resident workgroups, or returns the reason why
// it cannot. op is the lookup or its backward.
func newSlicing(pl *plan.Planner, p *plan.Pair, op *workload.Op, slots int, v plan.Values) (d *slicing, why string) {
	n := len(p.First)
	d = &slicing{
		ranks: pl.RanksOf(p.Coll), size: v.Int("slice"), each: machine.CeilDiv(op.Tiling.Tiles, n),
		aware: v["order"] == "aware", quiet: v["fence"] == "quiet",
	}
	if d.size == 0 {
		d.size = defaultSlice
		for 2*d.size <= slots && n*(n-1)*machine.CeilDiv(d.each, d.size) > mostSlices {
			d.size *= 2
		}
	}
	d.joined = pl.Joining(d.ranks)
	d.slices = machine.CeilDiv(d.each, d.size)
	d.bytes = float64(p.Coll.Bytes) / float64(op.Tiling.Tiles)
	if d.wgs = slots / d.size * d.size; d.wgs == 0 {
		return nil, fmt.Sprintf("slice=%d: a cluster of as many workgroups does not fit on the device, which holds %d", d.size, slots)
	}
	flags := func(name func(rank int32, i int) string) [][]program.Flag {
		return pl.FlagsAbout(d.ranks, n*d.slices, d.slices, 1, name)
	}
	d.done = flags(func(rank int32, _ int) string { return fmt.Sprintf("vectors of a slice finished on rank %d", rank) })
	d.ready = flags(func(rank int32, i int) string {
		return fmt.Sprintf("slice of rank %d ready on rank %d", d.ranks[i/d.slices], rank)
	})
	return d, ""
}

// resident is the number of workgroups of a fused embedding that the settings allow to be
// resident (rule U9), or the reason why there cannot be as many.
func resident(pl *plan.Planner, op *workload.Op, v plan.Values) (n int, why string) {
	full := pl.Laws().Residents(op.Footprint)
	perCU := max(1, (full*v.Int("occupancy")+50)/100)
	if most := max(1, full*ofEight/8); perCU > most {
		return 0, fmt.Sprintf("occupancy=%s: with the network library's calls at most %d of %d workgroups fit on a compute unit",
			v["occupancy"], most, full)
	}
	n = min(op.Tiling.Tiles, perCU*int(pl.Machine.GPU.CUs.Value))
	if programs := v.Int("programs"); programs > 0 {
		n = min(n, programs)
	}
	return n, ""
}

// looksUp reports whether an operation is an embedding without a measurement. Its kernel
// is then the kernel of the workload file, not a different build.
func looksUp(pl *plan.Planner, op *workload.Op) bool {
	return pl.Workload.Run.Estimated != "" && (op.Shape.Kind == workload.Embedding || op.Shape.Kind == workload.EmbeddingGrad)
}

// lookups is an embedding on persistent workgroups, one tile per vector.
func lookups(pl *plan.Planner, op *workload.Op, wgs int) plan.Grid {
	return plan.Grid{
		WGs: wgs, Tiles: op.Tiling.Tiles, Owned: -1, Footprint: op.Footprint, Time: vectorTime(pl, op, wgs),
		Read: op.Read / float64(op.Tiling.Tiles),
		Pipe: 1 / float64(max(1, machine.CeilDiv(wgs, int(pl.Machine.GPU.CUs.Value)))),
	}
}

// destination is the rank index of the i-th share: in aware order that at the first distance
// first and the own rank last, else by index.
func (d *slicing) destination(me, i int) int {
	switch n := len(d.ranks); {
	case !d.aware:
		return i
	case i == n-1:
		return me
	default:
		return (me + d.joined.Distance(i, n)) % n
	}
}

// A pooled is one of a rank's vectors. index counts within its slice; slice within its
// share, which is that of the peer; size is how many vectors the slice has.
type pooled struct {
	peer, slice, index int
	size               int
	ok                 bool
}

// pooled is the vector of a tile of the kernel; at says which is the i-th slice. In each turn
// every cluster takes the next slice, and each of its workgroups one vector. Clusters can be
// idle in the last turn, and workgroups in the last slice.
func (d *slicing) pooled(tile int, at func(i int) (peer, slice int)) pooled {
	wg, turn := tile%d.wgs, tile/d.wgs
	k := turn*(d.wgs/d.size) + wg/d.size
	if k >= len(d.ranks)*d.slices {
		return pooled{}
	}
	x := pooled{index: wg % d.size}
	x.peer, x.slice = at(k)
	x.size = d.sizeOf(x.slice)
	x.ok = x.index < x.size
	return x
}

// sizeOf is the number of vectors of a slice.
func (d *slicing) sizeOf(slice int) int { return min(d.size, d.each-slice*d.size) }

// vary is the time of one of several vectors whose mean is given (rule U10). It is the same on all
// ranks, which are equal then.
func vary(pl *plan.Planner, mean trace.Time, vector int) trace.Time {
	return trace.Time(float64(mean)*(1+pl.Machine.GPU.GatherSpread.Value*height(levelOf(vector))) + 0.5)
}

// putSlice appends the put of a slice and of its flag, if it has one, in the workgroup that finished it (rule U9).
func putSlice(pl *plan.Planner, buf []program.Phase, to int32, bytes float64, ready program.Flag) []program.Phase {
	return append(buf, plan.Pause(pl.Machine.Launch.NetworkCall.Value), plan.PutTo(to, bytes, ready))
}

// quieting are kernels that put slices without flags: of each, the workgroup that ends last waits until all puts of its
// GPU have arrived and been acknowledged (SC'24 section III-A: quiet, rule U17). Puts to one GPU arrive in
// order, so an empty one behind them tells.
func quieting(pl *plan.Planner, ranks []int32, kernel func(op *workload.Op) *program.Kernel) func(op *workload.Op) *program.Kernel {
	ended := pl.FlagOfEach(ranks, "workgroups of rank %d that have put their slices")
	arrived := pl.FlagOfEach(ranks, "GPUs at which all puts of rank %d have arrived")
	return func(op *workload.Op) *program.Kernel {
		k, me := kernel(op), slices.Index(ranks, int32(op.Rank))
		k.Epilogue = func(_ int, buf []program.Phase) []program.Phase {
			last, puts := plan.Signal(ended[me], ""), int64(0)
			last.Last = int64(k.WGs)
			buf = append(buf, last, plan.Pause(pl.Machine.Launch.NetworkCall.Value))
			for _, to := range plan.Around(len(ranks), me+1, 1) {
				if pl.Machine.Node(int(ranks[to])) != pl.Machine.Node(op.Rank) {
					buf, puts = append(buf, plan.PutTo(ranks[to], 0, arrived[me])), puts+1
				}
			}
			return append(buf, plan.Await(arrived[me], puts), plan.Pause(pl.Machine.Network.Latency.Value))
		}
		return k
	}
}

// leaveOutReorders adds to the pairs the kernels that reorder the output of an embedding's
// all-to-all: fused kernels store to the final position (rule U1).
func leaveOutReorders(pl *plan.Planner, pairs []plan.Pair) {
	for i := range pairs {
		p := &pairs[i]
		if p.Coll.Op != trace.AllToAll || pl.Workload.Ops[p.First[0]].Shape.Kind != workload.Embedding {
			continue
		}
		for _, id := range p.Second {
			if op := reorders(pl, &pl.Workload.Ops[id]); op != nil && pl.Replaced[op.ID] == 0 {
				p.Dropped[op.Rank] = append(p.Dropped[op.Rank], op.ID)
				pl.Replaced[op.ID] = p.Index + 1
			}
		}
	}
}

// acrossNodes reports whether the ranks of a pair are on several nodes, so that a rank
// cannot store into the memory of all others.
func acrossNodes(pl *plan.Planner, p *workload.Pair) bool {
	node := func(id int32) int { return pl.Machine.Node(pl.Workload.Ops[id].Rank) }
	return slices.ContainsFunc(p.First, func(id int32) bool { return node(id) != node(p.First[0]) })
}

// reorders is the elementwise kernel that reads the output of a collective, or nil.
func reorders(pl *plan.Planner, comm *workload.Op) *workload.Op {
	next := comm.ID + 1
	if int(next) >= len(pl.Workload.Ops) || pl.Workload.Ops[next].Rank != comm.Rank {
		return nil
	}
	op, c := &pl.Workload.Ops[next], &pl.Workload.Collectives[comm.Collective]
	s := op.Shape
	if op.Queue != comm.Queue || s.Kind != workload.Elementwise || s.M*s.N*int64(s.ElemSize) != c.Out {
		return nil
	}
	return op
}

// kernel is the fused kernel of a lookup or its backward. at says which is the i-th slice of the
// rank, do what it does with a vector beside the work for it.
func (d *slicing) kernel(
	pl *plan.Planner, op *workload.Op, name string, at func(i int) (peer, slice int),
	do func(x pooled, work program.Phase, buf []program.Phase) []program.Phase,
) *program.Kernel {
	g := lookups(pl, op, d.wgs)
	g.Tiles = machine.CeilDiv(len(d.ranks)*d.slices, d.wgs/d.size) * d.wgs // some are empty
	k := fusing(pl, op, g, name)
	k.Recipe = func(tile int, buf []program.Phase) []program.Phase {
		x := d.pooled(tile, at)
		if !x.ok {
			return buf
		}
		return do(x, plan.Compute(vary(pl, g.Time, tile*len(d.ranks)), g.Read, 0), buf)
	}
	return k
}

// slicedKernel computes vectors, and sends slices as they are complete. They arrive at their final position, so the
// reordering kernel is left out. Its workgroups wait for all incoming slices (SC'24 section III-A).
func (d *slicing) slicedKernel(pl *plan.Planner, op *workload.Op, p *plan.Pair) *program.Kernel {
	me := slices.Index(d.ranks, int32(op.Rank))
	order := func(i int) (to, slice int) { return d.destination(me, i/d.slices), i % d.slices }
	k := d.kernel(pl, op, fmt.Sprintf("%s + %s", op.Name, p.Coll.Op), order, func(x pooled, work program.Phase, buf []program.Phase) []program.Phase {
		work.Write = d.bytes
		done := plan.Signal(d.done[me][x.peer*d.slices+x.slice], "")
		done.Last = int64(x.size)
		ready := d.ready[x.peer][me*d.slices+x.slice]
		to, from := int(d.ranks[x.peer]), op.Rank
		near := pl.Machine.Node(to) == pl.Machine.Node(from)
		if near && to != from { // every thread stores its own result
			work.Write = 0
			buf = append(buf, work, pl.StoreTo(int32(to), d.bytes, machine.ToAll))
		}
		switch {
		case d.quiet && to == from:
			return append(buf, work)
		case d.quiet && near:
			return buf
		case d.quiet:
			ready = program.NoFlag
		case to == from:
			return append(buf, work, done, plan.Signal(ready, "slice ready"))
		case near:
			return append(buf, pl.Fence(), done, plan.Signal(ready, "flag"))
		}
		return putSlice(pl, append(buf, work, done), int32(to), float64(x.size)*d.bytes, ready)
	})
	k.Peer = func(tile int) int { return int(d.ranks[d.pooled(tile, order).peer]) }
	if d.quiet {
		return k
	}
	k.Epilogue = func(wg int, buf []program.Phase) []program.Phase {
		for i, n := wg, len(d.ready[me]); i < n; i += d.wgs { // from its own slices on, as on every rank
			buf = append(buf, plan.Await(d.ready[me][(me*d.slices+i)%n], 1))
		}
		return buf
	}
	return k
}

// vectorTime is the time of a resident workgroup for one vector: the time in the captured
// kernel, corrected for the build and the number of resident workgroups; of a kernel that nobody measured
// it follows from the machine's memory rate.
func vectorTime(pl *plan.Planner, op *workload.Op, wgs int) trace.Time {
	done := plan.Duration(pl.Machine.GPU.Post.Value + pl.Machine.GPU.Poll.Value) // set its bit and read the bits of the slice (rule U12)
	if pl.Workload.Run.Estimated != "" {                                         // of the kernel with waves
		return plan.Duration((op.Read+op.Write)/float64(op.Tiling.Tiles)*float64(wgs)/pl.Laws().Rate(op, wgs, true)) + done
	}
	slots := min(op.Tiling.Tiles, pl.Laws().Slots(op.Footprint))
	one := float64(op.DurAlone()) * float64(slots) / float64(op.Tiling.Tiles)
	return trace.Time(one*pl.Laws().TileOn(op, wgs, slots, true)+0.5) + done
}

// servesGradient reports whether a pair is an all-to-all of gradients and the backward of an
// embedding that adds them to its tables.
func servesGradient(pl *plan.Planner, p *workload.Pair) bool {
	op := &pl.Workload.Ops[p.Second[0]]
	return p.Direction == workload.CollectiveThenCompute && op.Shape.Kind == workload.EmbeddingGrad &&
		pl.Workload.Collectives[p.Collective].Op == trace.AllToAll && op.Tiling.Tiles >= len(p.First)
}

// gradientKernel sends gradients, and adds those that arrive to the tables of the rank (SC'24
// section IV-D, rule U16). The gradients are there when it starts: each persistent workgroup
// first sends its share of the slices, then adds vectors, those of the own rank first and of
// each other rank in the order in which it sends. Before a vector it waits for the flag of
// its slice.
//
//	workgroup 0 |●●|own 0|own 2|wait|from next, 0|...    ●  put of a slice, then of its flag
//	workgroup 1 |●●|own 1|own 3|wait|from next, 1|...
func (d *slicing) gradientKernel(pl *plan.Planner, op *workload.Op, p *plan.Pair) *program.Kernel {
	me, n := slices.Index(d.ranks, int32(op.Rank)), len(d.ranks)
	order := func(i int) (from, slice int) { return d.arriving(me, i) }
	k := d.kernel(pl, op, fmt.Sprintf("%s + %s", p.Coll.Op, op.Name), order, func(x pooled, work program.Phase, buf []program.Phase) []program.Phase {
		if x.peer != me {
			buf = append(buf, plan.Await(d.ready[me][x.peer*d.slices+x.slice], 1))
		}
		work.Write = op.Write / float64(op.Tiling.Tiles)
		return append(buf, work)
	})
	k.Prologue = func(wg int, buf []program.Phase) []program.Phase {
		for i := wg; i < n*d.slices; i += d.wgs {
			peer, slice := d.destination(me, i/d.slices), i%d.slices
			if peer == me {
				continue
			}
			to, bytes, ready := d.ranks[peer], float64(d.sizeOf(slice))*d.bytes, d.ready[peer][me*d.slices+slice]
			if pl.Machine.Node(int(to)) != pl.Machine.Node(op.Rank) {
				buf = putSlice(pl, buf, to, bytes, ready)
				continue
			}
			buf = append(buf, pl.StoreTo(to, bytes, machine.ToAll), pl.Fence(), plan.Signal(ready, "flag"))
		}
		return buf
	}
	return k
}

// arriving is the i-th slice that a rank adds: in aware order its own, then the first of every
// other rank, then the second of every other, as all of them send at a time; else by rank.
func (d *slicing) arriving(me, i int) (from, slice int) {
	n := len(d.ranks)
	switch {
	case !d.aware:
		return i / d.slices, i % d.slices
	case i < d.slices:
		return me, i
	}
	i -= d.slices
	return (me + n - d.joined.Distance(i%(n-1), n)) % n, i / (n - 1)
}
