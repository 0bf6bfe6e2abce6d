package engines_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A step that ran as a graph takes longer without it, as it does as a program that the host launches (measured: longer
// than predicted, since the host does more than launch); a graph of what is one already is refused, and so is the
// opposite without a graph.
func TestGraphOff(t *testing.T) {
	const name = "measurements/2026-11-24-h100-graph/traces/decode_b8_h2048_graph_"
	m := machinetest.Load(t, "h100:1")
	w := plantest.LiftSample(t, name+"on.json.gz")
	graph, eager := enginetest.Outcome(t, w, m, "captured", nil), enginetest.Outcome(t, w, m, "captured", map[string]string{"graph": "off"})
	if eager.Result == nil || float64(eager.Time) < 1.2*float64(graph.Time) || eager.Time > 4_698_000 {
		t.Errorf("as a graph %d ns, without %d (%s), measured 4698 µs", graph.Time, eager.Time, eager.Why)
	}
	if again := enginetest.Outcome(t, w, m, "captured", map[string]string{"graph": "on"}); !strings.Contains(again.Why, "all of it is launched by captured graphs") {
		t.Errorf("a graph of a graph: %q", again.Why)
	}
	if none := enginetest.Outcome(t, plantest.LiftSample(t, name+"off.json.gz"), m, "captured", map[string]string{"graph": "off"}); !strings.Contains(none.Why, "nothing was launched by a captured graph") {
		t.Errorf("without a graph: %q", none.Why)
	}
}

// A graph was run on an H100 alone: elsewhere that is the reason, and the error is wider.
func TestMeasuredElsewhere(t *testing.T) {
	w := plantest.LiftSample(t, "measurements/2026-11-24-h100-graph/traces/decode_b8_h2048_graph_off.json.gz")
	evidence := func(machine string) verdict.Evidence {
		return verdict.EvidenceOf(w, enginetest.Outcome(t, w, machinetest.Load(t, machine), "captured", map[string]string{"graph": "on"}))
	}
	if here, there := evidence("h100:1"), evidence("h200:1"); here.Poor != 0 || there.Poor != 1 || !strings.Contains(there.Why, "graph=on was run on NVIDIA H100, not on NVIDIA H200") {
		t.Errorf("%+v, elsewhere %+v", here, there)
	}
	if amd := evidence("mi300x:1"); amd.Unproven != 2 {
		t.Errorf("of another vendor, which ran no graph and cannot run the kernels: %+v", amd)
	}
}

// A collective that stays as it was captured keeps its channels, though the profile's library takes fewer, and its time.
func TestCapturedChannelsHold(t *testing.T) {
	m := machinetest.Load(t, "mi325x:8")
	w := plantest.Spec{Ranks: 8, Steps: 2, Op: trace.AllReduce, Bytes: 1 << 30, Gemm: 100_000, Comm: 5_600_000, Channels: 112}.Build(t)
	for i := range w.Ops { // as RCCL's, which fits the GPU
		k := *w.Ops[i].Kernel
		k.Footprint.Shared = 0
		w.Ops[i].Kernel = &k
	}
	captured, bulk := enginetest.Outcome(t, w, m, "captured", nil), enginetest.Outcome(t, w, m, "bulk", nil)
	if by := float64(bulk.Time)/float64(captured.Time) - 1; by < -0.02 || by > 0.02 {
		t.Errorf("unchanged all-reduces of 112 channels: %+.1f %% (%s)", 100*by, bulk.Why)
	}
}

// Changes predicted from the captures of one rank are about as far off as from those of all: by copiedRanks, not by several times.
// Where hosts launch the kernels, the captured rank waits in its all-reduces for the other's host (rule C27).
func TestUncapturedRanks(t *testing.T) {
	const traces = "../samples/measurements/2026-11-22-h200x2-steps/traces/h200x2_decode_tp_"
	oneshot, graph := engine{"onesided", "impl", "oneshot"}, engine{"captured", "graph", "on"}
	for _, c := range []struct {
		step string
		by   engine
		off  float64 // most, of the change
	}{
		{traces + "b1_allreducenccl_graphTrue", oneshot, 0.03},
		{traces + "b32_allreducenccl_graphTrue", oneshot, 0.03},
		{traces + "b32_allreducenccl_graphFalse", graph, 0.05}, // of one rank nothing tells what held up its host (rule H7)
		{traces + "b1_allreducenccl_graphFalse", graph, 0.1},   // it waits in every one, as the machine's times of all-reduces show
	} {
		one := filepath.Join(t.TempDir(), "one")
		data, err := os.ReadFile(c.step + "/rank0.json.gz")
		if err != nil || os.Mkdir(one, 0o700) != nil || os.WriteFile(one+"/rank0.json.gz", data, 0o600) != nil {
			t.Fatal(err)
		}
		m := plantest.H200(t, 2)
		change := func(path string) (by float64, e verdict.Evidence) {
			run := must.Have(format.Open(path, format.Options{}))(t)
			w := must.Have(lift.Workload(run, lift.Options{Unprofiled: true}))(t)
			lift.GuessSizes(w, &m)
			out := enginetest.Outcome(t, w, m, c.by.strategy, map[string]string{c.by.setting: c.by.value})
			base := enginetest.Outcome(t, w, m, "captured", nil)
			return out.ChangeFrom(base.Expected), verdict.EvidenceOf(w, out)
		}
		all, with := change(c.step)
		alone, without := change(one)
		if !without.Copied || with.Copied || without.Confidence(alone).Chance.Error > 1.5*with.Confidence(alone).Chance.Error || alone-all > c.off || all-alone > c.off {
			t.Errorf("%s: %+.3f %+v, of one rank %+.3f %+v", filepath.Base(c.step), all, with, alone, without)
		}
	}
}

// What a late host launches behind a collective is as late: the wait for a rank that nobody captured is not hidden by
// what is moved beside the collective, if it was alone in the capture (rule C27).
func TestUnseenHostsStayLate(t *testing.T) {
	const gemm, wait, transfer = 400_000, 300_000, 100_000 // ns, of an iteration
	took := func(serial bool) trace.Time {
		w := plantest.Spec{Ranks: 2, Steps: 4, Op: trace.AllReduce, Bytes: 32 << 20, Gemm: gemm, Comm: wait + transfer, Channels: 16}.Build(t)
		for i := range w.Collectives {
			c := &w.Collectives[i]
			c.Late, c.Arrive, c.Serial = wait, c.Arrive+wait, serial
		}
		return enginetest.Outcome(t, w, plantest.H200(t, 2), "multistream", nil).Time
	}
	if hidden, held := took(false), took(true); held < gemm+wait || hidden > gemm+2*transfer {
		t.Errorf("%d µs with the waits behind computation, %d µs with hosts that are late", hidden/1000, held/1000)
	}
}

// A replay of one rank's capture begins collectives where their bytes moved, the first one too.
func TestReplayOfOneRank(t *testing.T) {
	run := must.Have(format.Open("../samples/moe-ep4/rank0.json.gz", format.Options{}))(t)
	w := must.Have(lift.Workload(run, lift.Options{}))(t)
	out := enginetest.Outcome(t, w, plantest.H200(t, w.World), "captured", nil)
	if r := enginetest.ResidualOf(w, out.Result.Run); r.Worst > 1 || !w.Unseen() || r.Ops != len(w.Ops) {
		t.Errorf("%+v", r)
	}
}

// What two batches change is named as the capture has it: whole collectives, not their halves.
func TestWhereOfHalves(t *testing.T) {
	w := plantest.LiftSample(t, "measurements/2026-11-24-h200x2-serving/traces/serving_prefill1024_batches1_graphFalse")
	m := plantest.H200(t, 2)
	lift.GuessSizes(w, &m)
	base, halves := enginetest.Outcome(t, w, m, "captured", nil), enginetest.Outcome(t, w, m, "multistream", map[string]string{"interleave": "2"})
	if where := verdict.AdviceOn(w, base, halves).Where; len(where) != 1 || !strings.HasPrefix(where[0], "all_reduce of 8 MiB") || !strings.HasSuffix(where[0], "(12 times)") {
		t.Errorf("%q", where)
	}
}

// An engine is a strategy with one setting.
type engine struct{ strategy, setting, value string }
