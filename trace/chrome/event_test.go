package chrome

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace/lex"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// FuzzEvent: an event has the same members as with encoding/json.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"ph":"X","name":"a\u0062\ud83d\ude42","ts":1.5,"dur":"2","args":{"stream":7,"n\u0061me":"x"},"ts":3}`))
	f.Add([]byte(`{"args":{"name":1},"args":null,"\u006eame":"\/\b"}`))
	f.Add([]byte("{\"name\":\"bad \xff\xfe utf\\ud800\"}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var want map[string]json.RawMessage
		if json.Unmarshal(b, &want) != nil || want == nil {
			t.Skip()
		}
		b = append(b, '\n')
		var e event
		if j := e.decode(b, lex.SkipSpace(b, 0)); j < 0 {
			t.Fatalf("refused with %d", j)
		}
		for key, got := range map[string][]byte{"name": e.name, "cat": e.cat, "ts": e.ts, "dur": e.dur, "pid": e.pid, "tid": e.tid, "id": e.id} {
			if !bytes.Equal(got, want[key]) {
				t.Errorf("%s: got %q, want %q", key, got, want[key])
			}
		}
		var name string
		if len(e.name) > 0 && e.name[0] == '"' && json.Unmarshal(e.name, &name) == nil {
			if got := newReader(Options{}).string(e.name); got != name {
				t.Errorf("name: got %q, want %q", got, name)
			}
		}
		var args map[string]json.RawMessage
		if json.Unmarshal(want["args"], &args) == nil {
			for key, got := range map[string][]byte{"name": e.args.name, "stream": e.args.stream, "grid": e.args.grid} {
				if !bytes.Equal(got, args[key]) {
					t.Errorf("args.%s: got %q, want %q", key, got, args[key])
				}
			}
		}
	})
}

// TestWindowPiecesDoNotMatter reads the same bytes in pieces of every size.
func TestWindowPiecesDoNotMatter(t *testing.T) {
	const in = `{"x":[1,[2,{"y":"z"}],{}],"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":1}, {}, 7],"otherData":{"k":"v"}}`
	want := must.Have(Read(strings.NewReader(in), Options{}))(t)
	for size := 1; size < 40; size++ {
		got, err := Read(&pieces{[]byte(in), size}, Options{})
		if err != nil {
			t.Fatal(size, err)
		}
		if d := sameRun(want, got); d != "" {
			t.Fatal(size, d)
		}
	}
}

type pieces struct {
	b    []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.b[:min(p.size, len(p.b))])
	p.b = p.b[n:]
	return n, nil
}
