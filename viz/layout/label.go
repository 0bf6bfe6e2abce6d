package layout

import (
	"fmt"
	"strconv"
	"strings"

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
		case t.Class(row, id) == Remote:
			return fmt.Sprintf("%d→%d", w.ID, w.Peer)
		}
		return strconv.Itoa(int(w.ID))
	}
	if c := r.Comm(s); c != nil && c.Op != trace.UnknownOp {
		if c.Bytes() == 0 {
			return c.Op.String()
		}
		return c.Op.String() + " " + Bytes(c.Bytes())
	}
	name := r.NameOf(s)
	switch {
	case s.Kind == trace.PhaseCompute:
		return "" // its workgroup's says more
	case name == "" || s.Kind.InKernel() && s.Parent != trace.None && s.Name == r.Spans[s.Parent].Name:
		return s.Kind.String()
	case s.Kind == trace.Compute || s.Kind == trace.Collective:
		return kernelName(name)
	}
	return name
}

// kernelName is the identifier in a C++ signature.
func kernelName(s string) string {
	short := strings.TrimPrefix(s, "void ")
	short = strings.ReplaceAll(short, "(anonymous namespace)::", "")
	if i := strings.IndexAny(short, "<("); i > 0 {
		short = short[:i]
	}
	if i := strings.LastIndex(short, "::"); i >= 0 {
		short = short[i+2:]
	}
	if short == "" {
		return s
	}
	return short
}

// Bytes writes a number of bytes with a binary prefix, exactly where it is a
// whole number of them: "64 MiB", "1.50 MiB".
func Bytes(n int64) string {
	v, unit := float64(n), "B"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if v < 1024 {
			break
		}
		v, unit = v/1024, u
	}
	if v == float64(int64(v)) {
		return fmt.Sprintf("%d %s", int64(v), unit)
	}
	return fmt.Sprintf("%.2f %s", v, unit)
}
