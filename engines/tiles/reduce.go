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
type reduction struct {
	ranks  []int32          // in the group's order
	owners plan.Cut         // the tiles, shared by wgs (column w is w, w+wgs, ...), by the rank that sums them
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
		return false, fmt.Sprintf("%s before the %s has no known tiles, or fewer than ranks", trace.Short(compute.Name), op)
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
	d.owners = plan.Cut{N: g.Tiles, Parts: len(d.ranks)}
	if g.Tiles%len(d.ranks) == 0 && g.Tiles%d.wgs == 0 {
		d.shift = g.Tiles / len(d.ranks)
	}
	flags := func(what string) [][]program.Flag {
		return pl.FlagsAbout(d.ranks, d.wgs, 0, 1, func(rank int32, w int) string {
			return fmt.Sprintf("%s for workgroup %d on rank %d", what, d.column(slices.Index(d.ranks, rank), w), rank)
		})
	}
	if d.landed = flags("partial results"); d.all {
		d.summed = flags("sums")
	}
	return d
}

// column is the index of the first tile of a rank's workgroup, in index order.
func (d *reduction) column(place, wg int) int { return (wg%d.wgs + place*d.shift) % d.wgs }

// flag is that of the rank's workgroup with a column.
func (d *reduction) flag(flags [][]program.Flag, place, column int) program.Flag {
	return flags[place][((column-place*d.shift)%d.wgs+d.wgs)%d.wgs]
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
// rank first and the rank's own last.
func (d *reduction) turns(me, column int) (owners []int) {
	n := len(d.ranks)
	order := plan.Around(n, 0, 1)
	if d.aware {
		order = append(d.peers(me), me)
	}
	for step, to := range order {
		if d.aware && d.spread && step < n-1 {
			to = order[(step+column)%(n-1)]
		}
		owners = append(owners, slices.Repeat([]int{to}, d.owned(column, to))...)
	}
	return owners
}

// due are the peers whose flag a workgroup sets behind a tile that it has stored to one: it was the last for that peer
// or, with one fence for all, for any.
func (d *reduction) due(me int, turns []int, turn int) []int {
	rest := turns[turn+1:]
	switch {
	case d.once && slices.ContainsFunc(rest, func(to int) bool { return to != me }):
		return nil
	case d.once:
		return slices.DeleteFunc(d.peers(me), func(to int) bool { return !slices.Contains(turns, to) })
	case len(rest) > 0 && rest[0] == turns[turn]:
		return nil
	}
	return turns[turn : turn+1]
}

// peers are the other ranks, the next one first.
func (d *reduction) peers(me int) []int {
	n := len(d.ranks) - 1
	return plan.Around(n+1, me+1, 1)[:n:n]
}

// signal appends a workgroup's flags at some peers, each behind a fence or, once, all behind one.
func (d *reduction) signal(pl *plan.Planner, flags [][]program.Flag, column int, peers []int, mark string,
	buf []program.Phase,
) []program.Phase {
	for i, to := range peers {
		if i == 0 || !d.once {
			buf = append(buf, pl.Fence())
		}
		buf = append(buf, plan.Signal(d.flag(flags, to, column), mark))
	}
	return buf
}

// kernel computes tiles, stores those of peers into their memory, and sums its own. It ends when the stores of its peers have arrived.
func (d *reduction) kernel(pl *plan.Planner, op *workload.Op, p *plan.Pair) *program.Kernel {
	me := slices.Index(d.ranks, int32(op.Rank))
	g := pl.TilesOf(op)
	g = pl.WithPrograms(op, g, d.wgs)
	stores := storesOf(pl, d.bytes, d.aware)
	k := fusing(pl, op, g, fmt.Sprintf("%s + %s", op.Name, p.Coll.Op))
	turns := make([][]int, d.wgs) // by workgroup
	for wg := range turns {
		turns[wg] = d.turns(me, d.column(me, wg))
	}
	k.Peer = func(t int) int { return int(d.ranks[turns[t%d.wgs][t/d.wgs]]) }
	k.Recipe = func(t int, buf []program.Phase) []program.Phase {
		own, turn := turns[t%d.wgs], t/d.wgs
		if own[turn] == me {
			return append(buf, plan.Compute(g.Time, g.Read, d.bytes))
		}
		buf = append(buf, plan.Compute(g.Time, g.Read, 0), stores.of(d.ranks[own[turn]], t))
		return d.signal(pl, d.landed, d.column(me, t), d.due(me, own, turn), "flag", buf)
	}
	k.Epilogue = func(wg int, buf []program.Phase) []program.Phase { return d.sum(pl, me, d.column(me, wg), buf) }
	return k
}

// sum is the work of a workgroup after its last tile: it adds the partial results of its
// own tiles and, in an all-reduce, exchanges sums with its peers.
func (d *reduction) sum(pl *plan.Planner, me, column int, buf []program.Phase) []program.Phase {
	n, own := len(d.ranks), d.owned(column, me)
	bytes := float64(own) * d.bytes
	if own > 0 {
		read := bytes * float64(n)
		add := plan.Compute(pl.Laws().Stream(read+bytes, d.wgs), read, bytes)
		add.Mark = "sum"
		buf = append(buf, plan.Await(d.flag(d.landed, me, column), int64(n-1)), add)
	}
	if !d.all {
		return buf
	}
	owners, peers := 0, d.peers(me)
	for _, to := range peers {
		owners += min(1, d.owned(column, to))
		if own > 0 {
			buf = append(buf, pl.StoreTo(d.ranks[to], bytes, machine.ToAll))
		}
	}
	if own > 0 {
		buf = d.signal(pl, d.summed, column, peers, "", buf)
	}
	return append(buf, plan.Await(d.flag(d.summed, me, column), int64(owners)))
}
