package html

import (
	"fmt"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
)

// texts makes what a tooltip says of a kernel or copy, once for each.
type texts struct {
	*dictionary
	run         *trace.Run
	names       map[trace.NameID]int32
	details     map[attr]int32
	collectives map[collective]meeting
}

// An attr is a row of a side table.
type attr struct {
	kind trace.Kind
	row  int32
}

// A collective is one operation of a group; a meeting is when its ranks were all there.
type (
	collective struct {
		group int32
		seq   int64
		op    trace.CollectiveOp
	}
	meeting struct {
		ranks      int
		start, end trace.Time // the latest start and the earliest end
	}
)

func newTexts(r *trace.Run, d *dictionary) *texts {
	t := &texts{
		dictionary: d, run: r,
		names: map[trace.NameID]int32{}, details: map[attr]int32{}, collectives: map[collective]meeting{},
	}
	for _, s := range r.Spans {
		c := r.Comm(s)
		if c == nil || c.Group == trace.None {
			continue
		}
		key := collective{c.Group, c.Seq, c.Op}
		m, ok := t.collectives[key]
		if !ok {
			m = meeting{start: s.Start, end: s.End}
		}
		t.collectives[key] = meeting{m.ranks + 1, max(m.start, s.Start), min(m.end, s.End)}
	}
	return t
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
	var says []string
	say := func(format string, args ...any) { says = append(says, fmt.Sprintf(format, args...)) }
	if c := r.Comm(s); c != nil {
		says = append(says, t.communication(s, c)...)
	}
	if c := r.Copy(s); c != nil {
		say("%s", c.Dir)
		if c.Bytes > 0 {
			say("%s", layout.Bytes(c.Bytes))
		}
		if c.Peer != trace.None {
			say("rank %d", c.Peer)
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
		say("%s", size)
	}
	if op := r.Operator(k); op != nil {
		say("%s", op.Name)
	}
	return strings.Join(says, " · ")
}

// communication parts a collective's time into waiting for peers and moving
// bytes, which move only while all ranks are there.
func (t *texts) communication(s trace.Span, c *trace.Comm) []string {
	says := []string{c.Op.String()}
	if c.Bytes() > 0 {
		says = append(says, layout.Bytes(c.Bytes()))
	}
	if c.Group == trace.None {
		return says
	}
	g := t.run.Groups[c.Group]
	says = append(says, fmt.Sprintf("group %s of %d", g.Name, g.Size))
	m := t.collectives[collective{c.Group, c.Seq, c.Op}]
	if m.ranks < 2 || m.end <= m.start {
		return says
	}
	moves := fmt.Sprintf("moves bytes for %s", layout.Short(m.end-m.start))
	if wire := c.Op.WireBytes(c.Bytes(), max(g.Size, m.ranks)); wire > 0 {
		moves += fmt.Sprintf(" at %.1f GB/s", float64(wire)/float64(m.end-m.start))
	}
	if s.Start < m.start {
		says = append(says, fmt.Sprintf("waits %s for peers", layout.Short(m.start-s.Start)))
	}
	return append(says, moves)
}
