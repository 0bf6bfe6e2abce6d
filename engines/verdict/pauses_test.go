package verdict

import (
	"maps"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// paused is the events of a rank whose host pauses before the launch behind a part of its launches: that and all later
// calls, and what they launch, are later.
func paused(all []event, part, by float64) (out []event) {
	var calls []float64
	for _, e := range all {
		if e["name"] == "cudaLaunchKernel" {
			calls = append(calls, number(e, "ts"))
		}
	}
	at := calls[int(part*float64(len(calls)))] - 1
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

// Every schedule keeps a pause of the host between two iterations, all of it and no more but for the time of a launch, and one
// inside an iteration but for the work that was queued or may run in it; neither is the host's time to launch kernels. Behind a
// pause iterations may take other times, as it lets all ranks start together.
func TestPausesStay(t *testing.T) {
	const pause, launch = trace.Time(20e6), trace.Time(10e3) // ns
	const added = 18 * trace.Time(6_984+29_410)              // decompose issues three more parts of six GEMMs and collectives each, at the profile's costs
	files, list := events(t, "llama70b-prefill")
	with := func(part float64) [][]event {
		out := make([][]event, len(list))
		for i := range list {
			out[i] = paused(list[i], part, float64(pause)/1e3)
		}
		return out
	}
	sel := enginetest.MustParse(t, "captured,bulk,multistream,fused,decompose")
	type times struct{ gap, first, second trace.Time } // between two iterations, and of each
	replayed := func(list [][]event, unprofiled bool) (all []times) {
		run := must.Have(format.Open(write(t, files, list), format.Options{}))(t)
		w, err := lift.Workload(run, lift.Options{Unprofiled: unprofiled})
		if err != nil || len(w.Damage.Sentences) > 0 {
			t.Fatal(err, w.Damage.Sentences)
		}
		m := plantest.H200(t, w.World)
		lift.GuessSizes(w, &m)
		outcomes := must.Have(engines.Compare(w, m, sel, plan.Scenario{}, replay.Options{Like: true}, nil))(t)
		for _, o := range outcomes {
			ran, _ := plan.StepsOf(w, o.Result.Run).Ran()
			all = append(all, times{ran[1].Start - ran[0].End, ran[0].Length(), ran[1].Length()})
		}
		if host, _, _, _ := waits(w, outcomes[0]); host > hostBound {
			t.Errorf("without the profiler %t: the host's launches take %.0f %% of the time", unprofiled, 100*host)
		}
		return all
	}
	for _, unprofiled := range []bool{false, true} {
		without, between, inside := replayed(list, unprofiled), replayed(with(0.5), unprofiled), replayed(with(0.75), unprofiled)
		for i := range sel {
			late := launch
			if !unprofiled { // the host is as far as the device: it reaches the pause later by what it issues more, and than a faster device
				late += added + max(0, between[1].first-between[i].first)
			}
			if longer := between[i].gap - without[i].gap; longer < pause-launch || longer > pause+late {
				t.Errorf("%s, without the profiler %t: %d ns between the iterations for a pause of %d ns", sel[i], unprofiled, longer, pause)
			}
			if longer := inside[i].second - without[i].second; longer > pause+pause/100 || longer < pause-without[i].second/2 {
				t.Errorf("%s, without the profiler %t: the iteration takes %d ns longer for a pause of %d ns inside", sel[i], unprofiled, longer, pause)
			}
		}
	}
}

// A pause that passed in several operators of the host, of which none has half, names them by their shares; a range around the
// pause and a step are none of them.
func TestPauseOfSeveralOperators(t *testing.T) {
	var b trace.Builder
	b.AddRank(trace.Rank{World: 1})
	host := b.Lane(trace.Lane{Kind: trace.HostThread, Peer: trace.None})
	add := func(parent trace.SpanID, name string, from, to trace.Time) trace.SpanID {
		return b.Add(trace.Span{Start: from, End: to, Kind: trace.Marker, Attr: trace.None, Parent: parent, Name: b.Intern(name), Lane: host})
	}
	step := add(add(trace.None, "train", 0, 20_000), "step", 1000, 2000)
	add(add(step, "Optimizer.step", 1000, 1400), "aten::_fused_adamw_", 1000, 1390)
	add(step, "aten::to", 1450, 1500)
	add(step, "aten::to", 1600, 1850)
	add(step, "aten::empty", 1900, 1950)
	b.Add(trace.Span{ // on another thread, inside of no other
		Start: 1010, End: 1380, Kind: trace.Marker, Attr: trace.None, Parent: trace.None, Name: b.Intern("FSDP::wait"),
		Lane: b.Lane(trace.Lane{Kind: trace.HostThread, ID: 2, Peer: trace.None}),
	})
	run := b.Finish(trace.Options{Name: "host"})
	pause := overlap.Interval{Start: 1000, End: 2000}
	const want = "the longest in Optimizer.step (40 %) and aten::to (30 %)"
	if got := shared(run, 0, pause, map[string]bool{"step": true}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := shared(run, 0, overlap.Interval{Start: 1000, End: 6000}, map[string]bool{"step": true}); got != "" {
		t.Errorf("%q of a pause most of which nothing covers", got)
	}
}
