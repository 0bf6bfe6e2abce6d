package calibrate

import (
	"cmp"
	"fmt"
	"math"

	"github.com/overlapse/overlapse/replay/machine"
)

// A Request is a benchmark to run: what samples/capture/capture.py takes after
// --plan, a JSON object a line, and what its rows then hold besides their times.
type Request struct {
	Workload Workload `json:"workload"`
	Strategy string   `json:"strategy"`
	Params   Params   `json:"params"`
	World    int      `json:"world,omitempty"`
	Trace    string   `json:"trace,omitempty"`
	Why      string   `json:"why"` // what it would narrow
}

// RequestFor is the benchmark that answers a question on the machine.
func RequestFor(m *machine.Machine, q machine.Question) Request {
	r := Request{Strategy: "isolated", Workload: Workload{Kind: "collective", Collective: q.Op.String(), Bytes: q.Bytes}, Params: Params{Queued: true}}
	if float64(q.Channels) != m.Library.Of(q.Op).Channels.Value {
		r.Params.Channels = q.Channels
	}
	switch q.Kind {
	case machine.AboutGEMM:
		r.Workload = Workload{Kind: "gemm", M: q.M, N: q.N, K: q.K, DType: cmp.Or(q.DType, "bf16")}
		r.Params, r.World, r.Trace = Params{Cool: true}, 1, "traces/gemm_chunks"
		r.Why = "the profile has no GEMM of this size"
		if s, d := m.Nearest(q.M, q.N, q.K); !math.IsInf(d, 1) {
			r.Why += fmt.Sprintf("; the nearest is %dx%dx%d", s[0], s[1], s[2])
		}
	case machine.AboutCollective:
		r.Why = "the profile has no time of this size and number of channels"
	case machine.AboutCoRun:
		r.Strategy = machine.CoRunNames[q.With]
		r.Params.Channels, r.Params.Kernel = q.Channels, true
		r.Why = "how much this collective slows down alongside this compute"
		if q.With != machine.CoRunMemory && q.M > 0 {
			r.Params.GEMM = []int64{q.M, q.N, q.K}
		}
	}
	return r
}
