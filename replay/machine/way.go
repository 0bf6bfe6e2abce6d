package machine

import (
	"fmt"
	"math"
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// A AlgoProto is the algorithm and the protocol that a library is told to use; an empty
// word leaves the choice to it.
type AlgoProto struct{ Algorithm, Protocol string }

// Algorithms and Protocols are the words of a Way.
var (
	Algorithms = []string{"ring", "direct", "pairwise", "tree"}
	Protocols  = []string{"ll", "ll128", "simple"}
)

// Refuses says why a library cannot move a collective in the way on a topology;
// "" where it can. A ring hands chunks to the next rank; direct sends every rank's
// to it at once, which needs links between all; pairwise is what an all-to-all
// does; a tree is for all-reduces (rule C16).
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

// Relative is how long the library takes in the way, over what it takes by its own
// choice: both by its tuner's numbers, so that recorded or captured times can be
// scaled by it.
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

// choices are the algorithms that a way leaves.
func (l *Library) choices(op trace.CollectiveOp, at Placement, w AlgoProto) []string {
	switch {
	case w.Algorithm != "":
		return []string{w.Algorithm}
	case at.nodes > 1 && (op == trace.AllReduce || op == trace.Reduce):
		return []string{"ring", "tree"}
	}
	return []string{"ring"}
}

// Carried is how many bytes cross the wire for each of payload.
func (l *Library) Carried(w AlgoProto) float64 {
	if i := slices.Index(Protocols, w.Protocol); i >= 0 && i < len(l.protocols()) {
		return 1 / l.protocols()[i].Rate
	}
	return 1
}

// algorithmTime is what the tuner expects of one algorithm and protocol.
//
// Direct is no algorithm of the tuners; its time follows from what it does
// (rule C15), at the rates and latencies of theirs: every rank sends slice j
// to rank j, all at once; when all are there a rank reads N slices and writes
// their sum; an all-reduce then sends the sum to all at once. As many bytes leave
// a rank as in a ring, but it waits for others once a phase, not once a step, and
// it adds all slices in one pass. Between nodes its bytes take the ways of pairs.
func (l *Library) algorithmTime(algorithm string, p *protocol, op trace.CollectiveOp, at Placement, channels, bytes float64) float64 {
	c, ll := l.Of(op), &l.protocols()[0]
	n := max(1, min(channels, math.Ceil(bytes/c.Grain.Or(1))))
	steps := Sends(op, at.ranks)
	wire := c.Link.Value
	if at.nodes > 1 {
		wire = min(wire, l.Network.rankRate(Pairwise(op) || algorithm == "direct", at))
	}
	last := 1.0                                          // chunks' worth of memory traffic in which nothing is sent: a sum's step reads two and writes one
	pace := soft(1/c.Send.Value, n/wire, c.Smooth.Value) // seconds a channel takes to send a byte
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
