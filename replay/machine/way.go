package machine

import (
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// An AlgoProto is the algorithm and the protocol that the library is set to; "" leaves the
// choice to the library.
type AlgoProto struct{ Algorithm, Protocol string }

// Algorithms and Protocols are the values of an AlgoProto.
var (
	Algorithms = []string{"ring", "direct", "pairwise", "tree"}
	Protocols  = []string{"ll", "ll128", "simple"}
)

// Refuses is the reason why a library cannot run a collective with the algorithm and
// protocol on a topology; "" if it can. A ring passes chunks to the next rank. direct
// sends every rank's chunk to it at once, which needs links between all pairs. An
// all-to-all is pairwise; a tree is for all-reduces (rule C16).
func (l *Library) Refuses(op trace.CollectiveOp, top Topology, w AlgoProto) string {
	switch {
	case w.Protocol != "" && len(l.protocols()) == 1:
		return fmt.Sprintf("of %s no protocols are known", l.Name)
	case w.Algorithm == "":
	case Pairwise(op) != (w.Algorithm == "pairwise"):
		return fmt.Sprintf("algorithm=%s is not one of %s", w.Algorithm, op)
	case w.Algorithm == "tree" && op != trace.AllReduce && op != trace.Reduce:
		return fmt.Sprintf("algorithm=tree is for all-reduces, not for %s", op)
	case w.Algorithm == "direct" && top.axes() > 0:
		return fmt.Sprintf("algorithm=direct needs links between all ranks, not a %s", top)
	}
	return ""
}

// Relative is the library's time with the algorithm and protocol over its time with its
// own choice. Both come from the tuner's model, so that recorded or captured times can be
// scaled by the ratio.
func (l *Library) Relative(op trace.CollectiveOp, bytes int64, ranks, channels int, w AlgoProto) float64 {
	if w == (AlgoProto{}) || ranks < 2 {
		return 1
	}
	at, n, b := l.Spread(ranks), float64(channels), float64(bytes)
	best := math.Inf(1)
	for i := range l.protocols() {
		if p := &l.protocols()[i]; w.Protocol == "" || Protocols[i] == w.Protocol {
			for _, algorithm := range l.choices(op, at, w) {
				best = min(best, l.algorithmTime(algorithm, p, op, at, n, b))
			}
		}
	}
	return best / l.Expected(op, at, n, b)
}

// choices are the algorithms that remain possible.
func (l *Library) choices(op trace.CollectiveOp, at Placement, w AlgoProto) []string {
	switch {
	case w.Algorithm != "":
		return []string{w.Algorithm}
	case at.nodes > 1 && (op == trace.AllReduce || op == trace.Reduce):
		return []string{"ring", "tree"}
	}
	return []string{"ring"}
}

// Carried is the number of wire bytes per byte of payload.
func (l *Library) Carried(w AlgoProto) float64 {
	if i := slices.Index(Protocols, w.Protocol); i >= 0 && i < len(l.protocols()) {
		return 1 / l.protocols()[i].Rate
	}
	return 1
}

// algorithmTime is the tuner's time of one algorithm and protocol.
//
// Direct is not an algorithm of the tuners. Its time is derived (rule C15) at their rates
// and latencies: every rank sends slice j to rank j, all at once; when all have arrived, a
// rank reads N slices and writes their sum; an all-reduce then sends the sum to all at
// once. A rank sends as many bytes as in a ring, but waits for others once per phase
// instead of once per step, and adds all slices in one pass. Between nodes its bytes take
// the routes of pairs.
func (l *Library) algorithmTime(algorithm string, p *protocol, op trace.CollectiveOp, at Placement, channels, bytes float64) float64 {
	c, ll := l.Of(op), &l.protocols()[0]
	n := max(1, min(channels, math.Ceil(bytes/c.Grain.Or(1))))
	steps := Sends(op, at.ranks)
	wire := c.Link.Value
	if at.nodes > 1 {
		wire = min(wire, l.Network.rankRate(Pairwise(op) || algorithm == "direct", at))
	}
	last := 1.0                                          // memory traffic without sending, in chunks: a step of a sum reads two and writes one
	pace := soft(1/c.Send.Value, n/wire, c.Smooth.Value) // seconds per byte of a sending channel
	start := c.Alpha.Value + p.Base - ll.Base
	near, far := steps, at.far(op, steps)
	switch algorithm {
	case "tree":
		tree := bytes / n * (2*pace + 1/c.Receive.Value/at.ranks)
		start = c.Alpha.Value + p.treeBase - ll.Base
		deep := 2 * math.Ceil(math.Log2(at.nodes))
		chain := 2 * (at.per - 1)
		return start + chain*(c.Hop.Or(0)+p.treeHop-ll.Hop) + deep*max(p.treeFar, l.Network.Latency.Value) + tree/p.Rate
	case "direct":
		near = steps / (at.ranks - 1)
		if far = 0; at.nodes > 1 {
			far = near
		}
		if sums(op) {
			last = (at.ranks + 1) / 3
		}
	}
	moved := bytes / (at.ranks * n) * (steps*pace + last/c.Receive.Value)
	return start + (near-far)*(c.Hop.Or(0)+p.Hop-ll.Hop) + far*max(p.far, l.Network.Latency.Value) + moved/p.Rate
}
