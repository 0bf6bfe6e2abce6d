package verdict

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
)

// A fused kernel's communication is inside it: of the 132 workgroups' time on four ranks, 59.8 % compute for peers, 19.8 % for the own
// rank, 12.0 % stores and 7.1 % tail, which the rows of the files sum up to. Kernels without such workgroups say nothing.
func TestInside(t *testing.T) {
	open := func(sample string) *trace.Run {
		run, err := format.Open("../../samples/"+sample, format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	run := open("moe-down-fused-wg")
	want := "3072 workgroups or tiles store to other ranks; of their places' time: compute for peers 60 %, compute for the own rank 20 %, stores 12 %, tail 7 %, between workgroups 1 %"
	if got := insideText(run); !strings.HasSuffix(got, want) {
		t.Errorf("%s, want ...%s", got, want)
	}
	for i := range run.Workgroups { // every tile for the own rank
		run.Workgroups[i].Peer = trace.None
	}
	if got := insideText(run) + insideText(open("moe-down-triton")); got != "" {
		t.Error(got)
	}
}
