package validate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/dataset"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
)

// A Request is a benchmark to run: what samples/capture/capture.py takes after
// --plan, a JSON object a line, and what its rows then hold besides their times.
type Request struct {
	Workload dataset.Workload `json:"workload"`
	Strategy string           `json:"strategy"`
	Params   dataset.Params   `json:"params"`
	World    int              `json:"world,omitempty"`
	Trace    string           `json:"trace,omitempty"`
	Why      string           `json:"why"` // what it would narrow
}

// requestFor is the benchmark that answers a question on the machine.
func requestFor(m *machine.Machine, q machine.Question) Request {
	r := Request{Strategy: "isolated", Workload: dataset.Workload{Kind: "collective", Collective: q.Op.String(), Bytes: q.Bytes}, Params: dataset.Params{Queued: true}}
	if float64(q.Channels) != m.Library.Of(q.Op).Channels.Value {
		r.Params.Channels = q.Channels
	}
	switch q.Kind {
	case machine.AboutGEMM:
		r.Workload = dataset.Workload{Kind: "gemm", M: q.M, N: q.N, K: q.K, DType: cmp.Or(q.DType, "bf16")}
		r.Params, r.World, r.Trace = dataset.Params{Cool: true}, 1, "traces/gemm_chunks"
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

// Benchmarks lists the isolated measurements that would narrow the predictions
// for a workload under some strategies: what their plans ask of the machine profile
// and the profile has no measurement of. In the order of asking, each once.
func Benchmarks(w *workload.Workload, m machine.Machine, sel []plan.Selection) ([]Request, error) {
	var asked machine.Questions
	for _, s := range sel {
		var na *plan.NotApplicable
		pl, err := s.Strategy.Planned(w, m, s.Values, plan.Scenario{Pace: 1})
		if errors.As(err, &na) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, q := range pl.Lookups.List() {
			asked.Add(q)
		}
	}
	var list []Request
	seen := map[string]bool{}
	add := func(r Request) error {
		if r.World == 0 {
			r.World = w.World
		}
		key, err := json.Marshal(r)
		if err != nil || seen[string(key)] {
			return err
		}
		seen[string(key)] = true
		list = append(list, r)
		return nil
	}
	for _, q := range asked.List() {
		if m.Answered(q) {
			continue
		}
		if err := add(requestFor(&m, q)); err != nil {
			return nil, err
		}
		if q.Kind != machine.AboutCoRun || q.With != machine.CoRunLibrary || q.M == 0 {
			continue
		}
		for _, held := range []int{0, q.Channels} {
			if err := add(heldSlots(m, q, held)); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// heldSlots measures a GEMM without the compute units that a collective's channels take.
// They stay taken for three times as long as it takes with all of them.
func heldSlots(m machine.Machine, q machine.Question, held int) Request {
	const hold = 3
	us := 1e6 * hold * m.Tiling(q.M, q.N, q.K).Seconds
	return Request{
		Workload: dataset.Workload{Kind: "gemm", M: q.M, N: q.N, K: q.K, DType: q.DType},
		Strategy: "held_slots", World: 1,
		Params: dataset.Params{HeldCUs: held, HoldUs: 100 * math.Ceil(us/100)},
		Why:    "how a GEMM hands out its tiles while a collective holds compute units",
	}
}
