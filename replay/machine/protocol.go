package machine

import (
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// Without recorded times of a collective, or with its ranks on more nodes than recorded,
// the library's time is that of its own tuner's model: the least over algorithms and
// protocols of
//
//	Alpha + near·hop + far·hop + bytes on the wire ÷ rate
//
// with near steps inside nodes and far steps between them. The tuner's numbers are made to
// choose between algorithms; as predictions they are good to 10 or 20 % (rule C13).

// A protocol is a method by which the library moves bytes. LL sends a flag with each word
// and needs no other wait; Simple sends large pieces behind fences (rule C13).
type protocol struct {
	Base, treeBase float64 // seconds of a call
	Hop, treeHop   float64 // seconds of a step inside a node
	far, treeFar   float64 // seconds of a step between nodes
	Rate, treeRate float64 // payload share of the wire bytes

	plateau float64   // factor of a ring all-reduce's latency between nodes once channels have a step's bytes; 0: 1
	shares  []float64 // share of the rate that a tree reaches, by size: 64 bytes, 128 bytes, ...; beyond the last: 1
}

// The tuners of NCCL (src/graph/tuning, commit 5067397) and RCCL (src/graph/tuning.cc, commit
// 9e22c79, tuning_model_0). LL comes first: Alpha and Hop of a profile refer to it.
// The shares are NCCL's correction of trees of medium sizes, which its ring's plateau is
// for rings (rule C25).
var (
	ncclProtocols = []protocol{
		{
			6.6e-6, 6.8e-6, 0.6e-6, 0.6e-6, 2.7e-6, 5e-6, 0.5, 1 / 3.8, 0,
			[]float64{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1},
		},
		{
			14e-6, 14e-6, 1.9e-6, 1.25e-6, 4e-6, 8.5e-6, 120. / 128, 120. / 128, 0,
			[]float64{1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1},
		},
		{
			8.4e-6, 8.4e-6, 3.4e-6, 4e-6, 14e-6, 14e-6, 1, 1, 1.4,
			[]float64{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, 1},
		},
	}
	rcclProtocols = []protocol{
		{12e-6, 12e-6, 0.8e-6, 0.8e-6, 9.5e-6, 11.8e-6, 0.5, 0.5, 0, nil},
		{12e-6, 12e-6, 2.2e-6, 1.4e-6, 19.8e-6, 18.2e-6, 120. / 128, 120. / 128, 0, nil},
		{17e-6, 17e-6, 3.6e-6, 2.5e-6, 15.1e-6, 20.8e-6, 1, 1, 0, nil},
	}
	noProtocols = []protocol{{Rate: 1, treeRate: 1}}
)

// treeLinks is the share of its links that a tree reaches (NCCL src/graph/tuning).
const treeLinks = 0.92

// treeShare is the share of its rate that a tree reaches at a size, interpolated in the
// logarithm of the size.
func (p *protocol) treeShare(bytes float64) float64 {
	i := max(0, math.Log2(max(1, bytes)/64))
	low := int(i)
	if low+1 >= len(p.shares) {
		return 1
	}
	return p.shares[low] + (i-float64(low))*(p.shares[low+1]-p.shares[low])
}

func (l *Library) protocols() []protocol {
	all := noProtocols
	switch {
	case strings.HasPrefix(l.Name, "NCCL"):
		all = ncclProtocols
	case strings.HasPrefix(l.Name, "RCCL"):
		all = rcclProtocols
	}
	if l.Sooner == 0 {
		return all
	}
	scaled := slices.Clone(all)
	for i := range scaled {
		p, by := &scaled[i], 1-l.Sooner
		for _, t := range []*float64{&p.Base, &p.treeBase, &p.Hop, &p.treeHop, &p.far, &p.treeFar} {
			*t *= by
		}
	}
	return scaled
}

// A placement is the ranks of a collective over nodes: they fill one after another.
type placement struct {
	ranks, nodes, per float64 // per: ranks of a full node
}

// spread is the placement of n ranks on nodes: on Nodes of them, or as many as they fill.
func (l *Library) spread(ranks int) placement {
	per := int(l.Network.Node.Value)
	if l.Nodes > 0 {
		per = (ranks + l.Nodes - 1) / l.Nodes
	}
	if per == 0 || per > ranks {
		per = ranks
	}
	return placement{float64(ranks), float64((ranks + per - 1) / per), float64(per)}
}

// Expected is the tuner's time of an operation of so many ranks in seconds.
func (l *Library) Expected(op trace.CollectiveOp, ranks int, channels, bytes float64) float64 {
	seconds, _ := l.best(op, l.spread(ranks), channels, bytes, AlgoProto{})
	return seconds
}

// best is the least of the tuner's times over the algorithms and protocols that remain
// possible, and its algorithm.
func (l *Library) best(op trace.CollectiveOp, at placement, channels, bytes float64, w AlgoProto) (seconds float64, algorithm string) {
	seconds = math.Inf(1)
	for i := range l.protocols() {
		if w.Protocol != "" && Protocols[i] != w.Protocol {
			continue
		}
		for _, a := range l.choices(op, at, w) {
			if t := l.algorithmTime(a, i, op, at, channels, bytes); t < seconds {
				seconds, algorithm = t, a
			}
		}
	}
	if algorithm == "nvls" {
		seconds, _ = l.switchTime(at, channels, bytes)
	}
	return seconds, algorithm
}

// far is the number of steps between nodes in sequence. A ring enters and leaves every
// node once per round; a channel serves its share of the pairs one after another
// (rule C17).
func (at placement) far(op trace.CollectiveOp, steps, channels float64) float64 {
	switch {
	case at.nodes == 1:
		return 0
	case op == trace.AllReduce || op == trace.Reduce:
		return min(steps, 2*at.nodes)
	case pairwise(op):
		return math.Ceil((at.ranks - at.per) / channels)
	}
	return min(steps, at.nodes-1)
}

// near is the number of steps inside nodes in sequence.
func (at placement) near(op trace.CollectiveOp, steps, far float64) float64 {
	if pairwise(op) {
		return min(steps, at.per-1)
	}
	return steps - far
}

// pairwise reports whether every rank sends to every other one, not only to the next.
func pairwise(op trace.CollectiveOp) bool {
	switch op {
	case trace.AllToAll, trace.SendRecv, trace.Gather, trace.Scatter:
		return true
	}
	return false
}

// rankRate is the maximum bytes per second that each rank sends when ranks on several
// nodes send, limited by the network alone. In a ring all bytes of a rank leave its node
// once, through all NICs. In pairs each rank of a node sends to all others, and the most
// loaded link limits all (on a torus half of the pairs of each ring cross its middle)
// (rule C17). Ranks on a part of a node's GPUs use the NICs of these.
func (w *Network) rankRate(pairs bool, at placement) float64 {
	nics := max(1, w.NICs.Value*min(1, at.per/w.Node.Or(at.per))) * w.Egress.Value
	if !pairs {
		links := w.Pair.Value
		if w.Topology.axes() > 0 {
			links *= 2 // both ways round
		}
		return least(nics, links)
	}
	others := at.ranks - 1
	return least(nics*others/(at.per*(at.ranks-at.per)), w.Pair.Value*others/(at.per*at.per*w.Topology.fullest(int(at.nodes))))
}

// crossing is the bytes that the busiest node of a tree sends to others, of the bytes of
// an all-reduce. The nodes form two binary trees, each with half of the bytes, and an
// inner node of one tree is a leaf of the other: of two nodes each sends half up and half
// down, of four or more an inner node sends half to its parent, half to each of its
// children, and half as a leaf (rule C15).
func (at placement) crossing() float64 { return min(2, at.nodes/2) }

// fullest is the number of pairs of members that cross the most loaded link when all send
// to all.
func (t Topology) fullest(members int) float64 {
	most := 1.0
	if t.axes() == 0 {
		return most
	}
	for _, size := range t.Shape(members) {
		most = max(most, math.Floor(float64(size*size)/8)*float64(members/size))
	}
	return most
}

// least is the smaller of two rates; 0 means no limit.
func least(a, b float64) float64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
