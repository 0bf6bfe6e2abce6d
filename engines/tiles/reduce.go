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

// A reduction is the data that the fused kernels of one pair share: a compute operation
// whose partial results are summed by the owners of tiles (SC'24 section III-B,
// rule U5).
//
//	workgroup w, rank 0   |tile of 1|tile of 2|tile of 3|own tile|wait|sum|store to 1, 2, 3|wait|
//	               stores   to 1 ↗   to 2 ↗    to 3 ↗
//
// A column of tiles is computed by one workgroup of every GPU, so that one waits only for those of
// its peers. Where columns are as many for each owner, GPUs begin with those of an owner that is as
// far from them, and do the same. Buffers and flags alternate between launches, so no reset is needed.
//
// Between nodes a rank's counterpart in every other node collects the partial results of that node for it, adds them
// and puts the sum; so it passes on, within its node, the sums that the rank puts to it (rule U18). The shares of tiles
// of other nodes come first. Two nodes of two:
//
//	workgroup w, rank 0   |tile of 3|tile of 2|wait|sum of 2 |tile of 1|own|wait|sum|store to 1|wait|store 2's to 1|wait|
//	               stores   to 1 ↗                            to 1 ↗
//	               puts                              to 2 ↗                          to 2 ↗
type reduction struct {
	ranks  []int32          // in the group's order
	nodes  plan.Cluster     // theirs, as the first sees them; see from
	owners plan.Cut         // the tiles, shared by wgs (column w is w, w+wgs, ...), by the rank that sums them
	shift  int              // column of workgroup 0 on a rank less that on the rank before
	wgs    int              // per GPU
	bytes  float64          // partial result of a tile
	aware  bool             // tiles of peers first, own last
	spread bool             // the order of peers differs by workgroup, which uses all links of a mesh at once
	once   bool             // one fence before the flags of all peers, not one before each
	all    bool             // all-reduce: owners store their sums to all peers
	landed [][]program.Flag // by rank index, then distance of the owner's node and workgroup (flag): parts that have arrived
	summed [][]program.Flag // by rank index and workgroup: number of owners whose sums a GPU of the node has stored
	passed [][]program.Flag // as landed: whether the sums of the counterpart so many nodes further have arrived
}

// reduces reports whether a pair can be fused with its reduction; why is the reason if the
// operation matches but something is missing.
func reduces(pl *plan.Planner, p *workload.Pair) (ok bool, why string) {
	op, compute := pl.Workload.Collectives[p.Collective].Op, &pl.Workload.Ops[p.First[0]]
	switch {
	case op != trace.AllReduce && op != trace.ReduceScatter:
		return false, ""
	case len(p.First) < 2:
		return false, fmt.Sprintf("the %s has one rank", op)
	case compute.Tiling.Tiles < len(p.First):
		return false, fmt.Sprintf("%s before the %s has no known tiles, or fewer than ranks (give its shape)",
			trace.Short(compute.Name), op)
	}
	if _, ok := pl.Cluster(pl.RanksOf(&pl.Workload.Collectives[p.Collective]), 0); !ok {
		return false, noCounterparts(op)
	}
	why = notByTile(pl, p)
	return why == "", why
}

// newReduction creates the shared data of a pair's ranks.
func newReduction(pl *plan.Planner, p *plan.Pair, v plan.Values) *reduction {
	op := &pl.Workload.Ops[p.First[0]] // the grid is the same on all ranks
	g := pl.WithPrograms(op, pl.TilesOf(op), v.Int("programs"))
	d := &reduction{
		ranks: pl.RanksOf(p.Coll), wgs: g.WGs, bytes: float64(p.Coll.Bytes) / float64(g.Tiles),
		aware: v["order"] == "aware", once: v["fence"] == "phase", spread: pl.Machine.Fabric.Topology == machine.Mesh,
		all: p.Coll.Op == trace.AllReduce,
	}
	d.nodes, _ = pl.Cluster(d.ranks, 0)
	d.owners = plan.Cut{N: g.Tiles, Parts: len(d.ranks)}
	if g.Tiles%len(d.ranks) == 0 && g.Tiles%d.wgs == 0 {
		d.shift = g.Tiles / len(d.ranks)
	}
	flags := func(nodes int, what string) [][]program.Flag {
		return pl.FlagsAbout(d.ranks, nodes*d.wgs, 0, 1, func(rank int32, i int) string {
			return fmt.Sprintf("%s for workgroup %d on rank %d", what, d.column(slices.Index(d.ranks, rank), i%d.wgs), rank)
		})
	}
	collected := d.nodes.Nodes
	if d.nodes.Per == 1 { // by the owner alone
		collected = 1
	}
	d.landed = flags(collected, "partial results")
	if d.all {
		d.summed = flags(1, "sums")
	}
	if d.nodes.Nodes > 1 {
		pl.NeverRun("sums that are put to another node were never run on hardware")
	}
	if d.nodes.Nodes > 1 && d.all {
		d.passed = flags(d.nodes.Nodes, "sums of another node")
	}
	return d
}

// from are the nodes as a rank sees them.
func (d *reduction) from(me int) plan.Cluster {
	c := d.nodes
	c.Node, c.Local = me/c.Per, me%c.Per
	return c
}

// collector is the rank of a rank's node that adds the node's partial results for an owner, and the distance of the
// owner's node.
func (d *reduction) collector(c plan.Cluster, owner int) (place, distance int) {
	return c.Node*c.Per + owner%c.Per, (owner/c.Per - c.Node + c.Nodes) % c.Nodes
}

// column is the index of the first tile of a rank's workgroup, in index order.
func (d *reduction) column(place, wg int) int { return (wg%d.wgs + place*d.shift) % d.wgs }

// flag is that of the rank's workgroup with a column, for a node so far from the rank's.
func (d *reduction) flag(flags [][]program.Flag, place, distance, column int) program.Flag {
	return flags[place][distance*d.wgs+((column-place*d.shift)%d.wgs+d.wgs)%d.wgs]
}

// before is the number of tiles of a column whose owners come before a place.
func (d *reduction) before(column, place int) int {
	return max(0, machine.CeilDiv(d.owners.From(place)-column, d.wgs))
}

// owned is the number of tiles of a column that a rank owns.
func (d *reduction) owned(column, place int) int {
	return d.before(column, place+1) - d.before(column, place)
}

// turns are the owners of a column's tiles in the order in which a rank computes them: in aware order those of the next
// node first, of each node those of the next rank first and of the rank and its counterparts last.
func (d *reduction) turns(me, column int) (owners []int) {
	places, others := plan.Around(len(d.ranks), 0, 1), d.nodes.Per-1
	if d.aware {
		places = order(d.from(me), false)
	}
	for step, to := range places {
		if i := step % d.nodes.Per; d.aware && d.spread && i < others {
			to = places[step-i+(i+column)%others]
		}
		owners = append(owners, slices.Repeat([]int{to}, d.owned(column, to))...)
	}
	return owners
}

// due are the owners for whom a workgroup sets a flag behind a tile that it has stored to a peer: it was the last for
// that owner or, with one fence for all, for any of the owner's node.
func (d *reduction) due(c plan.Cluster, turns []int, turn int) (owners []int) {
	owner, rest := turns[turn], turns[turn+1:]
	if i := slices.IndexFunc(rest, func(other int) bool { return other/c.Per != owner/c.Per }); i >= 0 {
		rest = rest[:i]
	}
	switch {
	case d.once && slices.ContainsFunc(rest, func(other int) bool { return other%c.Per != c.Local }):
		return nil
	case d.once:
		_, distance := d.collector(c, owner)
		for i := 1; i < c.Per; i++ {
			if to := c.At(distance, i); slices.Contains(turns, to) {
				owners = append(owners, to)
			}
		}
		return owners
	case len(rest) > 0 && rest[0] == owner:
		return nil
	}
	return turns[turn : turn+1]
}

// signal appends the posts of a workgroup's flags at some peers, each behind a fence or, once, all behind one.
func (d *reduction) signal(pl *plan.Planner, flags []program.Flag, mark string, buf []program.Phase) []program.Phase {
	for i, f := range flags {
		if i == 0 || !d.once {
			buf = append(buf, pl.Fence())
		}
		buf = append(buf, plan.Signal(f, mark))
	}
	return buf
}

// kernel computes tiles, stores those of peers into their memory, and sums its own. It ends when the stores of its peers have arrived.
func (d *reduction) kernel(pl *plan.Planner, op *workload.Op, p *plan.Pair) *program.Kernel {
	me := slices.Index(d.ranks, int32(op.Rank))
	c, g := d.from(me), pl.TilesOf(op)
	g = pl.WithPrograms(op, g, d.wgs)
	stores := storesOf(pl, d.bytes, d.aware)
	k := fusing(pl, op, g, fmt.Sprintf("%s + %s", op.Name, p.Coll.Op))
	turns := make([][]int, d.wgs) // by workgroup
	for wg := range turns {
		turns[wg] = d.turns(me, d.column(me, wg))
	}
	k.Peer = func(t int) int { return int(d.ranks[turns[t%d.wgs][t/d.wgs]]) }
	k.Recipe = func(t int, buf []program.Phase) []program.Phase {
		own, turn, column := turns[t%d.wgs], t/d.wgs, d.column(me, t)
		owner := own[turn]
		to, _ := d.collector(c, owner)
		switch {
		case owner == me:
			return append(buf, plan.Compute(g.Time, g.Read, d.bytes))
		case to == me:
			last := !slices.Contains(own[turn+1:], owner)
			return d.toNode(pl, c, column, owner, last, append(buf, plan.Compute(g.Time, g.Read, d.bytes)))
		}
		buf = append(buf, plan.Compute(g.Time, g.Read, 0), stores.of(d.ranks[to], t))
		var flags []program.Flag
		for _, owner := range d.due(c, own, turn) {
			at, distance := d.collector(c, owner)
			flags = append(flags, d.flag(d.landed, at, distance, column))
		}
		return d.signal(pl, flags, "flag", buf)
	}
	k.Epilogue = func(wg int, buf []program.Phase) []program.Phase { return d.sum(pl, c, d.column(me, wg), buf) }
	return k
}

// toNode appends what follows a tile that a rank has computed for its counterpart in another node. Where it has the
// node for itself, the tile is put; else, behind the last one, the sum of the node's partial results.
func (d *reduction) toNode(pl *plan.Planner, c plan.Cluster, column, owner int, last bool, buf []program.Phase) []program.Phase {
	arrived := d.flag(d.landed, owner, 0, column)
	if c.Per == 1 {
		return putSlice(pl, buf, d.ranks[owner], d.bytes, arrived)
	}
	if !last {
		return buf
	}
	me, distance := d.collector(c, owner)
	buf = d.add(pl, d.flag(d.landed, me, distance, column), d.owned(column, owner), c.Per-1, c.Per, buf)
	return putSlice(pl, buf, d.ranks[owner], float64(d.owned(column, owner))*d.bytes, arrived)
}

// add appends the sum of so many parts of tiles, once a flag has reached a count.
func (d *reduction) add(pl *plan.Planner, arrived program.Flag, tiles, count, parts int, buf []program.Phase) []program.Phase {
	bytes := float64(tiles) * d.bytes
	read := bytes * float64(parts)
	sum := plan.Compute(pl.Laws().Stream(read+bytes, d.wgs), read, bytes)
	sum.Mark = "sum"
	return append(buf, plan.Await(arrived, int64(count)), sum)
}

// sum is the work of a workgroup after its last tile: it adds the partial results of its
// own tiles and, in an all-reduce, exchanges sums with its peers.
func (d *reduction) sum(pl *plan.Planner, c plan.Cluster, column int, buf []program.Phase) []program.Phase {
	me := c.At(0, 0)
	own := d.owned(column, me)
	if own > 0 {
		puts := c.Nodes - 1
		if c.Per == 1 { // of each tile
			puts *= own
		}
		buf = d.add(pl, d.flag(d.landed, me, 0, column), own, c.Per-1+puts, c.Per+c.Nodes-1, buf)
	}
	if !d.all {
		return buf
	}
	if own > 0 {
		for e := 1; e < c.Nodes; e++ {
			buf = putSlice(pl, buf, d.ranks[c.At(c.Nodes-e, 0)], float64(own)*d.bytes, d.flag(d.passed, c.At(c.Nodes-e, 0), e, column))
		}
		buf = d.share(pl, c, column, own, 0, buf)
	}
	for e := 1; e < c.Nodes; e++ {
		if tiles := d.owned(column, c.At(e, 0)); tiles > 0 {
			buf = append(buf, plan.Await(d.flag(d.passed, me, e, column), 1))
			buf = d.share(pl, c, column, tiles, float64(tiles)*d.bytes, buf)
		}
	}
	owners := 0
	for owner := range d.ranks {
		if to, _ := d.collector(c, owner); to != me {
			owners += min(1, d.owned(column, owner))
		}
	}
	return append(buf, plan.Await(d.flag(d.summed, me, 0, column), int64(owners)))
}

// share appends the stores of the sums of an owner's tiles to the other ranks of the node. read is what has to be read for that.
func (d *reduction) share(pl *plan.Planner, c plan.Cluster, column, tiles int, read float64, buf []program.Phase) []program.Phase {
	var flags []program.Flag
	for i := 1; i < c.Per; i++ {
		store := pl.StoreTo(d.ranks[c.At(0, i)], float64(tiles)*d.bytes, machine.ToAll)
		store.Read, read = read, 0 // once for all
		buf = append(buf, store)
		flags = append(flags, d.flag(d.summed, c.At(0, i), 0, column))
	}
	return d.signal(pl, flags, "", buf)
}
