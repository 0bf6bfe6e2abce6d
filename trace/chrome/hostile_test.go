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

// TestHostileShapes reads traces whose events all differ in one field, the worst case
// of a linear search: a reader with quadratic time does not finish.
func TestHostileShapes(t *testing.T) {
	const n = 100_000
	for _, c := range []struct {
		name, event string // formatted with the event's number
	}{
		{"threads", `{"ph":"X","name":"a","ts":1,"dur":1,"pid":1,"tid":"t%d"}`},
		{"processes", `{"ph":"X","name":"a","ts":1,"dur":1,"pid":"p%d","tid":1}`},
		{"names", `{"ph":"X","name":"a%d","ts":1,"dur":1,"pid":1,"tid":1}`},
		{"overlaps on a queue", `{"ph":"X","cat":"kernel","name":"a","ts":%d,"dur":1000000,"pid":1,"tid":1}`},
		{"nesting", `{"ph":"X","name":"a","ts":%d,"dur":1000000,"pid":1,"tid":1}`},
		{"open begins", `{"ph":"B","name":"a","ts":%d,"pid":1,"tid":1}`},
		{"streams", `{"ph":"X","cat":"kernel","name":"a","ts":1,"dur":1,"pid":1,"tid":%d}`},
		{"ranks", `{"ph":"X","cat":"kernel","name":"a","ts":1,"dur":1,"pid":1,"tid":1,"args":{"rank":%d,"pid_raw":1}}`},
		{"groups", `{"ph":"X","cat":"kernel","name":"nccl","ts":%[1]d,"dur":1,"pid":1,"tid":1,"args":{"Collective name":"allreduce","Group size":2,"Process Group Name":"g%[1]d"}}`},
		{"correlations", `{"ph":"X","cat":"cuda_runtime","name":"a","ts":1,"dur":1,"pid":1,"tid":1,"args":{"correlation":%d}}`},
		{"identities", `{"ph":"b","cat":"c","id":%d,"name":"a","ts":1,"pid":1,"tid":1}`},
		{"categories", `{"ph":"b","cat":"c%d","id":1,"name":"a","ts":1,"pid":1,"tid":1}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			b.WriteString("[")
			for i := range n {
				fmt.Fprintf(&b, c.event+",\n", i)
			}
			run := must.Have(Read(strings.NewReader(b.String()), Options{}))(t)
			if len(run.Spans) != n {
				t.Errorf("%d spans of %d events", len(run.Spans), n)
			}
		})
	}
}

// TestHostileHeader reads a header with more groups than any job has.
func TestHostileHeader(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"distributedInfo":{"pg_config":[{"pg_name":"x","pg_size":2}`)
	for i := range 100_000 {
		fmt.Fprintf(&b, `,{"pg_name":"%d","pg_size":2,"ranks":[0,1]}`, i)
	}
	b.WriteString(`]},"traceEvents":[{"ph":"X","cat":"kernel","name":"nccl","ts":1,"dur":1,"pid":1,"tid":1,"args":{"Collective name":"send","Dst Rank":4000000000,"In msg nelems":9223372036854775807,"dtype":"Double","Group size":-5}}]}`)
	run := must.Have(Read(strings.NewReader(b.String()), Options{}))(t)
	if c := run.Comms[0]; len(run.Groups) < 100_000 || c.Peer != trace.None || c.Bytes() != 0 {
		t.Errorf("%d groups, %+v", len(run.Groups), c)
	}
}

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

// Times are nanoseconds where every launch would take a millisecond and more, and no time has decimals.
func TestNanoseconds(t *testing.T) {
	for _, c := range []struct {
		launch string
		calls  int
		want   trace.Time // of the first kernel
	}{
		{"4200", 12, 60_000},
		{"4200", 3, 60_000_000},    // too few to tell
		{"4200.5", 12, 60_000_000}, // microseconds with decimals
		{"42", 12, 60_000_000},     // launches of 42 µs
		{"4200000", 12, 60_000},    // launches that waited for a full queue
	} {
		var events []string
		for i := range c.calls {
			at := i * 10_000_000
			events = append(events,
				fmt.Sprintf(`{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": %d, "dur": %s, "args": {"correlation": %d}}`, at, c.launch, i+1),
				fmt.Sprintf(`{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": %d, "dur": 60000, "args": {"correlation": %d, "device": 0, "stream": 7}}`, at+5_000_000, i+1))
		}
		run := must.Have(Read(strings.NewReader(`{"schemaVersion": 1, "traceEvents": [`+strings.Join(events, ",")+`]}`), Options{File: "ns.json"}))(t)
		for _, s := range run.Spans {
			if s.Kind == trace.Compute {
				if s.Dur() != c.want {
					t.Errorf("%d launches of %s: a kernel takes %d ns, want %d", c.calls, c.launch, s.Dur(), c.want)
				}
				break
			}
		}
	}
}
