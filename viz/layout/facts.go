package layout

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A Fact is one property of a span, as text.
type Fact struct{ Name, Value string }

// Facts lists the properties of a span: times first, then those of its kind, then
// those that depend on other spans, such as the wait for peers.
func (t *Timeline) Facts(row int, id trace.SpanID) []Fact {
	r, s := t.Run(row), t.Span(row, id)
	f := facts{run: r}
	f.add("kind", s.Kind.String())
	f.add("duration", Exact(s.Dur()))
	f.add("start", Exact(s.Start+t.Offset(row)))
	f.add("end", Exact(s.End+t.Offset(row)))
	f.add("on", strings.TrimSpace(fmt.Sprintf("rank %d %s", r.RankID(r.Lanes[s.Lane].Rank), r.LaneLabel(s.Lane))))
	if t.Rows[row].Strip {
		return f.list
	}
	f.kernel(id, r.Kernel(s))
	f.comm(id, r.Comm(s))
	f.copy(s, r.Copy(s))
	f.workgroup(id, r.Workgroup(s))
	f.call(id)
	return f.list
}

type facts struct {
	run  *trace.Run
	list []Fact
}

func (f *facts) add(name, value string) {
	if value != "" {
		f.list = append(f.list, Fact{name, strings.TrimSpace(value)})
	}
}

func (f *facts) count(name string, n int64, unit string) {
	if n != 0 {
		f.add(name, strings.TrimSpace(fmt.Sprintf("%d %s", n, unit)))
	}
}

func (f *facts) kernel(id trace.SpanID, k *trace.Kernel) {
	if k == nil {
		return
	}
	s := f.run.Setup(k)
	if s.WGs() > 0 {
		f.add("grid", fmt.Sprintf("%s = %d workgroups", extent(s.Grid), s.WGs()))
	}
	if s.Threads() > 0 {
		f.add("workgroup", fmt.Sprintf("%s = %d threads", extent(s.Block), s.Threads()))
	}
	f.count("registers", int64(s.Registers), "a thread")
	f.count("shared memory", int64(s.Shared), "bytes a workgroup")
	f.count("stream", max(0, s.Stream), "") // a simulation numbers streams that it adds from -1 down
	f.count("priority", int64(s.Priority), "")
	f.operator(k.Op)
	f.count("correlation", k.Correlation, "")
	if call := counterpart(f.run, id); call != trace.None {
		c := f.run.Spans[call]
		f.add("launched by", f.run.NameOf(c))
		f.add("after launch", Exact(f.run.Spans[id].Start-c.End))
	}
}

func extent(d [3]int32) string { return fmt.Sprintf("%d×%d×%d", d[0], d[1], d[2]) }

func (f *facts) operator(op int32) {
	if op == trace.None || int(op) >= len(f.run.Operators) {
		return
	}
	o := &f.run.Operators[op]
	text := o.Name
	if len(o.Dims) > 0 {
		text += " " + fmt.Sprint(o.Dims)
	}
	f.add("operator", text)
}

func (f *facts) comm(id trace.SpanID, c *trace.Comm) {
	if c == nil {
		return
	}
	if c.Op != trace.UnknownOp {
		f.add("collective", c.Op.String())
	}
	ranks := 0
	if c.Group != trace.None {
		g := &f.run.Groups[c.Group]
		ranks = max(g.Size, len(g.Ranks))
		f.add("group", strings.TrimSpace(fmt.Sprintf("%s, %d ranks %s", g.Name, ranks, rankList(g.Ranks))))
		f.add("sequence", strconv.FormatInt(c.Seq, 10))
	}
	if c.In != 0 || c.Out != 0 {
		f.add("bytes", fmt.Sprintf("%s in, %s out %s", trace.Bytes(c.In), trace.Bytes(c.Out), c.DType))
	}
	if c.Peer != trace.None {
		f.add("peer", fmt.Sprintf("rank %d", c.Peer))
	}
	f.transfer(id, c, ranks)
}

func rankList(ranks []int) string {
	if len(ranks) == 0 || len(ranks) > 16 {
		return ""
	}
	return fmt.Sprint(ranks)
}

// transfer splits a collective's time into waiting for peers and moving bytes.
func (f *facts) transfer(id trace.SpanID, comm *trace.Comm, ranks int) {
	s := f.run.Spans[id]
	c := f.run.Collective(s)
	if comm.Group == trace.None || len(c.Members) < 2 {
		f.rate(cmp.Or(comm.Sent, comm.Op.WireBytes(comm.Bytes(), ranks)), s.Dur())
		return
	}
	if last := c.Last(); last.Row != int32(f.run.RankOf(s)) && last.Start > s.Start {
		f.add("waits for peers", fmt.Sprintf("%s, the last is rank %d", Exact(last.Start-s.Start), f.run.RankID(last.Row)))
	}
	f.add("transfer", Exact(c.Transfer))
	f.rate(cmp.Or(comm.Sent, comm.Op.WireBytes(comm.Bytes(), max(ranks, len(c.Members)))), c.Transfer)
}

func (f *facts) rate(bytes int64, d trace.Time) {
	if bytes > 0 && d > 0 {
		f.add("rate", fmt.Sprintf("%.1f GB/s a rank", float64(bytes)/float64(d)))
	}
}

func (f *facts) copy(s trace.Span, c *trace.CopyAttr) {
	if c == nil {
		return
	}
	if s.Kind == trace.Copy || c.Dir != trace.UnknownDir {
		f.add("direction", c.Dir.String())
	}
	if c.Bytes > 0 {
		f.add("bytes", trace.Bytes(c.Bytes))
	}
	if c.Bytes > 0 && s.Dur() > 0 {
		f.add("rate", fmt.Sprintf("%.1f GB/s", float64(c.Bytes)/float64(s.Dur())))
	}
	if c.Peer != trace.None {
		f.add("peer", fmt.Sprintf("rank %d", c.Peer))
	}
	f.operator(c.Op)
	f.count("correlation", c.Correlation, "")
}

func (f *facts) workgroup(id trace.SpanID, w *trace.WorkgroupAttr) {
	s := f.run.Spans[id]
	if s.Kind.InKernel() && s.Parent != trace.None {
		up := s.Parent
		if f.run.Spans[up].Kind == trace.Workgroup && f.run.Spans[up].Parent != trace.None {
			up = f.run.Spans[up].Parent
		}
		f.add("of", f.run.NameOf(f.run.Spans[up]))
	}
	if w == nil {
		return
	}
	for _, x := range []struct {
		name  string
		value int32
	}{{"tile", w.ID}, {"persistent WG", w.Persistent}, {"CU", w.CU}, {"to rank", w.Peer}, {"tile row", w.Row}, {"tile column", w.Col}} {
		if x.value != trace.None {
			f.add(x.name, strconv.Itoa(int(x.value)))
		}
	}
	if s.Kind == trace.Workgroup {
		f.phases(id)
	}
}

// phases sums up a workgroup's time by phase. Its phases follow it closely.
func (f *facts) phases(id trace.SpanID) {
	wg := f.run.Spans[id]
	var order []trace.Kind
	spent := map[trace.Kind]trace.Time{}
	for i := int(id) + 1; i < len(f.run.Spans) && f.run.Spans[i].Start <= wg.End; i++ {
		if s := f.run.Spans[i]; s.Parent == id && s.Dur() > 0 {
			if !slices.Contains(order, s.Kind) {
				order = append(order, s.Kind)
			}
			spent[s.Kind] += s.Dur()
		}
	}
	for _, k := range order {
		f.add(strings.TrimSuffix(k.String(), " phase")+" for", Exact(spent[k]))
	}
}

func (f *facts) call(id trace.SpanID) {
	s := f.run.Spans[id]
	if s.Kind != trace.HostCall && s.Kind != trace.Launch || s.Attr == trace.None {
		return
	}
	c := &f.run.Calls[s.Attr]
	f.operator(c.Op)
	f.count("correlation", c.Correlation, "")
	if k := counterpart(f.run, id); k != trace.None {
		f.add("launches", f.run.NameOf(f.run.Spans[k]))
		f.add("which starts after", Exact(f.run.Spans[k].Start-s.End))
	}
}

// counterpart is the host call that launched a kernel or copy, or the first
// device work that a host call launched; None where the run does not say.
func counterpart(r *trace.Run, id trace.SpanID) trace.SpanID {
	s := r.Spans[id]
	if s.Kind.OnDevice() {
		return r.LaunchOf(s)
	}
	if s.Kind == trace.Launch {
		for i, o := range r.Spans {
			if r.LaunchOf(o) == id && o.Kind.OnDevice() {
				return trace.SpanID(i)
			}
		}
	}
	return trace.None
}

// Stalls are the intervals in which the queue of a row had work and ran nothing, on the axis.
func (t *Timeline) Stalls(row int) (stalls []overlap.Reason) {
	r := &t.Rows[row]
	if r.Lane == trace.None {
		return nil
	}
	v := &t.Views[r.View]
	lane := &v.Run.Lanes[r.Lane]
	for _, g := range v.Gaps {
		if lane.Kind == trace.Queue && lane.Sub == 0 && g.Rank == lane.Rank && g.Queue == lane.ID {
			g.Start, g.End = g.Start+v.Offset, g.End+v.Offset
			stalls = append(stalls, g)
		}
	}
	return stalls
}
