package overlap

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// column is the time that one column of a drawn timeline stands for.
const column trace.Time = 10

// timeline builds a run from rows like
//
//	gpu0/compute |AAAA..BB|
//	gpu0/comm    |..CCCC..|
//	gpu0/copy    |......DD|
//	gpu0/host    |ab.c.sss|
//
// A letter is a span for as long as it lasts. A letter of a host row is the
// call that launches the work with the capital letter, s a call that waits for
// the device. Work on a row "comm" is a collective: the n-th of every rank is
// the same operation, unless the row is named "p2p" or "transfer".
func timeline(t testing.TB, drawn string) *trace.Run {
	t.Helper()
	var b trace.Builder
	rows := map[string]int32{}
	for _, line := range strings.Split(strings.TrimSpace(drawn), "\n") {
		label, cells, ok := strings.Cut(strings.TrimSpace(line), "|")
		gpu, kind, ok2 := strings.Cut(strings.TrimSpace(label), "/")
		if !ok || !ok2 {
			t.Fatalf("not a row: %q", line)
		}
		row, ok := rows[gpu]
		if !ok {
			row = b.AddRank(trace.Rank{ID: len(rows)})
			rows[gpu] = row
		}
		addRow(&b, row, kind, strings.TrimSuffix(cells, "|"))
	}
	return b.Finish(trace.Options{KeepZero: true})
}

func addRow(b *trace.Builder, row int32, kind, cells string) {
	seq := int64(0)
	for at := 0; at < len(cells); {
		end := at + 1
		for end < len(cells) && cells[end] == cells[at] {
			end++
		}
		if cells[at] != '.' {
			s := trace.Span{
				Start: trace.Time(at) * column, End: trace.Time(end) * column,
				Name: b.Intern(cells[at : at+1]), Parent: trace.None, Attr: trace.None,
			}
			correlation := 1 + int64(strings.ToUpper(cells[at : at+1])[0])
			addSpan(b, row, kind, s, correlation, seq)
			seq++
		}
		at = end
	}
}

func addSpan(b *trace.Builder, row int32, kind string, s trace.Span, correlation, seq int64) {
	lane := trace.Lane{Kind: trace.Queue, Rank: row, Peer: trace.None}
	kernel := trace.Kernel{Correlation: correlation, Comm: trace.None, Op: trace.None, Origin: trace.None}
	copied := trace.CopyAttr{Correlation: correlation, Peer: trace.None, Op: trace.None, Origin: trace.None}
	switch kind {
	case "compute":
		s.Kind, s.Attr = trace.Compute, b.AddKernel(kernel)
	case "comm", "more": // of two communicators
		group := trace.Group{Name: "world", Size: 2}
		if lane.ID = 1; kind == "more" {
			lane.ID, group.Name = 4, kind
		}
		kernel.Comm = b.AddComm(trace.Comm{Op: trace.AllReduce, Group: b.AddGroup(group), Seq: seq, In: 1 << 20, Out: 1 << 20, Peer: trace.None})
		s.Kind, s.Attr = trace.Collective, b.AddKernel(kernel)
	case "copy":
		lane.ID = 2
		s.Kind, s.Attr = trace.Copy, b.AddCopy(copied)
	case "p2p":
		lane.ID = 3
		copied.Dir = trace.PeerToPeer
		s.Kind, s.Attr = trace.Copy, b.AddCopy(copied)
	case "transfer":
		lane.Kind = trace.Link
		s.Kind, s.Attr = trace.Transfer, b.AddCopy(copied)
	case "host":
		lane.Kind = trace.HostThread
		s.Kind = trace.Launch
		s.Attr = b.AddCall(trace.Call{Correlation: correlation, Op: trace.None})
		if b.Intern("s") == s.Name {
			s.Kind, s.Name = trace.HostCall, b.Intern("cudaStreamSynchronize")
		}
	default:
		panic(fmt.Sprintf("no kind of row: %s", kind))
	}
	s.Lane = b.Lane(lane)
	b.Add(s)
}
