package assemble

import (
	"slices"

	"github.com/overlapse/overlapse/trace"
)

// captured is the thread that captured work of a graph, and when.
type captured struct {
	track int32
	at    trace.Time
}

// Captured says when a thread captured the work of a graph that is a span: within the call of a
// collective library whose kernel it is.
func (s *Session) Captured(span trace.SpanID, process int32, thread int64, at trace.Time) {
	if track, ok := s.trackIDs[Track{Kind: ThreadTrack, Process: process, Agent: trace.None, other: trace.None, ID: thread}]; ok {
		s.captured[span] = captured{track, at}
	}
}

// Node says which node of which graph the next span is, as rocprofv3 numbers them; graph 0: of none.
func (s *Session) Node(graph, node int64) {
	if graph > 0 {
		s.Builder.Run.Nodes = append(s.Builder.Run.Nodes, trace.Node{
			Span:  trace.SpanID(s.Builder.Len()),
			Graph: uint32(graph), Number: uint32(node),
		})
	}
}

// A Graph is spans that captured graphs launched, and what the file says each depends on. The
// zero value is ready to use.
type Graph struct {
	nodes  []graphNode
	before map[int32][]int32
}

type graphNode struct {
	span   trace.SpanID
	marker bool
}

// Add adds a node and returns its number. A marker is no work of a device, but an event or a call
// of the host between such work.
func (g *Graph) Add(span trace.SpanID, marker bool) int32 {
	g.nodes = append(g.nodes, graphNode{span, marker})
	return int32(len(g.nodes) - 1)
}

// Depend adds a dependency between two nodes.
func (g *Graph) Depend(to, from int32) {
	if g.before == nil {
		g.before = map[int32][]int32{}
	}
	g.before[to] = append(g.before[to], from)
}

// State adds the dependencies to a run. Markers are left out: what depends on one depends on what
// that depends on.
func (g *Graph) State(b *trace.Builder) {
	for i, n := range g.nodes {
		if n.marker || len(g.before[int32(i)]) == 0 {
			continue
		}
		for _, p := range g.work(int32(i)) {
			b.Run.Depends = append(b.Run.Depends, trace.Dependency{To: n.span, From: g.nodes[p].span})
		}
	}
}

// work is the nodes with work of a device that a node depends on, directly or through markers.
func (g *Graph) work(node int32) (list []int32) {
	seen := map[int32]bool{node: true}
	next := slices.Clone(g.before[node])
	for len(next) > 0 {
		p := next[len(next)-1]
		next = next[:len(next)-1]
		switch {
		case seen[p]:
		case g.nodes[p].marker:
			next = append(next, g.before[p]...)
		default:
			list = append(list, p)
		}
		seen[p] = true
	}
	return list
}
