// Package tiles has the strategies that cut pairs: into chunks that are launched side by side, or within kernels, whose
// producer and consumer meet tile by tile. The latter are written in the notation of package plan: orders of units,
// sets that become ready, movers and waits.
//
//	decompose  a kernel and its collective in chunks: decompose.go (of rows), waves.go (of waves), ring.go (of copies)
//	fused      a kernel and its collective as one kernel that sends its tiles: fused.go, embedding.go, reduce.go
//	tilesync   dependent kernels beside each other: tilesync.go, semaphore.go, between.go, own.go, streamk.go
//	onesided   copies, stores and signals to symmetric memory: onesided.go, symmetric.go, shards.go, pipeline.go,
//	           alternate.go, experts.go, internode.go, lowlatency.go, oneshot.go
//	trigger    stores that are tracked, and DMA that they start: trigger.go, kernels.go
//
// Fused replaces a kernel and its collective by one persistent kernel that sends tiles as soon as they are computed
// (Punniyamurthy et al., SC'24).
package tiles

import (
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Fused is one persistent kernel per GPU that stores its tiles directly into the peers'
// output, or put them to other nodes (SC'24 section III, rules U1 to U5, U17 and U18).
var Fused = plan.Strategy{
	Name:    "fused",
	Plainly: "one fused kernel",
	From:    "fused computation-collective operators, SC'24",
	Saves:   "the stores and reloads of intermediate results, and the collective's kernel with its launch and protocol",
	Summary: "one persistent kernel whose tiles store straight into the peers' buffers",
	Params: []plan.Param{
		{
			Name: "order", Default: "aware", Choices: []string{"aware", "oblivious"}, Doc: "which tiles first",
			Measured: []string{"aware", "oblivious"},
		},
		{Name: "slice", Default: "0", Doc: "vectors of an embedding that are put together, where ranks are on several nodes; 0: 16, or more where a large job would put over 65,536 slices", Tune: []int{8, 16, 32, 64}},
		{
			Name: "occupancy", Default: "75", Least: 1, Most: 100,
			Doc: "percent of an embedding's resident workgroups that the fused kernel keeps there",
		},
		{
			Name: "programs", Default: "0", Doc: "persistent workgroups a GPU; 0: as captured, or as many as fit",
			Measured: []string{plan.AnyNumber},
		},
		{
			Name: "fence", Default: "peer", Choices: []string{"peer", "phase", "quiet"},
			Doc: "of a reduction: a fence before each peer's flag, as Triton's releasing atomics have, or one before the flags of all " +
				"peers; quiet: an all-to-all's slices have no flags, each GPU waits once until its puts have arrived, then all ranks meet",
		},
		plan.GraphParam.Ran(plan.AsCaptured, "on"),
	},
	Inside: true, Rebuilds: true, Replaces: true,
	Rebuild:    joinChains,
	DependsOn:  []string{"fabric.store", "fabric.fence", "launch.barrier"},
	MeasuredOn: []trace.CollectiveOp{trace.AllToAll, trace.AllReduce, trace.ReduceScatter},
	Plan:       planFused,
}

// joinChains rebuilds a workload for strategies that serve a kernel and its collective.
func joinChains(w *workload.Workload, m machine.Machine, _ plan.Values) *workload.Workload {
	return edit.Joined(w, m)
}

func planFused(pl *plan.Planner, v plan.Values) (emit plan.Emitter, why string) {
	if why := noLinks(pl); why != "" {
		return nil, why
	}
	others := len(pl.Pairs) // pairs of other strategies in a mix
	why = pl.Serve("no compute kernel followed by an all-to-all, an all-reduce or a reduce-scatter was found", func(p *workload.Pair) (bool, string) {
		return fuses(pl, p, v)
	})
	if why != "" {
		return nil, why
	}
	pl.Graph = v["graph"] == "on"
	leaveOutReorders(pl, pl.Pairs[others:])
	kernels := map[int]func(op *workload.Op) *program.Kernel{} // by index of pair
	barred := map[int]bool{}                                   // likewise: all ranks meet behind the kernel
	quiet := v["fence"] == "quiet"
	for i := others; i < len(pl.Pairs); i++ {
		p := &pl.Pairs[i]
		op := &pl.Workload.Ops[p.First[0]]
		if p.Joins > 1 {
			pl.NeverRun(noFusedBuild(op))
			pl.Note("several embeddings: one kernel over all tables, as FBGEMM's table-batched lookups")
		}
		gradient := p.Direction == workload.CollectiveThenCompute
		if gradient {
			op = &pl.Workload.Ops[p.Second[0]]
		}
		apart := acrossNodes(pl, p.Pair)
		inSlices := gradient || apart && op.Shape.Kind == workload.Embedding
		slots, why := resident(pl, op, v)
		switch {
		case why != "" && (inSlices || looksUp(pl, op)):
			return nil, why
		case inSlices:
			d, why := newSlicing(pl, p, op, slots, v)
			if why != "" {
				return nil, why
			}
			kernels[i] = func(op *workload.Op) *program.Kernel { return d.slicedKernel(pl, op, p) }
			if gradient {
				kernels[i] = func(op *workload.Op) *program.Kernel { return d.gradientKernel(pl, op, p) }
			}
		case p.Coll.Op == trace.AllToAll:
			if apart {
				pl.NeverRun("tiles that are put to another node were never run on hardware")
			}
			var came [][]program.Flag // by rank and source: tiles put or stored to the rank
			if barred[i] = !apart; apart && !quiet {
				ranks := pl.RanksOf(p.Coll)
				came = pl.FlagsAbout(ranks, len(ranks), 1, 1, func(rank int32, from int) string {
					return fmt.Sprintf("tiles of rank %d on rank %d", ranks[from], rank)
				})
			}
			kernels[i] = func(op *workload.Op) *program.Kernel { return fusedKernel(pl, op, p, came, v) }
		default:
			d := newReduction(pl, p, v)
			kernels[i] = func(op *workload.Op) *program.Kernel { return d.kernel(pl, op, p) }
		}
		if apart && quiet {
			barred[i], kernels[i] = true, quieting(pl, pl.RanksOf(p.Coll), kernels[i])
		}
	}
	return func(r *plan.Rank, p *plan.Pair) {
		compute, _ := r.Split(p)
		r.WriteAsOne(p, kernels[p.Index](compute), func(s *plan.Stream) {
			if barred[p.Index] { // others wait for their peers' stores themselves
				barrier(r, s, pl.Arrived(p.Coll), len(p.First))
			}
		})
	}, ""
}

// fuses reports whether the strategy serves a pair; why is the reason if the operation matches but
// something is missing.
func fuses(pl *plan.Planner, p *workload.Pair, v plan.Values) (ok bool, why string) {
	quiet := v["fence"] == "quiet"
	switch {
	case p.Collective >= 0 && servesGradient(pl, p) && quiet:
		return false, "fence=quiet is for what a kernel sends: a backward waits for each slice that it adds (fence=peer)"
	case p.Collective >= 0 && servesGradient(pl, p):
		return true, ""
	case p.Direction != workload.ComputeThenCollective || p.Collective < 0:
		return false, ""
	}
	switch op, first := pl.Workload.Collectives[p.Collective].Op, &pl.Workload.Ops[p.First[0]]; {
	case op != trace.AllToAll && quiet:
		return false, fmt.Sprintf("fence=quiet is for an all-to-all: owners of the tiles of the %s wait for each peer's partial results "+
			"(fence=peer or phase)", op)
	case op != trace.AllToAll:
		return reduces(pl, p)
	case first.Tiling.Tiles < len(p.First):
		return false, "the kernels before the all-to-alls have no known tiles (give their shapes)"
	}
	return true, ""
}

// owners says which rank, by its place in the collective, owns a tile of a rank. Each rank gets one contiguous share of
// tiles, in index order, like the rows of the output. In aware order those of other nodes come first, and the rank's own last.
func owners(pl *plan.Planner, ranks []int32, me, tiles int, aware bool) func(tile int) int {
	n := len(ranks)
	shares, order := plan.Cut{N: tiles, Parts: n}, plan.Around(n, 0, 1)
	if aware {
		order = plan.Around(n, me+1, 1)
		near := func(i int) bool { return pl.Machine.Node(int(ranks[i])) == pl.Machine.Node(int(ranks[me])) }
		slices.SortStableFunc(order[:n-1], func(i, j int) int {
			switch {
			case near(i) == near(j):
				return 0
			case near(j):
				return -1
			}
			return 1
		})
	}
	if aware && pl.Machine.Fabric.Topology == machine.Mesh {
		// A link serves one peer: alternating peers tile by tile keeps every link busy (rule U2).
		return func(tile int) int {
			if tile >= tiles*(n-1)/n {
				return order[n-1]
			}
			return order[tile%(n-1)]
		}
	}
	return func(tile int) int { return order[shares.Of(tile)] }
}

// fusedKernel computes and stores the tiles of an operation. Kernels between the operation and its
// collective rearrange the output; the stores write every tile to its final position (rule U1). Where the ranks are on several
// nodes a tile for another one is put when it is written, and what comes from each rank is counted (rule U3).
func fusedKernel(pl *plan.Planner, op *workload.Op, p *plan.Pair, came [][]program.Flag, v plan.Values) *program.Kernel {
	aware, ranks := v["order"] == "aware", pl.RanksOf(p.Coll)
	g := pl.TilesOf(op)
	g = pl.WithPrograms(op, g, v.Int("programs"))
	if looksUp(pl, op) {
		wgs, _ := resident(pl, op, v) // planFused has checked it
		g = lookups(pl, op, wgs)
	}
	me := slices.Index(ranks, int32(op.Rank))
	owner := owners(pl, ranks, me, g.Tiles, aware)
	payload := float64(p.Coll.Bytes) / float64(g.Tiles)
	stores := storesOf(pl, payload, aware)
	k := fusing(pl, op, g, fmt.Sprintf("%s + %s", op.Name, p.Coll.Op))
	k.Peer = func(tile int) int { return int(ranks[owner(tile)]) }
	k.Recipe = func(tile int, buf []program.Phase) []program.Phase {
		at := owner(tile)
		to, work := ranks[at], plan.Compute(g.Time, g.Read, 0)
		switch {
		case at == me:
			return append(buf, work, plan.StoreAt(to, payload))
		case pl.Machine.Node(int(to)) != pl.Machine.Node(op.Rank):
			ready := program.NoFlag
			if came != nil {
				ready = came[at][me]
			}
			return putSlice(pl, append(buf, work, plan.StoreAt(int32(op.Rank), payload)), to, payload, ready)
		case came != nil:
			return append(buf, work, pl.StoreTo(to, payload, machine.ToAll), pl.Fence(), plan.Signal(came[at][me], "flag"))
		}
		return append(buf, work, stores.of(to, tile))
	}
	if came != nil {
		awaitTiles(pl, k, p, me, came[me], aware)
	}
	return k
}

// awaitTiles has each workgroup wait, behind its last tile, for its share of the flags of the tiles that a rank owns, until
// they have come from every other one.
func awaitTiles(pl *plan.Planner, k *program.Kernel, p *plan.Pair, me int, came []program.Flag, aware bool) {
	ranks := pl.RanksOf(p.Coll)
	counts := make([]int64, len(ranks)) // by rank: its tiles that this one owns
	for from := range ranks {
		tiles := pl.TilesOf(&pl.Workload.Ops[p.First[from]]).Tiles
		owner := owners(pl, ranks, from, tiles, aware)
		for tile := range tiles {
			if owner(tile) == me {
				counts[from]++
			}
		}
	}
	k.Epilogue = func(wg int, buf []program.Phase) []program.Phase {
		for i := 1 + wg; i < len(ranks); i += k.WGs { // from the next rank on, as on every rank
			from := (me + i) % len(ranks)
			buf = append(buf, plan.Await(came[from], counts[from]))
		}
		return buf
	}
}

// fusing is the kernel of a compute operation on a grid that does the work of a collective as well.
func fusing(pl *plan.Planner, op *workload.Op, g plan.Grid, name string) *program.Kernel {
	k := pl.KernelOf(op, g)
	k.Name, k.Setup.Grid = name, [3]int32{int32(g.WGs), 1, 1}
	return k
}

// stores are those of computed tiles to peers. Their relative link shares are uneven (rule U10): between e^-spread
// and e^spread, by the tile's level. With equal shares workgroups that start together would store
// together to the end; on hardware they drift apart within a few tiles.
type stores struct {
	each   program.Phase
	shares [levels]float64
}

// storesOf are stores of tiles of so many bytes: in aware order GPUs store to different peers at a time, on a mesh to all.
func storesOf(pl *plan.Planner, bytes float64, aware bool) *stores {
	pattern := machine.ToOne
	switch {
	case aware && pl.Machine.Fabric.Topology == machine.Mesh:
		pattern = machine.ToAll
	case aware:
		pattern = machine.ToNext
	}
	s := &stores{each: pl.StoreTo(0, bytes, pattern)}
	for i := range s.shares {
		s.shares[i] = math.Exp(pl.Machine.Fabric.StoreUneven.Value * height(i))
	}
	return s
}

// of is the store of a tile to a peer.
func (s *stores) of(peer int32, tile int) program.Phase {
	store := s.each
	store.Peer, store.Weight = peer, s.shares[levelOf(tile)]
	return store
}

// levels is the number of levels.
const levels = 8

// levelOf is a tile's level, pseudo-random and uniform over many tiles.
func levelOf(tile int) int {
	h := uint32(tile) * 2654435761 // Knuth's multiplicative hash
	return int(h >> 29)
}

// height is the position of a level between -1 and 1.
func height(level int) float64 { return float64(level)/3.5 - 1 }
