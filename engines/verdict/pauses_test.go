package verdict

import (
	"maps"
	"testing"

	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/enginetest"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
)

// paused is the events of a rank whose host pauses before the launch in the middle of its launches: that and all later
// calls, and what they launch, are later.
func paused(all []event, by float64) (out []event) {
	var calls []float64
	for _, e := range all {
		if e["name"] == "cudaLaunchKernel" {
			calls = append(calls, number(e, "ts"))
		}
	}
	at := calls[len(calls)/2] - 1
	later := map[any]bool{}
	for _, e := range all {
		if (e["cat"] == "cuda_runtime" || e["cat"] == "cuda_driver") && number(e, "ts") >= at {
			later[correlation(e)] = true
		}
	}
	for _, e := range all {
		begins := number(e, "ts")
		e = maps.Clone(e)
		switch device := onDevice(e) || e["cat"] == "gpu_memset"; {
		case device && later[correlation(e)], !device && begins >= at:
			e["ts"] = begins + by
		case !device && begins+number(e, "dur") > at: // a range around it
			e["dur"] = number(e, "dur") + by
		}
		out = append(out, e)
	}
	return out
}

// correlation is the number of a call and of what it launched.
func correlation(e event) any {
	args, _ := e["args"].(map[string]any)
	return args["correlation"]
}

// A pause of the host is part of every schedule's time: the captured ones take just as much longer, and the others at
// least, as what they gain before the pause is lost in it.
func TestPausesStay(t *testing.T) {
	const pause = trace.Time(20e6)
	files, list := events(t, "llama70b-prefill")
	timesOf := func(list [][]event) []compare.Outcome {
		run, err := format.Open(write(t, files, list), format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := lift.Workload(run, lift.Options{})
		if err != nil || len(w.Damage.Sentences) > 0 {
			t.Fatal(err, w.Damage.Sentences)
		}
		m := plantest.H200(t, w.World)
		lift.GuessSizes(w, &m)
		outcomes, err := compare.Compare(w, m, enginetest.MustParse(t, "captured,bulk,decompose,multistream,fused"), plan.Scenario{}, replay.Options{Like: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return outcomes
	}
	without := timesOf(list)
	for i := range list {
		list[i] = paused(list[i], float64(pause)/1e3)
	}
	for i, out := range timesOf(list) {
		longer := out.Expected - without[i].Expected
		if exact := i < 2; exact && compare.Abs(longer-pause) > 1000 || longer < pause-pause/1000 {
			t.Errorf("%s: %d ns longer with a pause of %d ns", out.Selection, longer, pause)
		}
	}
}
