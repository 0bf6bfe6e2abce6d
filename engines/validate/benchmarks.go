package validate

import (
	"encoding/json"
	"errors"
	"math"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/calibrate"
	"github.com/overlapse/overlapse/replay/workload"
)

// Benchmarks lists the isolated measurements that would narrow the predictions
// for a workload under some strategies: what their plans ask of the machine profile
// and the profile has no measurement of. In the order of asking, each once.
func Benchmarks(w *workload.Workload, m machine.Machine, sel []plan.Selection) ([]calibrate.Request, error) {
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
	var list []calibrate.Request
	seen := map[string]bool{}
	add := func(r calibrate.Request) error {
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
		if err := add(calibrate.RequestFor(&m, q)); err != nil {
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
func heldSlots(m machine.Machine, q machine.Question, held int) calibrate.Request {
	const hold = 3
	us := 1e6 * hold * m.Tiling(q.M, q.N, q.K).Seconds
	return calibrate.Request{
		Workload: calibrate.Workload{Kind: "gemm", M: q.M, N: q.N, K: q.K, DType: q.DType},
		Strategy: "held_slots", World: 1,
		Params: calibrate.Params{HeldCUs: held, HoldUs: 100 * math.Ceil(us/100)},
		Why:    "how a GEMM hands out its tiles while a collective holds compute units",
	}
}
