package chrome

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
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
