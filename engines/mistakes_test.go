package engines_test

import (
	"math"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// What a naive model of overlap gets wrong, each as a test that such a model fails.

// spansOf are the kernels of rank 0 by name, in order of start.
func spansOf(out engines.Outcome) map[string][]trace.Span {
	by := map[string][]trace.Span{}
	run := out.Result.Run
	for _, s := range run.Spans {
		if run.RankOf(s) == 0 && (s.Kind == trace.Compute || s.Kind == trace.Collective || s.Kind == trace.Copy) {
			by[run.NameOf(s)] = append(by[run.NameOf(s)], s)
		}
	}
	return by
}

// A wait kernel says that one workgroup of the producer runs, not that all do:
// it is over while two of the producer's waves are still to come.
func TestWaitKernelWaitsForOne(t *testing.T) {
	s := plantest.Mlp{Ranks: 1, Steps: 2, Batch: 2048, Hidden: 12288, Ffn: 6144, Up: 580_000, Down: 466_000}
	by := spansOf(enginetest.Outcome(t, s.Build(t), plantest.H200(t, 1), "tilesync", nil))
	for i, k := range by["wait kernel"] {
		if up := by["up"][i]; k.End > up.Start+(up.End-up.Start)/3 {
			t.Errorf("step %d: the wait kernel ends at %d, the producer runs from %d to %d", i, k.End, up.Start, up.End)
		}
	}
}

// A copy engine takes no compute unit, but it reads one memory and writes another.
func TestCopiesTakeMemory(t *testing.T) {
	s := plantest.Spec{Ranks: 4, Steps: 2, Op: trace.AllGather, Bytes: 64 << 20, Gemm: 304_000, Comm: 150_000, Channels: 16, Reverse: true}
	out := enginetest.Outcome(t, s.Build(t), plantest.H200(t, 4), "decompose", map[string]string{"variant": "ring"})
	shards := 2 * 3 * float64(s.Bytes) / 4
	read, written := 0.0, 0.0
	for _, x := range out.Result.Traffic {
		if x.Resource == replay.Memory && x.Name == "copy" {
			read, written = read+x.Bytes-x.Written, written+x.Written
		}
	}
	if !plantest.Near(read, 4*shards) || !plantest.Near(written, 4*shards) {
		t.Errorf("copies read %.0f and wrote %.0f bytes of memory, want %.0f each", read, written, 4*shards)
	}
}

// Copies of a ring hide behind the GEMMs between them: sums are waited for
// behind a GEMM, not before it.
func TestRingHidesItsCopies(t *testing.T) {
	s := plantest.Spec{Ranks: 4, Steps: 2, Op: trace.ReduceScatter, Bytes: 128 << 20, Gemm: 1_240_000, Comm: 380_000, Channels: 24}
	out := enginetest.Outcome(t, s.Build(t), plantest.H200(t, 4), "decompose", map[string]string{"variant": "ring"})
	by := spansOf(out)
	work := trace.Time(0)
	for _, name := range []string{"gemm_256x128", "add partial sums"} {
		for _, k := range by[name] {
			work += k.End - k.Start
		}
	}
	if most := work/2 + 20_000; out.Time > most {
		t.Errorf("a step takes %d ns, its kernels %d", out.Time, work/2)
	}
}

// A kernel that only moves bytes takes as long as the memory needs, however many
// of its workgroups share a compute unit.
func TestSweepsTakeTheirBytes(t *testing.T) {
	m := plantest.H200(t, 1)
	pl := must.Have(plan.NewPlanner(plantest.Mlp512.Build(t), plantest.H200(t, 2), plan.Scenario{}))(t)
	k := pl.Sweep("sum", 200e6, 100e6)
	res := must.Have(replay.Simulate(m, &program.Program{GPUs: []program.GPU{{Streams: []program.Stream{{Commands: []program.Command{{Op: program.Launch, Kernel: k}}}}}}}, replay.Options{}))(t)
	if want := plan.Duration(300e6 / m.GPU.StreamAt(k.WGs)); res.Makespan < want*95/100 || res.Makespan > want*110/100 {
		t.Errorf("300 MB take %d ns, the memory needs %d", res.Makespan, want)
	}
}

// The all-gather of T3 follows the whole reduce-scatter; nothing of it overlaps.
func TestGatherOfSumsComesLast(t *testing.T) {
	s := plantest.Scattered
	s.Op, s.Comm = trace.AllReduce, 300_000
	by := spansOf(enginetest.Outcome(t, s.Build(t), plantest.H200(t, 4), "trigger", nil))
	for i, gather := range by["all_gather of the sums"] {
		for _, before := range []string{"gemm_256x128", "reduce_scatter by triggered transfers"} {
			if k := by[before][i]; gather.Start < k.End {
				t.Errorf("step %d: the all-gather starts at %d, %s ends at %d", i, gather.Start, before, k.End)
			}
		}
	}
	if len(by["all_gather of the sums"]) != s.Steps {
		t.Errorf("%d all-gathers, want %d", len(by["all_gather of the sums"]), s.Steps)
	}
}

// 150 GB/s bi-directional is 75 each way: read as 150, the ideal of FC-1 of T-NLG over
// 16 ranks falls to 1.35, where 1.50 was published.
func TestLinksAreOneWay(t *testing.T) {
	for rate, want := range map[float64]float64{75e9: 1.505, 150e9: 1.348} {
		m := machinetest.Load(t, "t3").Resize(16)
		m.Library.ReduceScatter.Link.Value, m.Library.AllGather.Link.Value = rate, rate
		for _, c := range []*float64{&m.Library.ReduceScatter.Send.Value, &m.Library.AllGather.Send.Value} {
			*c *= 10 // the link alone limits
		}
		s := plantest.Sublayer{Hidden: 4256, Tokens: 8 << 10, Share: 4, Ranks: 16}
		w, gemm, half := s.Build(t, m)
		got := enginetest.Outcome(t, w, m, "ideal", map[string]string{"variant": "gemm-rs"})
		if speedup := float64(gemm+2*half) / float64(got.Time); math.Abs(speedup-want) > 0.004 {
			t.Errorf("%.0f GB/s each way: %.3f, want %.3f", rate/1e9, speedup, want)
		}
	}
}

// With pieces too small, the host's launches are what a strategy takes (16384
// slices: SC'24 section IV-A; rule H2).
func TestLaunchesBoundPieces(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, 4)
	const chunks = 64
	got := enginetest.Outcome(t, w, m, "decompose", map[string]string{"chunks": "64"})
	if least := chunks * plan.Duration(m.Launch.Host.Value+m.Launch.HostCollective.Value); got.Simulated < least {
		t.Errorf("%d chunks take %d ns, the host needs %d to launch them", chunks, got.Simulated, least)
	}
}

// What an engine cannot serve it says in one line, whatever the pairs are.
func TestRefusalsAreOneLine(t *testing.T) {
	lone := plantest.Spec{Ranks: 1, Steps: 2, Op: trace.AllReduce, Bytes: 1 << 20, Gemm: 50_000, Comm: 5_000, Channels: 4}
	gathers := plantest.Spec{Ranks: 4, Steps: 2, Op: trace.AllGather, Bytes: 64 << 20, Gemm: 304_000, Comm: 150_000, Channels: 16}
	exchange := plantest.MoeDown
	exchange.Reverse = true
	untiled := plantest.MoeDown.Build(t)
	for i := range untiled.Ops {
		untiled.Ops[i].Tiling, untiled.Ops[i].Shape = workload.Tiling{}, workload.Shape{}
	}
	workloads := map[string]*workload.Workload{
		"one rank": lone.Build(t), "GEMM, all-gather": gathers.Build(t), "all-to-all, GEMM": exchange.Build(t),
		"no tiles": untiled, "GEMMs": plantest.Mlp512.Build(t),
	}
	for name, w := range workloads {
		m := plantest.H200(t, max(1, w.World))
		for _, e := range engines.All() {
			for _, p := range append([]plan.Param{{}}, e.Params...) {
				for _, choice := range append([]string{""}, p.Choices...) {
					set := map[string]string{}
					if choice != "" {
						set[p.Name] = choice
					}
					out := enginetest.Outcome(t, w, m, e.Name, set)
					switch {
					case out.Result != nil:
					case out.Why == "" || strings.ContainsAny(out.Why, "\n") || len(out.Why) > 220 || strings.HasSuffix(out.Why, "."):
						t.Errorf("%s %v on %s: %q", e.Name, set, name, out.Why)
					case strings.HasPrefix(out.Why, "cannot run") && !strings.Contains(out.Why, "deadlock"):
						t.Errorf("%s %v on %s: %q", e.Name, set, name, out.Why)
					}
				}
			}
		}
	}
}
