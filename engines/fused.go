package engines

import (
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// storeSpread is how unevenly the workgroups that store to one link share it: the
// stamps of the first wave of stores (data/h200/wg, GEMM with 64 KiB tiles) lie
// between 10 and 24 µs around a mean of 19 (MODEL_STUDY R8).
const storeSpread = 0.35

// fused is one persistent kernel a GPU that stores its tiles straight into the
// peers' output (SC'24 section III, MECHANISM 4.3).
var fused = Engine{
	Name:    "fused",
	From:    "fused computation-collective operators, SC'24",
	Saves:   "the stores and reloads of intermediate results, and the collective's kernel with its launch and protocol",
	Summary: "one persistent kernel whose tiles store straight into the peers' buffers",
	Detail: "Compute and all-to-all become one persistent kernel. A workgroup computes a tile, stores it into the memory of " +
		"the GPU it belongs to, and takes its next tile; nothing is written at home and read again. Aware order computes " +
		"tiles for peers first, beginning with the next rank or, on a mesh, with all of them in turn, its own last; oblivious order goes by index, so that every " +
		"rank stores into rank 0 first and its ingress is shared. The kernel ends with a barrier of all ranks. Before an " +
		"all-reduce or a reduce-scatter every tile has an owner: the others store their partial results into its memory, one " +
		"flag a workgroup and peer, and the owner's workgroup adds them and, in an all-reduce, stores the sum to all peers. " +
		"A workgroup waits for its counterparts only. Between nodes nothing can be stored: there an embedding's vectors fall into " +
		"slices, each computed by a cluster of workgroups, and whichever of them finishes a slice last puts it, behind it a " +
		"flag, and goes on; at the end every workgroup waits for its share of the slices that the rank needs. More resident " +
		"workgroups (occupancy) have more loads under way, and get in each other's way in memory where the machine's profile says so. Tiles keep the time that the captured kernel took for them: where a " +
		"library's kernel was captured, the fused one is another build, and usually slower.",
	Params: []Param{
		{Name: "order", Default: "aware", Choices: []string{"aware", "oblivious"}, Doc: "which tiles first"},
		{Name: "slice", Default: "16", Least: 1, Doc: "vectors of an embedding that are put together, where ranks are on several nodes"},
		{Name: "occupancy", Default: "75", Least: 1, Most: 100, Doc: "percent of an embedding's resident workgroups that the fused kernel keeps there"},
		{Name: "programs", Default: "0", Doc: "persistent workgroups a GPU; 0: as captured, or as many as fit"},
		{Name: "graph", Default: "off", Choices: []string{"off", "on"}, Doc: "launched by a captured graph: the host costs nothing"},
	},
	Inside: true,
	plan:   planFused,
}

func planFused(pl *planner, v Values) (emitter, error) {
	if pl.m.Fabric.Egress.Value <= 0 {
		return nil, &NotApplicable{"fused", "machine " + pl.m.Name + " has no links between GPUs"}
	}
	why := "no compute kernel followed by an all-to-all, an all-reduce or a reduce-scatter was found"
	others := len(pl.pairs) // of a mix: not this strategy's
	pl.take(func(p *workload.Pair) bool {
		if p.Direction != workload.ComputeThenCollective || p.Collective < 0 {
			return false
		}
		op := pl.w.Collectives[p.Collective].Op
		if pl.acrossNodes(p) && (op != trace.AllToAll || pl.w.Ops[p.First[0]].Shape.Kind != workload.Embedding) {
			why = fmt.Sprintf("the ranks of the %s are on several nodes, between which nothing can be stored tile by tile (an embedding's slices are put)", op)
			return false
		}
		if op != trace.AllToAll {
			ok, no := pl.reduces(p)
			if no != "" {
				why = no
			}
			return ok
		}
		if pl.w.Ops[p.First[0]].Tiling.Tiles < len(p.First) {
			why = "the kernels before the all-to-alls have no known tiles (give their shapes)"
			return false
		}
		return true
	})
	if len(pl.pairs) == 0 {
		return nil, &NotApplicable{"fused", why}
	}
	pl.graph = v["graph"] == "on"
	pl.leaveOutReorders(pl.pairs[others:])
	cuts := map[int]*slicing{} // by index of pair
	for i := others; i < len(pl.pairs); i++ {
		p := &pl.pairs[i]
		if op := &pl.w.Ops[p.First[0]]; pl.looksUp(op) {
			if _, err := pl.resident(op, v); err != nil {
				return nil, err
			}
		}
		if pl.acrossNodes(p.Pair) {
			d, err := pl.slicing(p, v)
			if err != nil {
				return nil, err
			}
			cuts[i] = d
		}
	}
	sums := map[int]*reduction{} // by index of pair
	return func(r *rank, p *pair) {
		if d := cuts[p.index]; d != nil {
			r.fuseSlices(p, d)
			return
		}
		if p.coll.Op == trace.AllToAll {
			r.fuse(p, v)
			return
		}
		compute, _ := r.ops(p)
		g := pl.withPrograms(compute, pl.tilesOf(compute), v.Int("programs"))
		if sums[p.index] == nil {
			sums[p.index] = pl.reduction(p, g, v["order"] == "aware")
		}
		r.fuseReduction(p, sums[p.index], g)
	}, nil
}

// fuse writes a pair as one kernel and a barrier.
func (r *rank) fuse(p *pair, v Values) {
	compute, comm := r.ops(p)
	s := r.stream(compute.Queue)
	r.enter(p)
	gap := r.ready(s, compute, slices.Concat(r.before(p, compute), comm.After), r.within(p)...)
	s.launch(gap, launchOf(compute, r.pl.fusedKernel(compute, p, v)))

	// Kernels between the two rearranged the output for the collective; the
	// stores of the fused kernel put every tile in its final place (MECHANISM B6).
	g := r.pl.gang(part{coll: p.coll, index: whole}, 0, everyone)
	s.post(g.arrive, 1)
	s.wait(g.arrive, int64(len(p.First)), "barrier")
	s.delay(duration(r.pl.m.Launch.Barrier.Value), replay.PeerSkew, "barrier")
	for _, op := range r.within(p) {
		r.finished(s, op)
	}
	r.leave(p)
}

// fusedKernel computes and stores the tiles of an operation. Tiles fall into
// one contiguous share a rank, in index order, as the rows of the output do.
func (pl *planner) fusedKernel(op *workload.Op, p *pair, v Values) *replay.Kernel {
	me, n := int32(op.Rank), len(p.First)
	dest := pl.destinations(p)
	g := pl.tilesOf(op)
	g = pl.withPrograms(op, g, v.Int("programs"))
	if pl.looksUp(op) {
		wgs, _ := pl.resident(op, v) // planFused has checked
		g = pl.lookups(op, wgs)
	}
	start := 0 // the share that is computed first
	pattern := machine.ToOne
	if v["order"] == "aware" {
		start, pattern = (slices.Index(dest, me)+1)%n, machine.ToNext
	}
	owner := func(tile int) int32 { return dest[(tile*n/g.tiles+start)%n] }
	if v["order"] == "aware" && pl.m.Fabric.Topology == machine.Mesh {
		// A link serves one peer: tiles for all of them in turn keep every link busy (MECHANISM A5).
		pattern = machine.ToAll
		owner = func(tile int) int32 {
			if away := g.tiles * (n - 1) / n; tile >= away {
				return me
			}
			return dest[(start+tile%(n-1))%n]
		}
	}
	payload := float64(p.coll.Bytes) / float64(g.tiles)
	local := replay.Phase{Op: replay.Store, Peer: me, Bytes: payload}
	remote := replay.Phase{
		Op: replay.Store, Bytes: payload * pl.m.Fabric.StoreCost(pattern),
		Time: duration(payload / pl.m.Fabric.StoreCU.Or(pl.m.Fabric.Egress.Value)),
	}
	shares := uneven(storeSpread)
	k := pl.kernelOf(op, g)
	k.Name = fmt.Sprintf("%s + %s", op.Name, p.coll.Op)
	k.Attr.Grid = [3]int32{int32(g.wgs), 1, 1}
	k.Peer = func(tile int) int { return int(owner(tile)) }
	k.Recipe = func(tile int, buf []replay.Phase) []replay.Phase {
		store := local
		if to := owner(tile); to != me {
			store = remote
			store.Peer, store.Weight = to, shares[levelOf(tile)]
		}
		return append(buf, replay.Phase{Op: replay.Work, Time: g.time, Read: g.read}, store)
	}
	return k
}

// tilesOf is an operation as persistent workgroups over all of its tiles, one
// a slot, as fused kernels are written.
func (pl *planner) tilesOf(op *workload.Op) grid {
	g := pl.gridOf(op, op.DurAlone())
	if g.tiles == 0 {
		g.tiles = g.wgs
		g.wgs = min(g.wgs, int(pl.m.GPU.CUs.Value)*pl.residents(g.foot))
	}
	g.owned = -1
	return g
}

// withPrograms changes how many persistent workgroups share the tiles; 0 leaves
// it. Fewer of them leave a compiled matrix kernel more of the caches and of the
// power, and a gather more of the memory, each as the machine's profile says.
func (pl *planner) withPrograms(op *workload.Op, g grid, programs int) grid {
	if programs == 0 || programs == g.wgs {
		return g
	}
	factor := 1.0
	switch op.Shape.Kind {
	case workload.GEMM:
		factor = pl.m.Crowded(programs) / pl.m.Crowded(g.wgs)
	case workload.Embedding:
		perTile := func(n int) float64 { return float64(n) / pl.m.GPU.GatherAt(n, true) }
		factor = perTile(programs) / perTile(g.wgs)
	}
	g.time = trace.Time(float64(g.time)*factor + 0.5)
	g.wgs = programs
	g.pipe = 1 / float64(min(pl.residents(g.foot), max(1, ceilDiv(programs, int(pl.m.GPU.CUs.Value)))))
	return g
}

// uneven lists the shares of a link that tiles' stores get relative to each
// other, by the tile's level: between e^-spread and e^spread. With even shares
// workgroups that start together would store together to the end; on the machine
// they drift apart within a few tiles.
func uneven(spread float64) (shares [levels]float64) {
	for i := range shares {
		shares[i] = math.Exp(spread * height(i))
	}
	return shares
}

// levels is how many there are.
const levels = 8

// levelOf is a tile's, as even in the long run as chance would have it.
func levelOf(tile int) int {
	h := uint32(tile) * 2654435761 // Knuth's multiplicative hash
	return int(h >> 29)
}

// height is where a level lies between -1 and 1.
func height(level int) float64 { return float64(level)/3.5 - 1 }

// destinations are the ranks of the collective's members, in order.
func (pl *planner) destinations(p *pair) []int32 {
	var d []int32
	for _, m := range p.coll.Members {
		d = append(d, int32(pl.w.Ops[m].Rank))
	}
	return d
}
