package chrome

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// A row is a span with the values that its indices refer to.
type row struct {
	Span      trace.Span
	Name      string
	Lane      trace.Lane
	Parent    string
	Kernel    *trace.Kernel
	Setup     trace.Setup
	Comm      *trace.Comm
	Group     *trace.Group
	Copy      *trace.CopyAttr
	Workgroup *trace.WorkgroupAttr
	Call      *trace.Call
	Operator  *trace.Operator
}

// rowsOf resolves all indices, so that runs whose tables are in different order compare
// equal.
func rowsOf(run *trace.Run) []row {
	rows := make([]row, len(run.Spans))
	for i, s := range run.Spans {
		r := row{Span: s, Name: run.NameOf(s), Lane: run.Lanes[s.Lane]}
		if s.Parent != trace.None {
			p := run.Spans[s.Parent]
			r.Parent = fmt.Sprint(run.NameOf(p), p.Start, p.End, run.Lanes[p.Lane])
		}
		op := int32(trace.None)
		if k := run.Kernel(s); k != nil {
			c := *k
			r.Kernel, r.Setup, op = &c, run.Setup(k), k.Op
			c.Setup = 0
			if m := run.Comm(s); m != nil {
				c := *m
				r.Comm = &c
				if m.Group != trace.None {
					r.Group, c.Group = &run.Groups[m.Group], 0
				}
				r.Kernel.Comm = 0
			}
		}
		if c := run.Copy(s); c != nil {
			d := *c
			r.Copy, op = &d, c.Op
		}
		if (s.Kind == trace.HostCall || s.Kind == trace.Launch) && s.Attr != trace.None {
			c := run.Calls[s.Attr]
			r.Call, op = &c, c.Op
		}
		if w := run.Workgroup(s); w != nil {
			r.Workgroup = w
		}
		if op != trace.None {
			r.Operator = &run.Operators[op]
		}
		if r.Kernel != nil {
			r.Kernel.Op = 0
		}
		if r.Copy != nil {
			r.Copy.Op = 0
		}
		if r.Call != nil {
			r.Call.Op = 0
		}
		if r.Span.Attr != trace.None {
			r.Span.Attr = 0
		}
		r.Span.Name, r.Span.Lane, r.Span.Parent = 0, 0, 0
		rows[i] = r
	}
	return rows
}

// sameRun reports the differences of two runs, except for ledgers and the order of
// tables.
func sameRun(a, b *trace.Run) string {
	if d := cmp.Diff(rowsOf(a), rowsOf(b)); d != "" {
		return d
	}
	type rest struct {
		Name      string
		Ranks     []trace.Rank
		Lanes     []trace.Lane
		Groups    []trace.Group
		Epoch     int64
		End       trace.Time
		Simulated bool
		Uses      []trace.Uses
		Accesses  []trace.Access
		Depends   []trace.Dependency
		Nodes     []trace.Node
	}
	return cmp.Diff(
		rest{a.Name, a.Ranks, a.Lanes, a.Groups, a.Epoch, a.End, a.Simulated, a.Uses, a.Accesses, a.Depends, a.Nodes},
		rest{b.Name, b.Ranks, b.Lanes, b.Groups, b.Epoch, b.End, b.Simulated, b.Uses, b.Accesses, b.Depends, b.Nodes})
}

func writeRead(t interface {
	Helper()
	Fatal(...any)
}, run *trace.Run,
) *trace.Run {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, Write(&b, run, nil, nil, nil))
	if !json.Valid(b.Bytes()) {
		t.Fatal("not valid JSON: ", b.String())
	}
	back := must.Have(Read(&b, Options{File: "back.json"}))(t)
	for _, e := range back.Ledger.Entries {
		t.Fatal("reading back what was written needed: ", e.Action, " ", e.Reason)
	}
	return back
}

func TestWriteThenReadIsIdentity(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		run := anyRun(t)
		if d := sameRun(run, writeRead(t, run)); d != "" {
			t.Fatal(d)
		}
	})
}

// anyRun draws a run with rows of every kind.
func anyRun(t *rapid.T) *trace.Run {
	var b trace.Builder
	text := rapid.String()
	small := rapid.Int32Range(0, 5)
	maybe := func(n int) int32 { return int32(rapid.IntRange(trace.None, n-1).Draw(t, "index")) }
	any32 := rapid.OneOf(rapid.Just(int32(trace.None)), rapid.Int32Range(0, 1<<30))
	ranks := rapid.IntRange(1, 3).Draw(t, "ranks")
	for i := range ranks {
		b.AddRank(trace.Rank{
			ID: i, World: ranks, Source: text.Draw(t, "source"), Host: text.Draw(t, "host"),
			Device:      trace.Device{Name: text.Draw(t, "device"), CUs: 132, MemoryBytes: 1 << 37},
			Uncertainty: trace.Time(i),
		})
	}
	groups := rapid.IntRange(0, 2).Draw(t, "groups")
	for i := range groups {
		b.AddGroup(trace.Group{Name: fmt.Sprint(i, text.Draw(t, "group")), Ranks: []int{0, i + 1}, Size: 2})
	}
	operators := rapid.IntRange(0, 2).Draw(t, "operators")
	for range operators {
		b.AddOperator(trace.Operator{Name: text.Draw(t, "operator"), Dims: [][]int64{{1, 2}, nil}, Types: []string{text.Draw(t, "type"), ""}})
	}
	uses := rapid.Int32Range(0, 2).Draw(t, "uses")
	for i := range uses {
		b.AddUses([]trace.Access{{Storage: 1 + i, Life: small.Draw(t, "life"), From: 3, To: rapid.Int64Range(4, 1<<60).Draw(t, "to"), Read: rapid.Bool().Draw(t, "read"), Write: true}}, i)
	}
	var lanes []trace.LaneID
	for range rapid.IntRange(1, 5).Draw(t, "lanes") {
		l := trace.Lane{
			Kind: trace.LaneKind(rapid.IntRange(0, int(trace.Annotation)).Draw(t, "lane kind")),
			Rank: rapid.Int32Range(0, int32(ranks-1)).Draw(t, "rank"), Device: small.Draw(t, "device"),
			ID: rapid.Int64().Draw(t, "id"), Peer: trace.None, Name: text.Draw(t, "lane"),
		}
		if l.Kind == trace.Link {
			l.Peer = maybe(ranks)
		}
		lanes = append(lanes, b.Lane(l))
	}
	comms := int32(0)
	for i := range rapid.IntRange(0, 12).Draw(t, "spans") {
		start := trace.Time(rapid.Int64Range(0, 1<<55).Draw(t, "start"))
		s := trace.Span{
			Start: start, End: start + trace.Time(rapid.Int64Range(0, 1<<40).Draw(t, "dur")),
			Name: b.Intern(text.Draw(t, "name")), Lane: rapid.SampledFrom(lanes).Draw(t, "lane"),
			Kind:   trace.Kind(rapid.IntRange(0, int(trace.Transfer)).Draw(t, "kind")),
			Parent: trace.None, Attr: trace.None,
		}
		if i > 0 && s.Kind.InKernel() && s.Kind != trace.Workgroup && rapid.Bool().Draw(t, "child") {
			s.Parent = trace.SpanID(rapid.IntRange(0, i-1).Draw(t, "parent"))
			p := b.Span(s.Parent) // which contains its children, on its lane
			s.Start = p.Start + s.Start%(p.Dur()+1)
			s.End, s.Lane = min(s.End, p.End), p.Lane
			s.End = max(s.End, s.Start)
		}
		if rapid.Bool().Draw(t, "bare") {
			b.Add(s)
			continue
		}
		switch {
		case s.Kind == trace.HostCall || s.Kind == trace.Launch:
			s.Attr = b.AddCall(trace.Call{Correlation: rapid.Int64().Draw(t, "correlation"), External: rapid.Int64().Draw(t, "external"), Op: maybe(operators), Sequence: rapid.Int32Min(0).Draw(t, "sequence")})
		case s.Kind == trace.Compute || s.Kind == trace.Collective:
			k := trace.Kernel{
				Correlation: rapid.Int64().Draw(t, "correlation"), Comm: trace.None, Op: maybe(operators), Origin: any32.Draw(t, "origin"),
				Uses: maybe(int(uses)) + 1,
				Setup: b.AddSetup(trace.Setup{
					Grid: [3]int32{small.Draw(t, "x"), 2, 3}, Block: [3]int32{4, 5, small.Draw(t, "z")},
					Shared: any32.Draw(t, "shared") + 1, Registers: small.Draw(t, "registers"),
					Stream: rapid.Int64().Draw(t, "stream"), Priority: rapid.Int32Range(-5, 0).Draw(t, "priority"),
				}),
			}
			if s.Kind == trace.Collective && rapid.Bool().Draw(t, "comm") {
				if comms == 0 || rapid.Bool().Draw(t, "new comm") {
					b.AddComm(trace.Comm{
						Op: trace.CollectiveOp(rapid.IntRange(0, 10).Draw(t, "op")), Group: maybe(groups), Seq: rapid.Int64().Draw(t, "seq"),
						In: rapid.Int64Min(0).Draw(t, "in"), Out: rapid.Int64Min(0).Draw(t, "out"), DType: text.Draw(t, "dtype"), ElemSize: small.Draw(t, "size"), Peer: any32.Draw(t, "peer"),
					})
					comms++
				}
				k.Comm = comms - 1
			}
			s.Attr = b.AddKernel(k)
		case s.Kind == trace.Copy || s.Kind == trace.Transfer:
			s.Attr = b.AddCopy(trace.CopyAttr{
				Bytes: rapid.Int64Min(0).Draw(t, "bytes"), Correlation: rapid.Int64().Draw(t, "correlation"), Stream: rapid.Int64().Draw(t, "stream"),
				Peer: any32.Draw(t, "peer"), Op: maybe(operators), Origin: any32.Draw(t, "origin"), Uses: maybe(int(uses)) + 1, Dir: trace.CopyDir(rapid.IntRange(0, int(trace.Fill)).Draw(t, "dir")),
			})
		case s.Kind.InKernel():
			s.Attr = b.AddWorkgroup(trace.WorkgroupAttr{
				ID: any32.Draw(t, "id"), Persistent: any32.Draw(t, "persistent"), CU: any32.Draw(t, "cu"), Peer: any32.Draw(t, "peer"), Row: any32.Draw(t, "row"), Col: any32.Draw(t, "col"),
			})
		}
		b.Add(s)
	}
	return b.Finish(trace.Options{Name: text.Draw(t, "run"), Epoch: rapid.Int64Range(0, 1<<60).Draw(t, "epoch"), Simulated: rapid.Bool().Draw(t, "simulated")})
}

func TestHostileNamesStayData(t *testing.T) {
	var b trace.Builder
	b.AddRank(trace.Rank{})
	lane := b.Lane(trace.Lane{Kind: trace.Queue, Peer: trace.None})
	names := []string{"\x1b[2J\x07", `"}],"x":[{`, "</script><script>alert(1)</script>", "back\\slash\n\x00", "bad \xff utf-8", strings.Repeat("long", 1<<18), "\u2028 … 🙂"}
	for i, n := range names {
		b.Add(trace.Span{Start: trace.Time(i), End: trace.Time(i), Name: b.Intern(n), Lane: lane, Parent: trace.None, Attr: trace.None})
	}
	run := b.Finish(trace.Options{})
	var out bytes.Buffer
	must.Do(t, Write(&out, run, nil, nil, nil))
	if bytes.ContainsAny(out.Bytes(), "\x1b\x07\x00<>") {
		t.Error("a control character or angle bracket is not escaped")
	}
	back := must.Have(Read(&out, Options{}))(t)
	for i, n := range names {
		if got, want := back.NameOf(back.Spans[i]), strings.ToValidUTF8(n, "\uFFFD"); got != want {
			t.Errorf("name %d: got %.40q, want %.40q", i, got, want)
		}
	}
}
