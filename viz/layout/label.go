package layout

import (
	"fmt"
	"strconv"

	"github.com/overlapse/overlapse/trace"
)

// Caption is what to write on a span that is drawn long enough: a kernel's name
// without return type, namespaces and arguments, a collective's operation and
// size, a tile's number and where it goes.
func (t *Timeline) Caption(row int, id trace.SpanID) string {
	r, s := t.Run(row), t.Span(row, id)
	if s.Kind == trace.Workgroup {
		w := r.Workgroup(s)
		switch {
		case w == nil || w.ID == trace.None:
			return ""
		case t.Class(row, id).remote():
			return fmt.Sprintf("%d→%d", w.ID, w.Peer)
		}
		return strconv.Itoa(int(w.ID))
	}
	if c := r.Comm(s); c != nil && c.Op != trace.UnknownOp {
		if c.Bytes() == 0 {
			return c.Op.String()
		}
		return c.Op.String() + " " + trace.Bytes(c.Bytes())
	}
	name := r.NameOf(s)
	switch {
	case s.Kind == trace.PhaseCompute:
		return "" // its workgroup's says more
	case name == "" || s.Kind.InKernel() && s.Parent != trace.None && s.Name == r.Spans[s.Parent].Name:
		return s.Kind.String()
	case s.Kind == trace.Compute || s.Kind == trace.Collective:
		return trace.Short(name)
	}
	return name
}
