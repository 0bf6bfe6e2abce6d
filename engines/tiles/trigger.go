package tiles

import (
	"fmt"
	"slices"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Strategy trigger
//
// Trigger models hardware that tracks a GEMM's stores and starts DMA transfers
// of completed blocks, or tracks gathered blocks and starts the GEMM's workgroups that
// read them (T3, ASPLOS'24).

// Trigger is a GEMM whose stores are counted in memory; the last store of a block starts
// its transfer (T3 section 4, rules K1, K2, K3, K5, K7, K8, K9, K10 and K11). On a fully connected fabric each part is
// stored to the rank whose it is, without transfers (T3 section 7.1, rule K12). Behind an all-gather
// the blocks that arrive start the GEMM's workgroups (T3 section 7.2, rule K13).
//
//	ring       1          2          3          4 (own)     direct
//	GEMM |stores →   |writes    |writes    |writes    |     |stores → to all                |writes (own)|
//	arrives |           |stores    |DMA 2     |DMA 3     |  | stores of all                              |
//	DMA     |           |     2 →  |     3 →  |          |  N-2 rounds
var Trigger = plan.Strategy{
	Name:    "trigger",
	Plainly: "stores that start transfers",
	From:    "T3",
	Saves:   "the collective's kernel, and its reads and writes of memory",
	Summary: "stores counted in memory start DMA transfers of a ring alongside the GEMM",
	Params: []plan.Param{
		{
			Name: "mapping", Default: "auto", Experimental: true, Choices: []string{"auto", "ring", "direct"},
			Doc: "of the output: parts passed around a ring, or each stored to the rank whose it is; auto: direct for all-to-alls, " +
				"and for what is gathered before a GEMM on a mesh",
		},
		{
			Name: "arbitration", Default: "rr", Choices: []string{"rr", "mca"},
			Doc: "of contended memory: alternate between transfers and compute, or compute first",
		},
		{
			Name: "queue", Default: "auto", Experimental: true, Choices: []string{"auto", "5", "10", "30", "none"},
			Doc: "mca: entries of the memory's queue up to which transfers are issued; auto: by the GEMM's intensity",
		},
		{
			Name: "entries", Default: "32", Experimental: true, Least: 1, Most: 256,
			Doc: "of the tracker: a ring's part of the output is sent in at most so many blocks (T3's has 256)",
		},
	},
	Kind:   plan.Future,
	Inside: true, Rebuilds: true, Replaces: true,
	Rebuild: joinChains,
	Plan:    planTrigger,
}

func planTrigger(pl *plan.Planner, v plan.Values) (emit plan.Emitter, why string) {
	if why := noLinks(pl); why != "" {
		return nil, why
	}
	why = "no kernel was found before a reduce-scatter, an all-reduce, an all-gather or an all-to-all, and none behind an all-gather"
	for _, d := range []workload.Direction{workload.ComputeThenCollective, workload.CollectiveThenCompute} {
		why = pl.Serve(why, func(p *workload.Pair) (bool, string) {
			if p.Direction != d {
				return false, ""
			}
			return triggers(pl, p, v["mapping"])
		})
	}
	if why != "" {
		return nil, why
	}
	t := tracker{
		pl: pl, mapping: v["mapping"], first: v["arbitration"] == "mca", queue: v["queue"], tracked: v.Int("entries"),
		bursts: pl.Machine.GPU.Memory.Value > 0, rings: cost.Memo[int, *ring]{},
	}
	t.note()
	pl.Program.Arbiter = t.arbiter()
	return t.emit, ""
}

// adds reports whether the collective adds data of the ranks.
func adds(op trace.CollectiveOp) bool { return op == trace.ReduceScatter || op == trace.AllReduce }

// starts reports whether what a collective gathers starts the workgroups of the pair's GEMM.
func starts(p *workload.Pair) bool { return p.Direction == workload.CollectiveThenCompute }

// triggers reports whether the strategy serves a pair; why is the reason if the operation
// matches but something is missing.
func triggers(pl *plan.Planner, p *workload.Pair, mapping string) (ok bool, why string) {
	if p.Collective < 0 {
		return false, ""
	}
	joined := []machine.Topology{machine.Switch, machine.Mesh}
	op, tracked := pl.Workload.Collectives[p.Collective].Op, p.First
	if starts(p) {
		tracked = p.Second
	}
	switch {
	case starts(p) && op == trace.AllToAll:
		return false, "an all-to-all comes before its kernel here, and only an all-gather's blocks start workgroups: " +
			"no other pair was found"
	case starts(p) && op != trace.AllGather, !adds(op) && op != trace.AllGather && op != trace.AllToAll:
		return false, ""
	case len(p.First) < 2:
		return false, fmt.Sprintf("the %s has one rank, which sends nothing", op)
	case op == trace.AllToAll && mapping == "ring":
		return false, "an all-to-all has nothing to pass around a ring"
	case (op == trace.AllToAll || mapping == "direct") && !slices.Contains(joined, pl.Machine.Fabric.Topology):
		return false, "what is stored directly needs a switch or a link between any two GPUs"
	case starts(p) && p.Experts > 1:
		return false, fmt.Sprintf("which workgroups of %s read a gathered row depends on its experts: a tracker cannot know it beforehand",
			trace.Short(pl.Workload.Ops[tracked[0]].Name))
	}
	for _, id := range tracked {
		switch first := &pl.Workload.Ops[id]; {
		case first.Tiling.Tiles == 0:
			return false, fmt.Sprintf("the tiles of %s are not known", trace.Short(first.Name))
		case first.Tiling.Tiles < len(p.First):
			return false, fmt.Sprintf("%s has %d tiles, fewer than the %d ranks", trace.Short(first.Name), first.Tiling.Tiles, len(p.First))
		}
	}
	if op == trace.AllToAll { // tiles are stored where copies between would put them (rule U1)
		why = nothingBetween(pl, p, func(op *workload.Op) bool { return op.Kind == trace.Copy })
		return why == "", why
	}
	why = notByTile(pl, p)
	return why == "", why
}

// tracker plans the pairs of one program.
type tracker struct {
	pl      *plan.Planner
	mapping string // as given by the user; see sendsDirectly
	first   bool   // compute first
	queue   string // entries up to which transfers are issued then
	// the tracker's entries: the most blocks of a chunk's transfer
	tracked int
	// the memory has a queue: reads of a tile are followed by a burst of writes, and triggered transfers read in bursts
	bursts bool
	rings  cost.Memo[int, *ring] // by index of pair
}

// A ring is what the ranks of one pair share. Stages count from 0: in stage s
// rank i computes chunk i+1+s and sends it to rank i-1; the last is its own.
// Before an all-gather the whole output is one stage, and s counts the hops. Stored directly, the tiles for the others come
// first, one for each of them in turn, and the rank's own last. Behind an all-gather chunk i+s is what comes in stage s.
type ring struct {
	n        int // ranks
	gather   bool
	direct   bool
	consumes bool                 // the GEMM reads what is gathered
	splits   int                  // parts along K of a tile; each is a workgroup that stores the whole tile
	stages   plan.Cut             // of the GEMM's tiles
	blocks   int                  // blocks of a chunk, tracked separately
	left     []program.Flag       // by rank: remote tiles computed; behind an all-gather: its buffer may be written
	counters [][]program.Flag     // by rank, stage·blocks + block: stores and transfers seen
	gathered *workload.Collective // second half of an all-reduce
}

func (t *tracker) ring(p *plan.Pair) *ring {
	return t.rings.Of(p.Index, func() *ring {
		ranks, n := t.pl.RanksOf(p.Coll), len(p.First)
		g := &ring{n: n, gather: p.Coll.Op == trace.AllGather, direct: t.sendsDirectly(p), consumes: starts(p.Pair)}
		if g.consumes {
			g.blocks = min(t.tracked, panelsOf(&t.pl.Workload.Ops[p.Second[0]], n))
			g.left = t.pl.FlagOfEach(ranks, "rank %d's buffer free")
		} else {
			t.cut(g, &t.pl.Workload.Ops[p.First[0]])
			g.left = t.pl.FlagOfEach(ranks, "tiles for other ranks computed on rank %d")
		}
		g.counters = t.pl.FlagsAbout(ranks, n*g.blocks, 0, 1, func(rank int32, i int) string {
			return fmt.Sprintf("stage %d block %d on rank %d complete", i/g.blocks+1, i%g.blocks, rank)
		})
		if p.Coll.Op == trace.AllReduce {
			gather := *p.Coll
			gather.Op, g.gathered = trace.AllGather, &gather
		}
		return g
	})
}

// sendsDirectly reports whether a rank sends each part to the rank that needs it, and nothing is passed on.
func (t *tracker) sendsDirectly(p *plan.Pair) bool {
	if t.mapping == "auto" && starts(p.Pair) {
		return t.pl.Machine.Fabric.Topology == machine.Mesh && !acrossNodes(t.pl, p.Pair)
	}
	return t.mapping == "direct" || p.Coll.Op == trace.AllToAll
}

// cut divides the tiles of a GEMM whose stores are tracked into stages and blocks.
func (t *tracker) cut(g *ring, op *workload.Op) {
	shape := t.pl.GridOf(op, op.DurAlone())
	c, _ := plan.CoverOf(op)
	g.splits, g.stages = max(1, c.Splits), plan.Cut{N: max(shape.Tiles, shape.WGs), Parts: g.n}
	if g.gather {
		g.stages.Parts = 1
	}
	if g.blocks = min(t.tracked, max(1, g.stages.N/g.stages.Parts)); g.direct {
		g.blocks = 1 // no transfer waits for one
	}
}

// of returns the stage and the block of the i-th tile.
func (g *ring) of(i int) (stage, block int) {
	stage = g.stages.Of(i)
	return stage, g.in(stage).Of(i - g.stages.From(stage))
}

// in is the blocks of a stage's tiles.
func (g *ring) in(stage int) plan.Cut {
	return plan.Cut{N: g.stages.From(stage+1) - g.stages.From(stage), Parts: g.blocks}
}

// size is the number of tiles of a block.
func (g *ring) size(stage, block int) int { return g.in(stage).From(block+1) - g.in(stage).From(block) }

// remote is how many tiles, the first ones, are stored to other ranks.
func (g *ring) remote() int {
	if g.direct && !g.gather {
		return g.stages.From(g.n - 1)
	}
	return g.stages.From(1)
}

// peers are the places, from that of a rank on, of the ranks to which it stores the i-th tile.
func (g *ring) peers(i int) (first, after int) {
	switch {
	case !g.direct:
		return g.n - 1, g.n
	case g.gather:
		return 1, g.n
	}
	first = 1 + i%(g.n-1)
	return first, first + 1
}

// complete is the count at which a block of a stage has the parts of the rank and of its
// neighbour. The neighbour's part is stored tile by tile in the first stage and arrives
// as one transfer in later stages. Before an all-gather there is only the neighbour's.
func (g *ring) complete(stage, block int) int64 {
	switch tiles := int64(g.stages.N); {
	case g.direct && g.gather: // of each other rank
		return tiles * int64(g.n-1)
	case g.direct: // those of the others for this rank are as many as its own for them
		return tiles
	}
	from := 1
	if stage == 1 {
		from = g.size(0, block)
	}
	if g.gather {
		return int64(from)
	}
	return int64(from + g.size(stage, block))
}

func (g *ring) counter(rank, stage, block int) program.Flag {
	if g.direct && !g.consumes {
		stage, block = 0, 0
	}
	return g.counters[rank][stage*g.blocks+block]
}

// A trackedSide is a pair on one rank.
type trackedSide struct {
	plan.Side
	*tracker
	*ring
	next int // place of the rank to which it passes on
}

// emit writes a pair on one rank.
func (t *tracker) emit(r *plan.Rank, p *plan.Pair) {
	x := &trackedSide{r.SideOf(p), t, t.ring(p), 0}
	x.next = (x.Me + x.n - 1) % x.n
	c, l := x.CommStream(x.Compute, x.Comm), t.pl.Machine.Launch
	if x.consumes {
		x.consume(c)
		x.End(c)
		return
	}

	gap := r.WriteFills(x.On, p.FillsBefore[r.ID], x.Gap)
	begun := t.pl.Program.NewFlag(x.Compute.Name + " launched")
	x.On.Post(begun, 1)
	x.On.Launch(gap, plan.LaunchOf(x.Compute, x.gemm()))

	q := r.Added("stores")
	q.Wait(begun, 1, x.Compute.Name)
	q.Launch(0, plan.LaunchOf(x.Comm, x.stores()))
	r.IssueOne(c, l.Host.Value, "transfers")
	c.Wait(begun, 1, x.Compute.Name)
	c.Launch(0, plan.LaunchOf(x.Comm, x.transfers()))
	if x.gathered != nil {
		r.IssueOne(c, l.HostCollective.Value, "all_gather")
		_, took := t.pl.Laws().Halves(p.Coll)
		k := t.pl.Collective(x.Comm, plan.Piece{
			Coll: x.gathered, Index: plan.Whole, Of: 1, Channels: t.pl.Laws().Channels(p.Coll),
			DurAlone: took, Slowdown: 1,
		})
		k.Name, k.Comm.Op = trace.AllGather.String()+" of the sums", trace.AllGather
		c.Launch(plan.Duration(l.Gap.Value), plan.LaunchOf(x.Comm, k))
	}
	x.End(c)
}
