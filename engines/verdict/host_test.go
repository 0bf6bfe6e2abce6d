package verdict

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Pauses between kernels of a graph are no waits for the host, though a stream has nothing to do until the host launches
// the next kernel there.
func TestPausesInGraphs(t *testing.T) {
	var events []string
	add := func(cat, name string, ts, dur, tid, correlation int) {
		events = append(events, fmt.Sprintf(`{"ph":"X","cat":%q,"name":%q,"pid":%d,"tid":%d,"ts":%d,"dur":%d,"args":{"correlation":%d,"stream":%d,"device":0}}`, cat, name, map[bool]int{true: 0, false: 1}[cat == "kernel"], tid, ts, dur, correlation, tid))
	}
	add("cuda_runtime", "cudaGraphLaunch", 10, 2, 3, 1)
	for k := range 10 {
		add("kernel", fmt.Sprint("G", k), 20+130*k, 100, 7, 1) // with pauses of 30 us
	}
	add("cuda_runtime", "cudaLaunchKernel", 1310, 2, 3, 2)
	add("kernel", "beside", 1320, 20, 9, 2)
	run := must.Have(chrome.Read(strings.NewReader(`{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA H200","numSms":132}],"traceEvents":[`+strings.Join(events, ",")+`]}`), chrome.Options{File: "rank0.json"}))(t)
	w := must.Have(lift.Workload(run, lift.Options{}))(t)
	m := must.Have(machine.Load("h200:1"))(t)
	out := enginetest.Ran(engines.Run(w, m, plan.Selection{Strategy: schedule.Captured, Values: plan.Values{}}, plan.Scenario{}, replay.Options{}))(t)
	if host, _, _, _ := waits(w, out); host > 0.05 {
		t.Errorf("waits for the host %.0f %% of the time", 100*host)
	}
}

// A trace of vendors' kernels alone may be of PyTorch or of a program without it: it is told the calls of both.
func TestEitherProgram(t *testing.T) {
	for names, want := range map[string]string{"Cijk_Ailk_Bljk_HHS": "PyTorch HIP", "Cijk_Ailk_Bljk_HHS saxpy": "HIP", "Cijk_Ailk_Bljk_HHS at::native::fill": "PyTorch"} {
		w := &workload.Workload{Run: &trace.Run{Names: strings.Fields(names)}}
		for _, name := range w.Run.Names {
			w.Ops = append(w.Ops, workload.Op{Kernel: &workload.Kernel{Name: name}, Kind: trace.Compute})
		}
		out := engines.Outcome{Selection: plan.Selection{Strategy: schedule.Captured, Values: plan.Values{"graph": "on"}}}
		out.Machine.GPU.Name = "AMD Instinct MI300X"
		var libraries []string
		ways, _ := HowTo(w, out)
		for _, way := range ways {
			libraries = append(libraries, way.Library)
		}
		if got := strings.Join(libraries, " "); got != want {
			t.Errorf("%s: %s, want %s", names, got, want)
		}
	}
}

// Idle time of a tenth is worth the replay of a graph whether hosts are waited for or launches take it; less is not.
func TestLaunchBound(t *testing.T) {
	w, captured, _ := overlapping(t)
	for idle, want := range map[trace.Time]bool{5: false, 20: true} {
		captured.Times = &overlap.Times{Compute: 100 - idle, Idle: idle}
		if got := LaunchBound(w, captured); got != want {
			t.Errorf("idle for %d %%: %v", idle, got)
		}
	}
}

// captures are the samples that are training or serving steps.
var captures = []string{"ddp-step", "fsdp-step", "llama70b-fc2-allreduce", "llama70b-prefill", "moe-down-triton", "moe-ep4"}

// What an iteration consists of adds up to its time on every rank, and it computes for as
// long as a mean iteration of the run: of every sample and strategy, with some settings.
func TestTimesAddUp(t *testing.T) {
	const some = "all,bulk:channels=8,decompose:chunks=2,multistream:buffers=2,multistream:priority=on,multistream:graph=on,fused:order=oblivious,ideal:variant=gemm-rs"
	for _, name := range captures {
		t.Run(name, func(t *testing.T) {
			w := plantest.LiftSample(t, name)
			m := plantest.H200(t, w.World)
			sel := must.Have(engines.ParseSelection(some))(t)
			outs := must.Have(engines.Compare(w, m, sel, plan.Scenario{}, replay.Options{}, nil))(t)
			for _, out := range outs {
				if out.Result != nil {
					addUp(t, w, out)
				}
			}
		})
	}
}

func addUp(t *testing.T, w *workload.Workload, out engines.Outcome) {
	near := func(a, b trace.Time, by float64) bool { return math.Abs(float64(a-b)) <= by*float64(max(b, 1000)) }
	c := plan.StepsOf(w, out.Result.Run)
	whole := overlap.Collect(out.Result.Run).Metrics()
	n := trace.Time(max(1, workload.Iterations(w)))
	for rank, x := range c.Times(overlap.Collect(out.Result.Run), out.Time) {
		if least := min(x.Compute, x.Transfer, x.Waiting, x.Copies, x.Idle, x.Hidden); !near(x.Total(), out.Time, 0.001) || least < 0 {
			t.Errorf("%s: rank %d: %+v add up to %d ns of %d", out, rank, x, x.Total(), out.Time)
		}
		if all := whole.Ranks[rank].Compute / n; !out.Strategy.Inside && !near(x.Compute, all, 0.05) {
			t.Errorf("%s: rank %d computes for %d ns of an iteration, %d in the mean of the run", out, rank, x.Compute, all)
		}
	}
	if l := TimesOf(w, out); !near(l.Total(), out.Expected, 0.001) {
		t.Errorf("%s: %+v add up to %d ns of %d", out, l, l.Total(), out.Expected)
	}
}
