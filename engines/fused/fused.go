// Package fused replaces a kernel and its collective by one persistent kernel
// that sends tiles as soon as they are computed (Punniyamurthy et al., SC'24).
package fused

import (
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Strategy is one persistent kernel per GPU that stores its tiles directly into the peers'
// output (SC'24 section III, rules U1, U2 and U4).
var Strategy = plan.Strategy{
	Name:    "fused",
	From:    "fused computation-collective operators, SC'24",
	Saves:   "the stores and reloads of intermediate results, and the collective's kernel with its launch and protocol",
	Summary: "one persistent kernel whose tiles store straight into the peers' buffers",
	Params: []plan.Param{
		{Name: "order", Default: "aware", Choices: []string{"aware", "oblivious"}, Doc: "which tiles first", Measured: []string{"aware", "oblivious"}, Work: "the order of tiles in that kernel"},
		{Name: "slice", Default: "0", Doc: "vectors of an embedding that are put together, where ranks are on several nodes; 0: 16, or more where a large job would put over 65,536 slices", Tune: []int{8, 16, 32, 64}, Work: "the size of slices in that kernel"},
		{Name: "occupancy", Default: "75", Least: 1, Most: 100, Doc: "percent of an embedding's resident workgroups that the fused kernel keeps there", Work: "the resources of that kernel"},
		{Name: "programs", Default: "0", Doc: "persistent workgroups a GPU; 0: as captured, or as many as fit", Measured: []string{plan.AnyNumber}, Work: "the grid of that kernel"},
		{Name: "fence", Default: "peer", Choices: []string{"peer", "phase"}, Doc: "of a reduction: a fence before each peer's flag, as Triton's releasing atomics have, or one before the flags of all peers", Work: "the fences of that kernel"},
		plan.GraphParam.Ran(plan.AsCaptured, "on"),
	},
	Inside: true, Rebuilds: true, Replaces: true,
	Rebuild:   plan.JoinChains,
	DependsOn: []string{"fabric.store", "fabric.fence", "launch.barrier"},
	Ways: []plan.Way{
		{Ops: plan.OnlySums, Effort: plan.ThirdParty, Library: "Triton-distributed", Note: "gemm_allreduce.py; it has kernels for both vendors"},
		{Ops: []trace.CollectiveOp{trace.ReduceScatter}, Vendor: plan.NVIDIA, Effort: plan.ThirdParty, Library: "FLUX", Note: "GEMM with reduce-scatter in its epilogue (test/python/gemm_rs)"},
	},
	Work: "one kernel that computes tiles and stores them through pointers to its peers' memory (torch.distributed._symmetric_memory within a node, " +
		"puts of a SHMEM library between nodes); samples/capture/strategies.py has such a Triton kernel",
	MeasuredOn: []trace.CollectiveOp{trace.AllToAll, trace.AllReduce, trace.ReduceScatter},
	Plan:       planFused,
}

func planFused(pl *plan.Planner, v plan.Values) (plan.Emitter, error) {
	if why := pl.NoLinks(); why != "" {
		return nil, &plan.NotApplicable{Strategy: "fused", Why: why}
	}
	others := len(pl.Pairs) // pairs of other strategies in a mix
	err := pl.Serve("fused", "no compute kernel followed by an all-to-all, an all-reduce or a reduce-scatter was found", func(p *workload.Pair) (bool, string) {
		return fuses(pl, p)
	})
	if err != nil {
		return nil, err
	}
	pl.Graph = v["graph"] == "on"
	leaveOutReorders(pl, pl.Pairs[others:])
	cuts := map[int]*slicing{} // by index of pair
	for i := others; i < len(pl.Pairs); i++ {
		p := &pl.Pairs[i]
		op := &pl.Workload.Ops[p.First[0]]
		if p.Joins > 1 {
			pl.NeverRun(plan.FusedBuild(op))
			pl.Note("several embeddings: one kernel over all tables, as FBGEMM's table-batched lookups")
		}
		if p.Direction == workload.CollectiveThenCompute {
			op = &pl.Workload.Ops[p.Second[0]]
		}
		if looksUp(pl, op) {
			if _, err := resident(pl, op, v); err != nil {
				return nil, err
			}
		}
		if p.Direction == workload.CollectiveThenCompute || acrossNodes(pl, p.Pair) {
			d, err := newSlicing(pl, p, op, v)
			if err != nil {
				return nil, err
			}
			cuts[i] = d
		}
	}
	sums := cost.Memo[int, *reduction]{} // by index of pair
	return func(r *plan.Rank, p *plan.Pair) {
		if d := cuts[p.Index]; d != nil {
			fuseSlices(r, p, d)
			return
		}
		if p.Coll.Op == trace.AllToAll {
			fuse(r, p, v)
			return
		}
		compute, _ := r.Ops(p)
		g := pl.WithPrograms(compute, pl.TilesOf(compute), v.Int("programs"))
		d := sums.Of(p.Index, func() *reduction { return newReduction(pl, p, g, v["order"] == "aware", v["fence"] == "phase") })
		r.WriteAsOne(p, reducingKernel(pl, compute, p, d, g), nil) // it ends when the stores of its peers have arrived
	}, nil
}

// fuses reports whether the strategy serves a pair; why is the reason if the operation matches but
// something is missing.
func fuses(pl *plan.Planner, p *workload.Pair) (ok bool, why string) {
	switch {
	case p.Collective >= 0 && servesGradient(pl, p):
		return true, ""
	case p.Direction != workload.ComputeThenCollective || p.Collective < 0:
		return false, ""
	}
	switch op, first := pl.Workload.Collectives[p.Collective].Op, &pl.Workload.Ops[p.First[0]]; {
	case acrossNodes(pl, p) && (op != trace.AllToAll || first.Shape.Kind != workload.Embedding):
		return false, fmt.Sprintf("the ranks of the %s are on several nodes, between which nothing can be stored tile by tile (an embedding's slices are put)", op)
	case op != trace.AllToAll:
		return reduces(pl, p)
	case first.Tiling.Tiles < len(p.First):
		return false, "the kernels before the all-to-alls have no known tiles (give their shapes)"
	}
	return true, ""
}

// fuse writes a pair as one kernel and a barrier.
func fuse(r *plan.Rank, p *plan.Pair, v plan.Values) {
	compute, _ := r.Ops(p)
	r.WriteAsOne(p, fusedKernel(r.Planner, compute, p, v), func(s *plan.Stream) {
		// Kernels between the two rearrange the output for the collective. The stores of the fused
		// kernel write every tile to its final position (rule U1).
		g := r.Planner.Gangs(plan.Piece{Coll: p.Coll, Index: plan.Whole}, 1, plan.Everyone)[0]
		r.Barrier(s, g.Arrive, len(p.First))
	})
}

// fusedKernel computes and stores the tiles of an operation. Each rank gets one contiguous
// share of tiles, in index order, like the rows of the output.
func fusedKernel(pl *plan.Planner, op *workload.Op, p *plan.Pair, v plan.Values) *program.Kernel {
	me, n := int32(op.Rank), len(p.First)
	dest := pl.RanksOf(p.Coll)
	g := pl.TilesOf(op)
	g = pl.WithPrograms(op, g, v.Int("programs"))
	if looksUp(pl, op) {
		wgs, _ := resident(pl, op, v) // planFused has checked it
		g = lookups(pl, op, wgs)
	}
	start := 0 // share that is computed first
	pattern := machine.ToOne
	if v["order"] == "aware" {
		start, pattern = (slices.Index(dest, me)+1)%n, machine.ToNext
	}
	owner := func(tile int) int32 { return dest[(tile*n/g.Tiles+start)%n] }
	if v["order"] == "aware" && pl.Machine.Fabric.Topology == machine.Mesh {
		// A link serves one peer: alternating peers tile by tile keeps every link busy (rule U2).
		pattern = machine.ToAll
		owner = func(tile int) int32 {
			if away := g.Tiles * (n - 1) / n; tile >= away {
				return me
			}
			return dest[(start+tile%(n-1))%n]
		}
	}
	payload := float64(p.Coll.Bytes) / float64(g.Tiles)
	local := program.Phase{Op: program.Store, Peer: me, Bytes: payload}
	remote := pl.StoreTo(me, payload, pattern)
	shares := uneven(pl.Machine.Fabric.StoreUneven.Value)
	k := pl.FusedKernel(op, g, fmt.Sprintf("%s + %s", op.Name, p.Coll.Op))
	k.Peer = func(tile int) int { return int(owner(tile)) }
	k.Recipe = func(tile int, buf []program.Phase) []program.Phase {
		store := local
		if to := owner(tile); to != me {
			store = remote
			store.Peer, store.Weight = to, shares[levelOf(tile)]
		}
		return append(buf, program.Phase{Op: program.Work, Time: g.Time, Read: g.Read}, store)
	}
	return k
}

// uneven lists the relative link shares of tiles' stores by level (rule U10): between
// e^-spread and e^spread. With equal shares workgroups that start together would store
// together to the end; on hardware they drift apart within a few tiles.
func uneven(spread float64) (shares [levels]float64) {
	for i := range shares {
		shares[i] = math.Exp(spread * height(i))
	}
	return shares
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
