package chrome

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A header that overlapse did not write like this is refused, with a reason.
func TestNativeHeader(t *testing.T) {
	var b trace.Builder
	lane := b.Lane(trace.Lane{Kind: trace.Queue, Rank: b.AddRank(trace.Rank{World: 2}), Peer: trace.None})
	for i := range trace.Time(2) {
		b.Add(trace.Span{Start: i, End: i + 1, Name: b.Intern("k"), Lane: lane, Parent: trace.None, Kind: trace.Compute, Attr: trace.None})
	}
	run := b.Finish(trace.Options{Epoch: 1e18})
	spans := func(change func(s *trace.Span)) func(h *nativeHeader) {
		return func(h *nativeHeader) {
			changed := append([]trace.Span(nil), run.Spans...)
			change(&changed[1])
			var rows bytes.Buffer
			z := must.Have(flate.NewWriter(&rows, flate.BestSpeed))(t)
			must.Do(t, binary.Write(z, binary.LittleEndian, changed))
			must.Do(t, z.Close())
			h.Rows[0] = rows.Bytes()
		}
	}
	for _, c := range []struct {
		what, want string
		change     func(h *nativeHeader)
	}{
		{"as written", "", func(*nativeHeader) {}},
		{"half a row is none", "", func(h *nativeHeader) {
			h.Rows[1] = h.Rows[1][:0:0]
			h.Rows[1] = append(h.Rows[1], 1, 1, 0, 254, 255, 7)
		}},
		{"an earlier version", "older than this program", func(h *nativeHeader) { h.Version = 1 }},
		{"a table less", "older than this program", func(h *nativeHeader) { h.Rows = h.Rows[1:] }},
		{"cut short", "unexpected EOF", func(h *nativeHeader) { h.Rows[0] = h.Rows[0][:3] }},
		{"no name", "name 9 of 2", spans(func(s *trace.Span) { s.Name = 9 })},
		{"no lane", "lane -1 of 1", spans(func(s *trace.Span) { s.Lane = -1 })},
		{"a parent that does not contain it", "its parent 0 from 0 to 1", spans(func(s *trace.Span) { s.Parent = 0 })},
		{"a span before the one before it", "before its predecessor's", spans(func(s *trace.Span) { s.Start = -5 })},
		{"a wait of no rank", "on rank row 4", func(h *nativeHeader) {
			waits := *run
			waits.Waits = []trace.Wait{{Rank: 4, Call: trace.None, Recorded: trace.None}}
			h.Rows = must.Have(newNativeHeader(&waits))(t).Rows
		}},
	} {
		h := must.Have(newNativeHeader(run))(t)
		c.change(&h)
		text := `{"overlapse":` + string(must.Have(json.Marshal(h))(t)) + `,"traceEvents":[]}`
		back, err := Read(strings.NewReader(text), Options{File: "x.json"})
		switch {
		case c.want == "" && (err != nil || len(back.Spans) != 2 || trace.Validate(back) != nil):
			t.Errorf("%s: %v, %v", c.what, back, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}
