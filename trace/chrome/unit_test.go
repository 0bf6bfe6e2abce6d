package chrome

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

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
