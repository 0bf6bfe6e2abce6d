package engines

import (
	"fmt"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// onesided moves shards by copy engines beside a matrix product and lets signals
// in peer memory say which have arrived (Triton-distributed, MECHANISM section 6).
//
//	all-gather + product, switch        product + reduce-scatter, switch
//	engine |from 1|from 2|from 3|       compute |for 1|for 2|for 3|own|
//	compute|own|from 1|from 2|from 3|   engine        |to 1 |to 2 |to 3|
//	                                    compute                        |sum|
var onesided = Engine{
	Name:    "onesided",
	From:    "Triton-distributed, PyTorch symmetric memory",
	Summary: "copy engines move shards beside the product, signals tell which have arrived",
	Detail: "An all-gather and the product behind it, or a product and the reduce-scatter behind it, become one pipeline of as " +
		"many steps as there are ranks. Copy engines move the shards and hold no compute unit; memory and links they share. " +
		"A gathered product begins with the rank's own shard and goes on in the order in which the others arrive; a scattered " +
		"one computes its own shard last, so that every copy but the last hides behind compute, and adds what came in at the " +
		"end. On a switch one peer is served at a time; on a mesh, where a link serves one peer only, all are, in chunks of 256 " +
		"rows. impl=push writes into the peers' buffers, pull reads from them after a barrier. impl=oneshot is the all-reduce " +
		"for small messages: one kernel stores the whole vector to every peer and adds what arrives. That is more bytes than a " +
		"ring's, half as many times as there are ranks, in one step.",
	Params: []Param{
		{Name: "impl", Default: "pull", Choices: []string{"pull", "push", "oneshot"}, Doc: "who moves the data; oneshot: all-reduce by one kernel"},
		{Name: "product", Default: "whole", Choices: []string{"whole", "chunks"}, Doc: "one kernel whose tiles wait for and post signals, or a launch a shard"},
	},
	Inside: true,
	plan:   planOnesided,
}

func planOnesided(pl *planner, v Values) (emitter, error) {
	if pl.m.Fabric.Egress.Value <= 0 {
		return nil, &NotApplicable{"onesided", "machine " + pl.m.Name + " has no links between GPUs"}
	}
	why := "no all-gather before a product and no reduce-scatter behind one was found (all-reduces: impl=oneshot)"
	if v["impl"] == "oneshot" {
		why = "no kernel followed by an all-reduce was found"
	}
	pl.take(func(p *workload.Pair) bool {
		ok, no := pl.pipelines(p, v["impl"] == "oneshot")
		if no != "" {
			why = no
		}
		return ok
	})
	if len(pl.pairs) == 0 {
		return nil, &NotApplicable{"onesided", why}
	}
	t := transfers{pl: pl, push: v["impl"] == "push", chunks: v["product"] == "chunks", boards: map[int]*board{}}
	return func(r *rank, p *pair) {
		switch p.coll.Op {
		case trace.AllGather:
			t.gather(r, p)
		case trace.ReduceScatter:
			t.scatter(r, p)
		default:
			t.oneShot(r, p)
		}
	}, nil
}

// pipelines reports whether a pair is one for the engine; why says what is
// missing where the operation is the right one.
func (pl *planner) pipelines(p *workload.Pair, oneShot bool) (ok bool, why string) {
	if p.Collective < 0 || len(p.First) < 2 {
		return false, ""
	}
	op := pl.w.Collectives[p.Collective].Op
	compute := &pl.w.Ops[p.First[0]]
	switch {
	case oneShot:
		return op == trace.AllReduce && p.Direction == workload.ComputeThenCollective, ""
	case op == trace.AllGather && p.Direction == workload.CollectiveThenCompute:
		compute = &pl.w.Ops[p.Second[0]]
	case op == trace.ReduceScatter && p.Direction == workload.ComputeThenCollective:
	default:
		return false, ""
	}
	if compute.Tiling.Tiles < len(p.First) {
		return false, fmt.Sprintf("%s has no known tiles, or fewer than ranks", compute.Name)
	}
	for k := range p.First {
		if name := pl.between(&pl.w.Ops[p.First[k]], &pl.w.Ops[p.Second[k]]); name != "" {
			return false, fmt.Sprintf("%s lies between compute and communication, and works on the whole", shortName(name))
		}
	}
	return true, ""
}

// transfers plans the copies and signals of all pairs.
type transfers struct {
	pl           *planner
	push, chunks bool
	boards       map[int]*board // by index of pair
}

// A board is what the ranks of one pair share.
type board struct {
	ranks   []int32         // in the group's order
	cuts    int             // pieces in which a shard travels
	there   replay.Flag     // ranks whose buffers may be read or written
	arrived [][]replay.Flag // by destination, source: pieces that have arrived
	done    [][]replay.Flag // by source, destination·cuts + piece: tiles of a scatter that are computed
}

// rowsOfPiece is the height of the pieces in which a mesh moves a shard (MECHANISM A5).
const rowsOfPiece = 256

func (t *transfers) board(p *pair) *board {
	if b, ok := t.boards[p.index]; ok {
		return b
	}
	pl := t.pl
	b := &board{ranks: pl.destinations(p), cuts: 1, there: pl.p.NewFlag("all ranks at the barrier")}
	n := len(b.ranks)
	compute := &pl.w.Ops[p.First[0]]
	if p.Direction == workload.CollectiveThenCompute {
		compute = &pl.w.Ops[p.Second[0]]
	}
	if pl.m.Fabric.Topology == machine.Mesh && !t.chunks {
		b.cuts = min(8, max(1, int(compute.Shape.M)/(n*rowsOfPiece)))
	}
	for i := range n {
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
func (b *board) place(r *rank) int {
	for i, id := range b.ranks {
		if int(id) == r.id {
			return i
		}
	}
	return 0
}

// A unit is one piece of one shard, in the order in which a product computes them.
type unit struct{ shard, piece int }

// units lists the pieces of all shards: the own one first or last, and the
// others beginning with the next rank; where they travel in several pieces, the first
// pieces of all ranks before the second ones.
func (b *board) units(me int, ownFirst bool) []unit {
	n := len(b.ranks)
	var own, others []unit
	for piece := range b.cuts {
		own = append(own, unit{me, piece})
		for i := 1; i < n; i++ {
			others = append(others, unit{(me + i) % n, piece})
		}
	}
	if ownFirst {
		return append(own, others...)
	}
	return append(others, own...)
}

// span is the units that tile i of n covers: a tile may lie across two.
func span(i, n, units int) (first, last int) {
	return i * units / n, ((i+1)*units - 1) / n
}

// lane is the stream of the copies to or from the i-th peer: one for all on a
// switch, one each on a mesh.
func (t *transfers) lane(r *rank, compute, comm *workload.Op, i int) *stream {
	if t.pl.m.Fabric.Topology != machine.Mesh || i == 1 {
		return r.commStream(compute, comm)
	}
	return r.stream(-1000 - int64(i))
}

// move copies one piece between this rank and another.
func (t *transfers) move(s *stream, comm *workload.Op, from, to int32, bytes float64, done replay.Flag) {
	s.launch(0, replay.Command{
		Op: replay.Start, Name: comm.Name, Origin: comm.ID,
		Copy: &replay.Copy{Name: fmt.Sprintf("copy %d→%d", from, to), From: from, Peer: to, Bytes: bytes},
	})
	s.post(done, 1)
}
