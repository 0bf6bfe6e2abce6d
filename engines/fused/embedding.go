package fused

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
// (SC'24 section III-A, rules U7 and U8). The vectors that a rank computes for one
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
	done   [][]program.Flag // by rank index and computed slice: vectors finished
	ready  [][]program.Flag // by rank index, then source·slices + slice: the slice has arrived
}

// ofEight is the part of a CU's workgroups that a fused kernel can keep
// resident: the network library's calls take registers (SC'24 sections III-C and
// IV-C: 12.5 % fewer).
const ofEight = 7

// newSlicing creates the shared data of a pair's ranks.
func newSlicing(pl *plan.Planner, p *plan.Pair, v plan.Values) (*slicing, error) {
	op := &pl.Workload.Ops[p.First[0]]
	n := len(p.First)
	if v.Int("slice") < 1 {
		return nil, fmt.Errorf("fused: slice: %s: a slice has at least one vector", v["slice"])
	}
	d := &slicing{ranks: pl.Destinations(p), size: v.Int("slice"), each: plan.CeilDiv(op.Tiling.Tiles, n), aware: v["order"] == "aware"}
	d.slices = plan.CeilDiv(d.each, d.size)
	d.bytes = float64(p.Coll.Bytes) / float64(op.Tiling.Tiles)
	slots, err := resident(pl, op, v)
	if err != nil {
		return nil, err
	}
	if d.wgs = slots / d.size * d.size; d.wgs == 0 {
		return nil, &plan.NotApplicable{Strategy: "fused", Why: fmt.Sprintf("slice=%d: a cluster of as many workgroups does not fit on the device, which holds %d", d.size, slots)}
	}
	for i, id := range d.ranks {
		d.done, d.ready = append(d.done, nil), append(d.ready, nil)
		for range n * d.slices {
			d.done[i] = append(d.done[i], pl.Program.NewFlag(fmt.Sprintf("vectors of a slice finished on rank %d", id)))
		}
		for _, from := range d.ranks {
			for range d.slices {
				d.ready[i] = append(d.ready[i], pl.Program.NewFlag(fmt.Sprintf("slice of rank %d ready on rank %d", from, id)))
			}
		}
	}
	return d, nil
}

// resident is the number of workgroups of a fused embedding that the settings allow to be
// resident (rule U9).
func resident(pl *plan.Planner, op *workload.Op, v plan.Values) (int, error) {
	full := pl.Residents(op.Footprint)
	perCU := max(1, (full*v.Int("occupancy")+50)/100)
	if most := max(1, full*ofEight/8); perCU > most {
		return 0, &plan.NotApplicable{Strategy: "fused", Why: fmt.Sprintf("occupancy=%s: with the network library's calls at most %d of %d workgroups fit on a compute unit", v["occupancy"], most, full)}
	}
	slots := min(op.Tiling.Tiles, perCU*int(pl.Machine.GPU.CUs.Value))
	if programs := v.Int("programs"); programs > 0 {
		slots = min(slots, programs)
	}
	return slots, nil
}

// looksUp reports whether an operation is an embedding without a measurement. Its kernel
// is then the kernel of the workload file, not a different build.
func looksUp(pl *plan.Planner, op *workload.Op) bool {
	return pl.Workload.Run.Estimated != "" && op.Shape.Kind == workload.Embedding
}

// lookups is an embedding on persistent workgroups, one tile per vector.
func lookups(pl *plan.Planner, op *workload.Op, wgs int) plan.Grid {
	return plan.Grid{
		WGs: wgs, Tiles: op.Tiling.Tiles, Owned: -1, Footprint: op.Footprint, Time: vectorTime(pl, op, wgs), Read: op.Read / float64(op.Tiling.Tiles),
		Pipe: 1 / float64(max(1, plan.CeilDiv(wgs, int(pl.Machine.GPU.CUs.Value)))),
	}
}

// destination is the rank index of the i-th share: in aware order the next rank first
// and the own rank last, else by index.
func (d *slicing) destination(me, i int) int {
	if d.aware {
		return (me + 1 + i) % len(d.ranks)
	}
	return i
}

// A pooled is one of a rank's output vectors. index counts within its slice; slice
// within its destination; last says how many vectors the slice has.
type pooled struct {
	to, slice, index int
	size             int
	ok               bool
}

// pooled is the vector that a tile of the kernel computes. In each turn every cluster
// takes the next slice, and each of its workgroups one vector. Clusters can be idle in
// the last turn, and workgroups in the last slice.
func (d *slicing) pooled(me, tile int) pooled {
	wg, turn := tile%d.wgs, tile/d.wgs
	k := turn*(d.wgs/d.size) + wg/d.size
	if k >= len(d.ranks)*d.slices {
		return pooled{}
	}
	x := pooled{to: d.destination(me, k/d.slices), slice: k % d.slices, index: wg % d.size}
	x.size = min(d.size, d.each-x.slice*d.size)
	x.ok = x.index < x.size
	return x
}

// tiles is the number of tiles; some are empty.
func (d *slicing) tiles() int {
	return plan.CeilDiv(len(d.ranks)*d.slices, d.wgs/d.size) * d.wgs
}

// fuseSlices writes a pair as one kernel. Slices arrive at their final position, so the
// reordering kernel is left out. No barrier follows, because the workgroups wait for all
// incoming slices.
func fuseSlices(r *plan.Rank, p *plan.Pair, d *slicing) {
	compute, comm := r.Ops(p)
	s := r.Stream(compute.Queue)
	r.BeginPair(p)
	gap := r.WaitUntilReady(s, compute, slices.Concat(r.Dependencies(p, compute), comm.After), r.ReplacedOps(p)...)
	s.Launch(gap, plan.LaunchOf(compute, slicedKernel(r.Planner, compute, p, d)))
	for _, op := range r.ReplacedOps(p) {
		r.Written(s, op)
	}
	r.EndPair(p)
}

// leaveOutReorders adds to the pairs the kernels that reorder the output of an embedding's
// all-to-all: fused kernels store to the final position (rule U15).
func leaveOutReorders(pl *plan.Planner, pairs []plan.Pair) {
	for i := range pairs {
		p := &pairs[i]
		if p.Coll.Op != trace.AllToAll || pl.Workload.Ops[p.First[0]].Shape.Kind != workload.Embedding {
			continue
		}
		for _, id := range p.Second {
			if op := reorders(pl, &pl.Workload.Ops[id]); op != nil && !pl.Replaced[op.ID] {
				p.Dropped[op.Rank] = append(p.Dropped[op.Rank], op.ID)
				pl.Replaced[op.ID] = true
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

// storeTo is a workgroup's store of its result into a peer's memory.
func storeTo(pl *plan.Planner, peer int32, bytes float64) program.Phase {
	f := &pl.Machine.Fabric
	return program.Phase{
		Op: program.Store, Peer: peer, Bytes: bytes * f.StoreCost(machine.ToAll),
		Time: plan.Duration(bytes / f.StoreCU.Or(f.Egress.Value)),
	}
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

// slicedKernel computes vectors, and sends slices as they are complete.
func slicedKernel(pl *plan.Planner, op *workload.Op, p *plan.Pair, d *slicing) *program.Kernel {
	me := slices.Index(d.ranks, int32(op.Rank))
	g := lookups(pl, op, d.wgs)
	g.Tiles = d.tiles()
	k := pl.KernelOf(op, g)
	k.Name = fmt.Sprintf("%s + %s", op.Name, p.Coll.Op)
	k.Attr.Grid = [3]int32{int32(d.wgs), 1, 1}
	k.Peer = func(tile int) int { return int(d.ranks[d.pooled(me, tile).to]) }
	work := program.Phase{Op: program.Work, Time: g.Time, Read: g.Read, Write: d.bytes}
	k.Recipe = func(tile int, buf []program.Phase) []program.Phase {
		x := d.pooled(me, tile)
		if !x.ok {
			return buf
		}
		done := program.Phase{Op: program.PostTo, Flag: d.done[me][x.to*d.slices+x.slice], Count: 1, Last: int64(x.size)}
		ready := d.ready[x.to][me*d.slices+x.slice]
		to, from := int(d.ranks[x.to]), op.Rank
		work := work
		// rule U11
		work.Time = trace.Time(float64(work.Time)*(1+pl.Machine.GPU.GatherSpread.Value*height(levelOf(tile*len(d.ranks)+me))) + 0.5)
		switch {
		case to == from:
			return append(buf, work, done, program.Phase{Op: program.PostTo, Flag: ready, Count: 1, Mark: "slice ready"})
		case pl.Machine.Node(to) == pl.Machine.Node(from): // within a node every thread stores its own result
			store := storeTo(pl, int32(to), d.bytes)
			stay := work
			stay.Write = 0
			return append(buf, stay, store, pl.Fence(), done, program.Phase{
				Op: program.PostTo, Flag: ready, Count: 1, Mark: "flag",
			})
		}
		return append(buf, work, done,
			program.Phase{Op: program.Sleep, Time: plan.Duration(pl.Machine.Launch.NetworkCall.Value)}, // rule U13
			program.Phase{Op: program.Put, Peer: int32(to), Bytes: float64(x.size) * d.bytes, Flag: ready, Count: 1, Mark: "put"})
	}
	k.Epilogue = func(wg int, buf []program.Phase) []program.Phase {
		for i := wg; i < len(d.ready[me]); i += d.wgs {
			buf = append(buf, program.Phase{Op: program.WaitFor, Flag: d.ready[me][i], Count: 1})
		}
		return buf
	}
	return k
}

// vectorTime is the time of a resident workgroup for one vector: the time in the captured
// kernel, corrected for the number of resident workgroups. Without a measurement of the
// kernel, it follows from the machine's memory rate.
func vectorTime(pl *plan.Planner, op *workload.Op, wgs int) trace.Time {
	done := plan.Duration(pl.Machine.GPU.Post.Value + pl.Machine.GPU.Poll.Value) // set its bit and read the bits of the slice (rule U12)
	threads := op.Footprint.Threads
	rate := pl.Machine.GPU.LookupAt(wgs, threads, true)
	if pl.Workload.Run.Estimated != "" {
		bytes := (op.Read + op.Write) / float64(op.Tiling.Tiles)
		return plan.Duration(bytes*float64(wgs)/rate) + done
	}
	slots := min(op.Tiling.Tiles, int(pl.Machine.GPU.CUs.Value)*pl.Residents(op.Footprint))
	one := float64(op.DurAlone()) * float64(slots) / float64(op.Tiling.Tiles)
	return trace.Time(one*float64(wgs)/float64(slots)*pl.Machine.GPU.LookupAt(slots, threads, false)/rate+0.5) + done
}
