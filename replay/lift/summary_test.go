package lift

import (
	"encoding/json"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

func TestSummary(t *testing.T) {
	w := lift(t, drawing{
		text: `0 mark |<s#0 ><s#1 >|
		       0 host |g  r  h  s  |
		       0 7    | GGGRR HHSS |
		       1 7    | GGGRR HHSS |`,
		parts: map[byte]part{
			'G': {name: "sgemm_16x16_x", op: gemm(32, 64, 16), grid: 8, block: 128},
			'H': {name: "sgemm_16x16_x", op: gemm(32, 64, 16), grid: 8, block: 128},
			'R': comm(trace.AllReduce, 0, 0, 4096),
			'S': comm(trace.AllReduce, 0, 1, 4096),
		},
		groups: []trace.Group{{Name: "tp", Ranks: []int{0, 1, 2}, Size: 3}},
		ranks:  []trace.Rank{{ID: 0, World: 3, Source: "rank0.json"}, {ID: 1, World: 3, Source: "rank1.json", Uncertainty: 7}},
		device: trace.Device{Name: "GPU"},
	}, Options{})
	got := must.Have(json.MarshalIndent(workload.Of(w, nil), "", "  "))(t)
	golden(t, "summary", append(got, '\n'))
}
