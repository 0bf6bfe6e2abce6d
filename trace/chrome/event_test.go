package chrome

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
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

// Operators with inputs of the same sizes and other strides are other operators. Strides of contiguous inputs are not kept; an axis
// of size 1 tells by its stride where it lies. A file for PyTorch's tools has all of them.
func TestStrides(t *testing.T) {
	operator := func(ts int, dims, strides string) string {
		return fmt.Sprintf(`{"ph":"X","cat":"cpu_op","name":"aten::linear","pid":7,"tid":7,"ts":%d,"dur":5,"args":{"External id":%d,"Input Dims":[%s,[3,4],[]],"Input type":["float","float",""],"Input Strides":[%s,[4,1],[]]}},`, ts, ts, dims, strides)
	}
	in := `{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA H200"}],"distributedInfo":{"rank":0,"world_size":1},"traceEvents":[` +
		operator(10, "[5,2,4]", "[8,4,1]") + operator(20, "[5,2,4]", "[4,20,1]") + operator(30, "[5,2,4]", "[4,20,1]") +
		operator(40, "[5,1,4]", "[4,4,1]") + operator(50, "[5,1,4]", "[4,20,1]") + operator(60, "[5,2,4]", "[8,4]") +
		`{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":200,"dur":10,"args":{"External id":10,"device":0,"stream":7,"correlation":1}}]}`
	run := must.Have(Read(strings.NewReader(in), Options{File: "a.json"}))(t)
	of := func(run *trace.Run) (list []string) {
		for _, o := range run.Operators {
			list = append(list, fmt.Sprint(o.Dims[0], o.Strides))
		}
		return list
	}
	want := []string{"[5 2 4] []", "[5 2 4] [[4 20 1] [] []]", "[5 1 4] []", "[5 1 4] [[4 20 1] [] []]", "[5 2 4] []"}
	if diff := cmp.Diff(want, of(run)); diff != "" {
		t.Error(diff)
	}
	var file strings.Builder
	must.Do(t, WriteRank(&file, run, 0, nil))
	if !strings.Contains(file.String(), `"Input Strides":[[4,20,1],[4,1],[]]`) {
		t.Errorf("%s lacks the strides", file.String())
	}
	again := must.Have(Read(strings.NewReader(file.String()), Options{File: "b.json"}))(t)
	if got := slices.Compact(of(again)); !slices.Equal(got, want[:4]) {
		t.Errorf("read again: %q", got)
	}
}
