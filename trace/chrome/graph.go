package chrome

import (
	"cmp"
	"slices"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
)

// graphs is the work of captured graphs, and the arrows between its nodes.
type graphs struct {
	nodes  []graphNode
	arrows []graphArrow
}

// A graphNode is a span that a captured graph launched. Its row in the file may be one for
// display, which work of several streams shares.
type graphNode struct {
	span   trace.SpanID
	row    int32 // number of the row in the file
	marker bool  // no work of a device, but an event or a call of the host
	trace.Node
	launch int64 // correlation of the launch of the graph
}

// A graphArrow is one end of an arrow between nodes of a graph.
type graphArrow struct {
	flow int64
	row  int32
	from bool
	at   trace.Time
	pos  int64
}

// firstGraphFlow is the lowest id of the arrows that PyTorch's CUPTI exporter draws between
// nodes of a graph; lower ones are correlations (torch/profiler/_cupti/monitor_trace.py).
const firstGraphFlow = 1 << 40

// graphRow is the number of the event's row in the file.
func (d *reader) graphRow(e *event) int32 {
	k := append(d.key[:0], "row\x00"...)
	k = append(append(k, lex.Unquote(e.pid)...), 0)
	return d.number(append(k, lex.Unquote(e.tid)...))
}

// graphNode stores the place of the next span in a captured graph.
func (d *reader) graphNode(e *event, id trace.SpanID) {
	n := graphNode{span: id, row: d.graphRow(e), marker: categoryOf(e.cat) == graphMarker, launch: number(e.args.correlation)}
	n.Graph, n.Number = uint32(number(e.args.graph)), uint32(number(e.args.node)) // CUPTI's numbers of nodes have that of the graph above
	d.graphs.nodes = trace.Append(&d.Builder, d.graphs.nodes, n)
}

// graphFlow stores an end of an arrow between nodes of a graph; false if it is no such arrow.
func (d *reader) graphFlow(e *event) bool {
	id, ok := lex.Integer(e.id)
	if !ok || id < firstGraphFlow || string(e.cat) != `"ac2g"` {
		return false
	}
	if at, ok := d.start(e); ok {
		d.graphs.arrows = trace.Append(&d.Builder, d.graphs.arrows, graphArrow{flow: id, row: d.graphRow(e), from: e.ph == 's', at: at, pos: e.pos})
	}
	return true
}

// graphEdges joins the arrows with the nodes that they touch: each leads from the end of a node
// to the start of one of the same launch that depends on it. Markers between work are left out:
// what depends on a marker depends on what the marker depends on.
func (d *reader) graphEdges() {
	g := &d.graphs
	g.nodes = slices.DeleteFunc(g.nodes, func(n graphNode) bool { return d.Builder.Span(n.span).Dropped() })
	for _, n := range g.nodes {
		if !n.marker {
			n.Span = n.span
			d.Builder.Run.Nodes = append(d.Builder.Run.Nodes, n.Node)
		}
	}
	if len(g.arrows) == 0 {
		return
	}
	var all assemble.Graph
	for _, n := range g.nodes {
		all.Add(n.span, n.marker)
	}
	starts := d.nodesBy(func(s *trace.Span) trace.Time { return s.Start })
	ends := d.nodesBy(func(s *trace.Span) trace.Time { return s.End })
	slices.SortStableFunc(g.arrows, func(a, b graphArrow) int {
		return cmp.Or(cmp.Compare(a.flow, b.flow), cmp.Compare(a.at, b.at))
	})
	for _, arrow := range trace.Alike(g.arrows, func(a, b graphArrow) bool { return a.flow == b.flow }) {
		from, to, ok := d.joinNodes(arrow, starts, ends)
		for _, a := range arrow {
			if ok {
				d.note(trace.Noted, "dependency between nodes of a graph", a.pos)
			} else {
				d.note(trace.Skipped, "dependency between nodes of a graph that the file does not have", a.pos)
			}
		}
		if ok {
			all.Depend(to, from)
		}
	}
	all.State(&d.Builder)
	g.arrows = nil
}

// A nodeAt is a node and the time at which arrows touch it.
type nodeAt struct {
	row  int32
	at   trace.Time
	node int32
}

// nodesBy lists the nodes by row and a time of their spans.
func (d *reader) nodesBy(at func(*trace.Span) trace.Time) []nodeAt {
	list := make([]nodeAt, len(d.graphs.nodes))
	for i, n := range d.graphs.nodes {
		list[i] = nodeAt{n.row, at(d.Builder.Span(n.span)), int32(i)}
	}
	slices.SortFunc(list, func(a, b nodeAt) int {
		return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.at, b.at), cmp.Compare(a.node, b.node))
	})
	return list
}

// arrowCut is how far the ends of an arrow may be from the times of a span, in nanoseconds: times
// in microseconds are rounded, and a span's end is the sum of two.
const arrowCut = 2

// joinNodes returns the two nodes of one launch that an arrow joins.
func (d *reader) joinNodes(arrow []graphArrow, starts, ends []nodeAt) (from, to int32, ok bool) {
	if len(arrow) != 2 || arrow[0].from == arrow[1].from {
		return 0, 0, false
	}
	tail, head := arrow[0], arrow[1]
	if head.from {
		tail, head = head, tail
	}
	for _, b := range near(starts, head) {
		for _, a := range near(ends, tail) {
			if a.node != b.node && d.graphs.nodes[a.node].launch == d.graphs.nodes[b.node].launch {
				return a.node, b.node, true
			}
		}
	}
	return 0, 0, false
}

// near lists the nodes that an arrow may touch, nearest first.
func near(list []nodeAt, a graphArrow) []nodeAt {
	i, _ := slices.BinarySearchFunc(list, nodeAt{row: a.row, at: a.at - arrowCut}, func(n, want nodeAt) int {
		return cmp.Or(cmp.Compare(n.row, want.row), cmp.Compare(n.at, want.at))
	})
	const most = 16 // empty kernels at one time
	var found []nodeAt
	for ; i < len(list) && list[i].row == a.row && list[i].at <= a.at+arrowCut && len(found) < most; i++ {
		found = append(found, list[i])
	}
	off := func(n nodeAt) trace.Time { return max(n.at-a.at, a.at-n.at) }
	slices.SortStableFunc(found, func(x, y nodeAt) int { return cmp.Compare(off(x), off(y)) })
	return found
}

// spread takes the arguments in "annotation": a list of objects in JSON, which is what the
// program recorded about a kernel while the graph was captured. Arguments of the event itself and
// earlier objects come first.
func (a *args) spread() {
	var buf []byte
	for _, object := range lex.Elements(lex.Text(a.annotation, &buf)) {
		membersOf(object, func(key, v []byte) {
			if field := a.field(key); field != nil && *field == nil {
				a.put(field, v)
			}
		})
	}
}
