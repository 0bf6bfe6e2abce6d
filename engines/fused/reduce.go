package fused

import (
	"fmt"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/names"
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
type reduction struct {
	ranks  []int32          // in the group's order
	tiles  int              // shared by wgs: column w is w, w+wgs, ...
	shift  int              // column of workgroup 0 on a rank less that on the rank before
	wgs    int              // per GPU
	bytes  float64          // partial result of a tile
	aware  bool             // tiles of peers first, own last
	spread bool             // the order of peers differs by workgroup, which uses all links of a mesh at once
	once   bool             // one fence before the flags of all peers, not one before each
	all    bool             // all-reduce: owners store their sums to all peers
	landed [][]program.Flag // by rank index and workgroup (flag): number of peers whose partial results have arrived
	summed [][]program.Flag // likewise: number of owners whose sums have arrived
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
		return false, fmt.Sprintf("%s before the %s has no known tiles, or fewer than ranks", names.Short(compute.Name), op)
	}
	why = pl.NotByTile(p)
	return why == "", why
}

// newReduction creates the shared data of a pair's ranks; g is the same on all of them.
func newReduction(pl *plan.Planner, p *plan.Pair, g plan.Grid, aware, once bool) *reduction {
	d := &reduction{
		ranks: pl.RanksOf(p.Coll), tiles: g.Tiles, wgs: g.WGs, bytes: float64(p.Coll.Bytes) / float64(g.Tiles),
		aware: aware, once: once, spread: pl.Machine.Fabric.Topology == machine.Mesh, all: p.Coll.Op == trace.AllReduce,
	}
	if n := len(d.ranks); d.tiles%n == 0 && d.tiles%d.wgs == 0 {
		d.shift = d.tiles / n
	}
	d.landed = pl.FlagsOf(d.ranks, d.wgs, func(rank int32, w int) string {
		return fmt.Sprintf("partial results for workgroup %d on rank %d", d.column(plan.Place(d.ranks, int(rank)), w), rank)
	})
	if d.all {
		d.summed = pl.FlagsOf(d.ranks, d.wgs, func(rank int32, w int) string {
			return fmt.Sprintf("sums for workgroup %d on rank %d", d.column(plan.Place(d.ranks, int(rank)), w), rank)
		})
	}
	return d
}

// owner is the index of the rank that sums a tile: contiguous shares in index order.
func (d *reduction) owner(tile int) int { return tile * len(d.ranks) / d.tiles }

// column is the index of the first tile of a rank's workgroup, in index order.
func (d *reduction) column(place, wg int) int { return (wg%d.wgs + place*d.shift) % d.wgs }

// flag is that of the rank's workgroup with a column.
func (d *reduction) flag(flags [][]program.Flag, place, column int) program.Flag {
	return flags[place][((column-place*d.shift)%d.wgs+d.wgs)%d.wgs]
}

// tilesOf is the number of tiles of a workgroup.
func (d *reduction) tilesOf(wg int) int { return plan.CeilDiv(d.tiles-wg, d.wgs) }

// tile is the i-th tile of a workgroup on a rank: in aware order those of the next rank
// first and the rank's own last.
func (d *reduction) tile(me, wg, i int) int {
	if !d.aware {
		return wg + i*d.wgs
	}
	n := len(d.ranks)
	for step := range n {
		to := (me + 1 + step) % n
		if d.spread && step < n-1 {
			to = (me + 1 + (step+wg)%(n-1)) % n
		}
		first, next := d.firstTileFor(wg, to), d.firstTileFor(wg, to+1)
		if i < next-first {
			return wg + (first+i)*d.wgs
		}
		i -= next - first
	}
	return d.tiles
}

// firstTileFor is the index, in the workgroup's index order, of its first tile owned by
// the given rank or a later one.
func (d *reduction) firstTileFor(wg, place int) int {
	return max(0, plan.CeilDiv(plan.CeilDiv(place*d.tiles, len(d.ranks))-wg, d.wgs))
}

// owners counts the tiles of a workgroup by owner.
func (d *reduction) owners(wg int) []int {
	n := make([]int, len(d.ranks))
	for t := wg; t < d.tiles; t += d.wgs {
		n[d.owner(t)]++
	}
	return n
}

// reducingKernel computes tiles, stores those of peers into their memory, and
// sums its own.
func reducingKernel(pl *plan.Planner, op *workload.Op, p *plan.Pair, d *reduction, g plan.Grid) *program.Kernel {
	me := plan.Place(d.ranks, op.Rank)
	pattern := machine.ToOne
	switch {
	case d.aware && d.spread:
		pattern = machine.ToAll
	case d.aware:
		pattern = machine.ToNext
	}
	store := pl.StoreTo(int32(op.Rank), d.bytes, pattern)
	shares := uneven(pl.Machine.Fabric.StoreUneven.Value)
	k := pl.FusedKernel(op, g, fmt.Sprintf("%s + %s", op.Name, p.Coll.Op))
	column := func(wg int) int { return d.column(me, wg) }
	k.Peer = func(t int) int { return int(d.ranks[d.owner(d.tile(me, column(t), t/d.wgs))]) }
	k.Recipe = func(t int, buf []program.Phase) []program.Phase {
		wg, turn := column(t), t/d.wgs
		to := d.owner(d.tile(me, wg, turn))
		work := program.Phase{Op: program.Work, Time: g.Time, Read: g.Read}
		if to == me {
			work.Write = d.bytes
			return append(buf, work)
		}
		out := store
		out.Peer, out.Weight = d.ranks[to], shares[levelOf(t)]
		buf = append(buf, work, out)
		if d.once {
			return d.flagAll(pl, me, wg, turn, buf)
		}
		if turn+1 == d.tilesOf(wg) || d.owner(d.tile(me, wg, turn+1)) != to { // last one for this peer
			buf = append(buf, pl.Fence(), program.Phase{Op: program.PostTo, Flag: d.flag(d.landed, to, wg), Count: 1, Mark: "flag"})
		}
		return buf
	}
	k.Epilogue = func(wg int, buf []program.Phase) []program.Phase { return sum(pl, d, me, column(wg), buf) }
	return k
}

// flagAll posts a workgroup's flags for all peers behind one fence when it has stored its last
// tile for a peer.
func (d *reduction) flagAll(pl *plan.Planner, me, wg, turn int, buf []program.Phase) []program.Phase {
	n := d.owners(wg)
	for later := turn + 1; later < d.tilesOf(wg); later++ {
		if d.owner(d.tile(me, wg, later)) != me {
			return buf
		}
	}
	buf = append(buf, pl.Fence())
	for i := 1; i < len(d.ranks); i++ {
		if to := (me + i) % len(d.ranks); n[to] > 0 {
			buf = append(buf, program.Phase{Op: program.PostTo, Flag: d.flag(d.landed, to, wg), Count: 1, Mark: "flag"})
		}
	}
	return buf
}

// sum is the work of a workgroup after its last tile: it adds the partial results of its
// own tiles and, in an all-reduce, exchanges sums with its peers.
func sum(pl *plan.Planner, d *reduction, me, wg int, buf []program.Phase) []program.Phase {
	n, tiles := len(d.ranks), d.owners(wg)
	bytes := float64(tiles[me]) * d.bytes
	if tiles[me] > 0 {
		read := bytes * float64(n)
		buf = append(buf,
			program.Phase{Op: program.WaitFor, Flag: d.flag(d.landed, me, wg), Count: int64(n - 1)},
			program.Phase{Op: program.Work, Time: pl.Laws().Stream(read+bytes, d.wgs), Read: read, Write: bytes, Mark: "sum"})
	}
	if !d.all {
		return buf
	}
	owners := 0 // peers that sum tiles of this workgroup
	for i := 1; i < n; i++ {
		to := (me + i) % n
		if tiles[to] > 0 {
			owners++
		}
		if tiles[me] > 0 {
			buf = append(buf, pl.StoreTo(d.ranks[to], bytes, machine.ToAll))
		}
	}
	for i := 1; i < n && tiles[me] > 0; i++ {
		if i == 1 || !d.once {
			buf = append(buf, pl.Fence())
		}
		buf = append(buf, program.Phase{Op: program.PostTo, Flag: d.flag(d.summed, (me+i)%n, wg), Count: 1})
	}
	return append(buf, program.Phase{Op: program.WaitFor, Flag: d.flag(d.summed, me, wg), Count: int64(owners)})
}
