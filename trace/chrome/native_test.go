package chrome

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// nativeTrace is the output of Write for a kernel with a workgroup.
func nativeTrace(t *testing.T, rank int) string {
	t.Helper()
	var b trace.Builder
	b.AddRank(trace.Rank{ID: rank, World: 2, Source: fmt.Sprintf("rank%d.json", rank)})
	k := b.Add(trace.Span{Start: 0, End: 9000, Name: b.Intern("k"), Lane: b.Lane(trace.Lane{Kind: trace.Queue, Peer: trace.None}), Parent: trace.None, Kind: trace.Compute, Attr: trace.None})
	b.Add(trace.Span{Start: 1000, End: 2000, Name: b.Intern("w"), Lane: b.Lane(trace.Lane{Kind: trace.Slot, Peer: trace.None}), Parent: k, Kind: trace.Workgroup, Attr: trace.None})
	var out bytes.Buffer
	must.Do(t, Write(&out, b.Finish(trace.Options{Epoch: 1e18}), nil, nil, nil))
	return out.String()
}

// A file may give a span a parent that does not contain it.
func TestNativeSpanOutsideOfItsParent(t *testing.T) {
	for _, c := range []struct{ what, from, to string }{
		{"starts before", `"ts":0.000,"dur":9.000`, `"ts":5.000,"dur":9.000`},
		{"ends after", `"ts":1.000,"dur":1.000`, `"ts":1.000,"dur":9.000`},
	} {
		var runs []*trace.Run
		for rank := range 2 {
			text := nativeTrace(t, rank)
			if !strings.Contains(text, c.from) {
				t.Fatalf("no %s in %s", c.from, text)
			}
			run := must.Have(Read(strings.NewReader(strings.Replace(text, c.from, c.to, 1)), Options{File: "x.json"}))(t)
			if err := trace.Validate(run); err != nil || !strings.Contains(fmt.Sprint(run.Ledger), "a span outside of its parent: parent removed") {
				t.Errorf("%s: %v, %v", c.what, err, run.Ledger)
			}
			runs = append(runs, run)
		}
		if _, err := assemble.Join(runs, "both"); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
