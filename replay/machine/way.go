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
	Algorithms = []string{"ring", "direct", "pairwise", "tree", "nvls"}
	Protocols  = []string{"ll", "ll128", "simple"}
)

// Refuses is the reason why a library cannot run a collective with the algorithm and
// protocol on a topology; "" if it can. A ring passes chunks to the next rank. direct
// sends every rank's chunk to it at once, which needs links between all pairs. An
// all-to-all is pairwise; a tree is for all-reduces (rule C11), and so is a sum in the
// switch, which needs one that adds (rule C26).
func (l *Library) Refuses(op trace.CollectiveOp, top Topology, w AlgoProto) string {
	switch {
	case w.Protocol != "" && len(l.protocols()) == 1:
		return fmt.Sprintf("of %s no protocols are known", l.Name)
	case w.Algorithm == "":
	case pairwise(op) != (w.Algorithm == "pairwise"):
		return fmt.Sprintf("algorithm=%s is not one of %s", w.Algorithm, op)
	case w.Algorithm == "tree" && op != trace.AllReduce && op != trace.Reduce:
		return fmt.Sprintf("algorithm=tree is for all-reduces, not for %s", op)
	case w.Algorithm == "nvls" && op != trace.AllReduce:
		return fmt.Sprintf("algorithm=nvls is for all-reduces, not for %s", op)
	case w.Algorithm == "nvls" && l.Switch.Value == 0:
		return "algorithm=nvls needs a switch that adds (library.switch of the machine)"
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
	at, n, b := l.spread(ranks), float64(channels), float64(bytes)
	seconds, _ := l.best(op, at, n, b, w)
	return seconds / l.Expected(op, ranks, n, b)
}

// WireShares are the bytes that the ranks of an all-reduce send to other nodes and inside their
// nodes, relative to those of a ring: 1 and 1 if the library runs one. A tree and a ring both
// send 2·(R-1) times the buffer; a tree of N nodes sends 2·(N-1) times between nodes, where a ring
// sends 2·N·(R-1)/R times (rule C15). A sum in the switch of a node sends the buffer and the added
// part once (rule C26).
func (l *Library) WireShares(op trace.CollectiveOp, bytes int64, ranks, channels int, w AlgoProto) (between, inside float64) {
	at := l.spread(ranks)
	if pairwise(op) || at.nodes == 1 && !l.switches(op, at) {
		return 1, 1
	}
	_, algorithm := l.best(op, at, float64(channels), float64(bytes), w)
	inside = at.ranks / (at.ranks - 1)
	between = (at.nodes - 1) / at.nodes * inside
	switch algorithm {
	case "tree":
		return between, inside
	case "nvls":
		leaving := 1.0 // share of the channels of a node that stay inside
		if at.nodes > 1 {
			leaving = (at.per - 1) / at.per
		}
		return between, (1 + 1/at.per) / leaving * inside / 2
	}
	return 1, 1
}

// choices are the algorithms that remain possible.
func (l *Library) choices(op trace.CollectiveOp, at placement, w AlgoProto) []string {
	switch {
	case w.Algorithm != "":
		return []string{w.Algorithm}
	case l.switches(op, at):
		return []string{"ring", "tree", "nvls"}
	case (at.nodes > 1 || l.hosts(at) > 1) && (op == trace.AllReduce || op == trace.Reduce):
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
func (l *Library) algorithmTime(algorithm string, proto int, op trace.CollectiveOp, at placement, channels, bytes float64) float64 {
	if algorithm == "nvls" { // with Simple only, whose cost this is
		if proto+1 < len(l.protocols()) {
			return math.Inf(1)
		}
		_, choice := l.switchTime(at, channels, bytes)
		return choice
	}
	c, p, ll := l.Of(op), &l.protocols()[proto], &l.protocols()[0]
	n := max(1, min(channels, math.Ceil(bytes/c.Grain.Or(1))))
	wire := c.Link.Value
	if at.nodes > 1 {
		rate := l.Network.rankRate(pairwise(op) || algorithm == "direct", at)
		switch {
		case algorithm == "tree":
			rate *= 2 / at.crossing()
		case algorithm == "ring" && !pairwise(op): // at every channel another GPU of the node sends through its NIC instead
			wire *= at.per / max(1, at.per-1)
		}
		wire = least(wire, rate)
	}
	if algorithm == "tree" {
		wire *= treeLinks
	}
	pace := soft(1/c.Send.Value, n/wire, c.Smooth.Value) // seconds per byte of a sending channel
	if algorithm == "tree" {
		if limit := l.farLL(proto, at); limit > 0 {
			pace = max(pace, n*p.treeRate/limit)
		}
		moved := bytes / n * (2*pace + c.receiving(n, 1)/at.ranks)
		hosts := l.hosts(at)
		chain := 2 * (math.Ceil(at.per/hosts) - 1 + math.Ceil(math.Log2(hosts)))
		deep := 2 * math.Ceil(math.Log2(at.nodes))
		return c.Alpha.Value + p.treeBase - ll.Base + chain*(c.Hop.Or(0)+p.treeHop-ll.Hop) +
			deep*max(p.treeFar, l.Network.Latency.Value) + moved/(p.treeRate*p.treeShare(bytes))
	}
	if limit := l.farLL(proto, at); limit > 0 {
		pace = max(pace, n*p.Rate/limit)
	}
	steps := Sends(op, at.ranks)
	far := at.far(op, steps, channels)
	near := at.near(op, steps, far)
	last := 1.0 // memory traffic without sending, in chunks: a step of a sum reads two and writes one
	if algorithm == "direct" {
		near = steps / (at.ranks - 1)
		if far = 0; at.nodes > 1 {
			far = near
		}
		near -= far
		if op == trace.AllReduce || op == trace.Reduce || op == trace.ReduceScatter { // a rank adds
			last = (at.ranks + 1) / 3
		}
	}
	hop := p.far
	if at.per == 1 && !pairwise(op) { // nothing inside a node hides the network's latency
		hop = p.treeFar
	}
	latency := c.Alpha.Value + p.Base - ll.Base + near*(c.Hop.Or(0)+p.Hop-ll.Hop) + far*max(hop, l.Network.Latency.Value)
	if p.plateau > 0 && at.nodes > 1 && algorithm == "ring" && op == trace.AllReduce && bytes >= stepBytes*channels*at.ranks {
		latency *= p.plateau
	}
	moved := bytes / (at.ranks * n) * (steps*pace + c.receiving(n, last))
	return latency + moved/p.Rate
}

// hosts is the number of hosts that a node's links join. The library counts hosts as nodes:
// a tree has a chain in each host, and a tree over the hosts of a node by the same links
// (rule C15).
func (l *Library) hosts(at placement) float64 {
	return math.Ceil(at.per / max(1, l.Host.Or(at.per)))
}

// stepBytes is the bytes of a channel's step from which a ring's latency has its plateau.
const stepBytes = 64

// farLL is the rate that LL reaches between nodes; 0 without a limit. Its flags keep NICs
// from reading GPU memory in large pieces.
func (l *Library) farLL(proto int, at placement) (rate float64) {
	if proto != 0 || at.nodes == 1 {
		return 0
	}
	for _, r := range l.LLNodes.Rows {
		if at.nodes >= r[0] {
			rate = r[1]
		}
	}
	return rate
}
