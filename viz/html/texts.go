package html

import (
	"fmt"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// texts writes the tooltip of a kernel or copy, once for each.
type texts struct {
	*dictionary
	run     *trace.Run
	names   map[trace.NameID]int32
	details map[attr]int32
}

// An attr is a row of a side table.
type attr struct {
	kind trace.Kind
	row  int32
}

func newTexts(r *trace.Run, d *dictionary) *texts {
	return &texts{dictionary: d, run: r, names: map[trace.NameID]int32{}, details: map[attr]int32{}}
}

func (t *texts) name(s trace.Span) int32 {
	id, ok := t.names[s.Name]
	if !ok {
		id = t.dictionary.name(t.run.NameOf(s))
		t.names[s.Name] = id
	}
	return id
}

func (t *texts) detail(s trace.Span) int32 {
	if s.Attr == trace.None {
		return 0
	}
	key := attr{s.Kind, s.Attr}
	id, ok := t.details[key]
	if !ok {
		id = t.dictionary.detail(t.describe(s))
		t.details[key] = id
	}
	return id
}

func (t *texts) describe(s trace.Span) string {
	r := t.run
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	if c := r.Comm(s); c != nil {
		words = append(words, t.communication(s, c)...)
	}
	if c := r.Copy(s); c != nil {
		add("%s", c.Dir)
		if c.Bytes > 0 {
			add("%s", layout.Bytes(c.Bytes))
		}
		if c.Peer != trace.None {
			add("rank %d", c.Peer)
		}
	}
	k := r.Kernel(s)
	if k != nil && k.WGs() > 0 {
		size := "1 workgroup"
		if k.WGs() > 1 {
			size = fmt.Sprintf("%d workgroups", k.WGs())
		}
		if k.Threads() > 0 {
			size += fmt.Sprintf(" of %d threads", k.Threads())
		}
		add("%s", size)
	}
	if op := r.Operator(k); op != nil {
		add("%s", op.Name)
	}
	return strings.Join(words, " · ")
}

// communication splits a collective's time into waiting for peers and moving bytes.
func (t *texts) communication(s trace.Span, c *trace.Comm) []string {
	words := []string{c.Op.String()}
	if c.Bytes() > 0 {
		words = append(words, layout.Bytes(c.Bytes()))
	}
	if c.Group == trace.None {
		return words
	}
	g := t.run.Groups[c.Group]
	words = append(words, fmt.Sprintf("group %s of %d", g.Name, g.Size))
	all := t.run.Collective(s)
	if len(all.Members) < 2 || all.Transfer == 0 {
		return words
	}
	moves := fmt.Sprintf("moves bytes for %s", layout.Short(all.Transfer))
	if wire := c.Op.WireBytes(c.Bytes(), max(g.Size, len(all.Members))); wire > 0 {
		moves += fmt.Sprintf(" at %.1f GB/s", float64(wire)/float64(all.Transfer))
	}
	if s.Start < all.Arrive {
		words = append(words, fmt.Sprintf("waits %s for peers", layout.Short(all.Arrive-s.Start)))
	}
	return append(words, moves)
}
