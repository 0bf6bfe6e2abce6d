package format

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// toy reads lines of a name, a start and an end in nanoseconds.
func toy(in *input) (*trace.Run, error) {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{ID: trace.RankInName(in.name), Source: in.name})
	queue := b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, Peer: trace.None})
	lines := bufio.NewScanner(in.text())
	for n := int64(1); lines.Scan(); n++ {
		var name string
		var start, end trace.Time
		if n == 1 {
			continue
		}
		if _, err := fmt.Sscan(lines.Text(), &name, &start, &end); err != nil {
			return nil, &trace.SyntaxError{File: in.name, Pos: n, Unit: "line", Msg: "no span", Err: err}
		}
		b.Add(trace.Span{Start: start, End: end, Name: b.Intern(name), Lane: queue, Parent: trace.None, Kind: trace.Compute, Attr: trace.None})
	}
	if err := lines.Err(); err != nil {
		return nil, &trace.SyntaxError{File: in.name, Msg: "read failed", Err: err}
	}
	return b.Finish(trace.Options{Name: in.name, Epoch: 1e18}), nil
}

// A reader is added by one row: folders, compression, archives, limits and
// messages follow from it.
func TestAddReader(t *testing.T) {
	row := format{
		name: "toy trace (.toy)", extensions: []string{".toy"}, read: toy,
		sniff: func(head []byte, _ string) bool { return bytes.HasPrefix(head, []byte("toy\n")) },
	}
	o := Options{formats: append(table(), row)}
	const text = "toy\ngemm 100 200\nnorm 300 350\n"
	dir := folder(t, map[string]string{"rank0.toy": text, "rank1.toy.gz": zipped(text), "notes.txt": "hello"})
	run := must.Have(Open(dir, o))(t)
	if len(run.Ranks) != 2 || len(run.Spans) != 4 || run.End != 250 {
		t.Errorf("%d ranks, %d spans, end %d", len(run.Ranks), len(run.Spans), run.End)
	}
	path := folder(t, map[string]string{"a.zip": archivedAs(t, map[string]string{"x/rank3.toy": text})}) + "/a.zip"
	if run, err := Open(path, o); err != nil || run.Ranks[0].ID != 3 {
		t.Errorf("in an archive: %v", err)
	}
	if _, err := Open(folder(t, nil), o); err == nil || !strings.Contains(err.Error(), row.name) {
		t.Errorf("not among what is read: %v", err)
	}
	o.Limit = 10
	if _, err := Open(dir, o); err == nil || !strings.Contains(err.Error(), "raise --limit") {
		t.Errorf("beyond the limit: %v", err)
	}
}
