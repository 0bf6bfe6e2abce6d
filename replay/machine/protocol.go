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
// and needs no other wait; Simple sends large pieces behind fences (rule C14).
type protocol struct {
	Base, treeBase float64 // seconds of a call
	Hop, treeHop   float64 // seconds of a step inside a node
	far, treeFar   float64 // seconds of a step between nodes
	Rate           float64 // payload share of the wire bytes
}

// The tuners of NCCL (src/graph/tuning, commit 5067397) and RCCL (commit 0cbce2a); RCCL's
// steps between nodes are NCCL's. LL comes first: Alpha and Hop of a profile refer to it.
var (
	NcclProtocols = []protocol{
		{6.6e-6, 6.8e-6, 0.6e-6, 0.6e-6, 2.7e-6, 5e-6, 0.5},
		{14e-6, 14e-6, 1.9e-6, 1.25e-6, 4e-6, 8.5e-6, 120. / 128},
		{8.4e-6, 8.4e-6, 3.4e-6, 4e-6, 14e-6, 14e-6, 1},
	}
	rcclProtocols = []protocol{
		{12e-6, 12e-6, 0.8e-6, 0.8e-6, 2.7e-6, 5e-6, 0.5},
		{12e-6, 12e-6, 2.2e-6, 2.2e-6, 4e-6, 8.5e-6, 120. / 128},
		{17e-6, 17e-6, 3.6e-6, 3.6e-6, 14e-6, 14e-6, 1},
	}
	noProtocols = []protocol{{far: 0, Rate: 1}}
)

func (l *Library) protocols() []protocol {
	all := noProtocols
	switch {
	case strings.HasPrefix(l.Name, "NCCL"):
		all = NcclProtocols
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

// A Placement is the ranks of a collective over nodes: they fill one after another.
type Placement struct {
	ranks, nodes, per float64 // per: ranks of a full node
}

// Spread is the placement of n ranks on nodes.
func (l *Library) Spread(ranks int) Placement {
	per := int(l.Network.Node.Value)
	if per == 0 || per > ranks {
		per = ranks
	}
	return Placement{float64(ranks), float64((ranks + per - 1) / per), float64(per)}
}

// Expected is the tuner's time of an operation in seconds.
func (l *Library) Expected(op trace.CollectiveOp, at Placement, channels, bytes float64) float64 {
	best := math.Inf(1)
	for i := range l.protocols() {
		for _, algorithm := range l.choices(op, at, AlgoProto{}) {
			best = min(best, l.algorithmTime(algorithm, &l.protocols()[i], op, at, channels, bytes))
		}
	}
	return best
}

// far is the number of steps between nodes in sequence. A ring enters and leaves every
// node once per round; pairs communicate one after another.
func (at Placement) far(op trace.CollectiveOp, steps float64) float64 {
	switch {
	case at.nodes == 1:
		return 0
	case op == trace.AllReduce || op == trace.Reduce:
		return min(steps, 2*at.nodes)
	case Pairwise(op):
		return min(steps, at.ranks-at.per)
	}
	return min(steps, at.nodes-1)
}

// Pairwise reports whether every rank sends to every other one, not only to the next.
func Pairwise(op trace.CollectiveOp) bool {
	switch op {
	case trace.AllToAll, trace.SendRecv, trace.Gather, trace.Scatter:
		return true
	}
	return false
}

// sums reports whether an operation adds data of the ranks.
func sums(op trace.CollectiveOp) bool {
	return op == trace.AllReduce || op == trace.Reduce || op == trace.ReduceScatter
}

// rankRate is the maximum bytes per second that each rank sends when ranks on several
// nodes send, limited by the network alone. In a ring all bytes of a rank leave its node
// once, through all NICs. In pairs each rank of a node sends to all others, and the most
// loaded link limits all (on a torus half of the pairs of each ring cross its middle)
// (rule C17).
func (w *Network) rankRate(pairs bool, at Placement) float64 {
	nics := max(1, w.NICs.Value) * w.Egress.Value
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
