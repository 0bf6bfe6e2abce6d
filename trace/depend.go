package trace

import (
	"cmp"
	"fmt"
	"slices"
)

// A Dependency is one that the file itself states: the device span To could not start before
// From had ended. Files have them for the nodes of captured graphs. Both are of one rank.
type Dependency struct{ To, From SpanID }

// A Node is a device span's place in a captured graph, as the file numbers it.
type Node struct {
	Span   SpanID
	Graph  uint32 // number of the graph; 0 where unknown
	Number uint32 // number of the node in it, in order of capture
}

// Move rewrites what refers to spans after spans moved: at gives the new id of each, or None for
// those that are gone, which no call is.
func (r *Run) Move(at []SpanID) {
	to := func(id SpanID) SpanID {
		if id == None {
			return None
		}
		return at[id]
	}
	for i := range r.Kernels {
		r.Kernels[i].Launch = to(r.Kernels[i].Launch)
	}
	for i := range r.Copies {
		r.Copies[i].Launch = to(r.Copies[i].Launch)
	}
	for i := range r.Waits {
		w := &r.Waits[i]
		w.Call, w.Recorded = to(w.Call), to(w.Recorded)
	}
	for i, d := range r.Depends {
		r.Depends[i] = Dependency{at[d.To], at[d.From]}
	}
	for i := range r.Nodes {
		r.Nodes[i].Span = at[r.Nodes[i].Span]
	}
	r.Depends = slices.DeleteFunc(r.Depends, func(d Dependency) bool { return d.To == None || d.From == None })
	r.Nodes = slices.DeleteFunc(r.Nodes, func(n Node) bool { return n.Span == None })
	r.sortNodes()
}

// sortNodes orders Depends and Nodes as Run says.
func (r *Run) sortNodes() {
	slices.SortFunc(r.Depends, func(a, b Dependency) int { return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From)) })
	r.Depends = slices.Compact(r.Depends)
	slices.SortFunc(r.Nodes, func(a, b Node) int { return cmp.Or(cmp.Compare(a.Span, b.Span), cmp.Compare(a.Number, b.Number)) })
}

// NodeOf returns the place of a device span in a captured graph; ok is false if the file has none.
func (r *Run) NodeOf(id SpanID) (n Node, ok bool) {
	i, ok := slices.BinarySearchFunc(r.Nodes, id, func(n Node, id SpanID) int { return cmp.Compare(n.Span, id) })
	if !ok {
		return Node{}, false
	}
	return r.Nodes[i], true
}

func (v validator) nodes() error {
	work := func(id SpanID) bool { return id >= 0 && int(id) < len(v.Spans) && v.Spans[id].Kind.OnDevice() }
	for i, d := range v.Depends {
		if !work(d.To) || !work(d.From) || d.To == d.From || v.RankOf(v.Spans[d.To]) != v.RankOf(v.Spans[d.From]) {
			return fmt.Errorf("dependency %d: span %d on span %d", i, d.To, d.From)
		}
	}
	for i, n := range v.Nodes {
		if !work(n.Span) || i > 0 && n.Span < v.Nodes[i-1].Span {
			return fmt.Errorf("graph node %d: span %d", i, n.Span)
		}
	}
	return nil
}

// A Captured is the launch of a kernel that was recorded while a graph was captured, when no kernel
// ran. It has what the call and its operator say: grid, block and shared memory, Op, and for a
// collective Comm.
type Captured struct {
	Kernel
	As    Setup
	Name  NameID // of the kernel; 0 if the file does not name it
	Rank  int32  // row of Run.Ranks
	Graph int32  // number of the capture in the file
	Size  int32  // of the batch, as the range around the capture is named; 0 if unknown
}

func (v validator) captured() error {
	for i := range v.Captured {
		c := &v.Captured[i]
		if !row(c.Rank, len(v.Ranks)) || c.Rank == None || !row(c.Op, len(v.Operators)) || !row(c.Comm, len(v.Comms)) || c.Name < 0 ||
			int(c.Name) >= len(v.Names) {
			return fmt.Errorf("captured launch %d: name %d, operator %d and collective %d of rank row %d", i, c.Name, c.Op, c.Comm, c.Rank)
		}
	}
	return nil
}
