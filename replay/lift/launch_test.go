package lift

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A kernel of the program's own has no operator of the framework around its
// launch, a library's has; what launching took is the median over calls.
func TestLaunchers(t *testing.T) {
	for name, own := range map[string]bool{"moe-down-triton": true, "llama70b-fc2-allreduce": false} {
		run := must.Have(format.Open("../../samples/"+name, format.Options{}))(t)
		w := must.Have(Workload(run, Options{}))(t)
		for i := range w.Ops {
			if op := &w.Ops[i]; op.Compiled != (own && op.Kind == trace.Compute) {
				t.Errorf("%s: %s: own launcher %t", name, op.Name, op.Compiled)
			}
		}
		for rank, call := range w.Calls {
			if call < 2_000 || call > 20_000 {
				t.Errorf("%s: rank %d: launches take %d ns", name, rank, call)
			}
		}
	}
	if got := overlap.UpperMedian([]trace.Time{9, 1, 5}); got != 5 {
		t.Errorf("median %d", got)
	}
}
