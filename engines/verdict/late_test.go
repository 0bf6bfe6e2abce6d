package verdict

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A cause makes captured ranks differ: how long a kernel takes, relative, and how long the host of a rank stalls before an
// iteration, µs.
type cause struct {
	longer func(rank, iteration, kernel int) float64
	stall  func(rank, iteration int) float64
}

const madeRanks, madeIterations, layers = 4, 10, 4

// made is a capture of ranks that run three kernels and an all-reduce per layer, four layers an iteration. The host waits
// for each iteration; kernels vary by 0.2 %.
//
//	host     |LLLLLLLLLLLLLLLLwwwww|
//	stream 7 | AAABBBCC    AAABBBCC    ...
//	NCCL     |         RRR         RRR ...
func made(t *testing.T, c cause) *trace.Run {
	t.Helper()
	return must.Have(assemble.Join(madeBy(t, c), "made"))(t)
}

// madeBy is that capture by rank.
func madeBy(t *testing.T, c cause) []*trace.Run {
	t.Helper()
	events, seed := make([][]string, madeRanks), uint32(1)
	var ready, host [madeRanks]float64
	id := 0
	add := func(rank int, name string, stream int, at, dur float64, args string) {
		id++
		events[rank] = append(events[rank],
			fmt.Sprintf(`{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":%.3f,"dur":3,"args":{"correlation":%d}}`, host[rank], id),
			fmt.Sprintf(`{"ph":"X","cat":"kernel","name":"%s","pid":0,"tid":%d,"ts":%.3f,"dur":%.3f,"args":{"device":0,"stream":%d,"correlation":%d,"grid":[132,1,1],"block":[384,1,1]%s}}`, name, stream, at, dur, stream, id, args))
		host[rank] += 5
	}
	for i := range madeIterations {
		for r := range madeRanks {
			host[r] = ready[r] + 2 + c.stall(r, i)
			events[r] = append(events[r], fmt.Sprintf(`{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","pid":1,"tid":1,"ts":%.3f,"dur":%.3f}`, i, ready[r]+1, 200+c.stall(r, i)))
			ready[r] = host[r] + 6
		}
		for range layers {
			arrive := 0.0
			for r := range madeRanks {
				for k, name := range []string{"nvjet_tst_128x256", "nvjet_tst_192x128", "rms_norm_kernel"} {
					seed = seed*1664525 + 1013904223
					took := []float64{200, 120, 80}[k] * c.longer(r, i, k) * (1 + 0.002*float64(seed>>8)/(1<<24))
					add(r, name, 7, ready[r], took, "")
					ready[r] += took + 1
				}
				arrive = max(arrive, ready[r])
			}
			for r := range madeRanks {
				add(r, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20, ready[r], arrive+60-ready[r],
					`,"Collective name":"allreduce","In msg nelems":8388608,"Out msg nelems":8388608,"dtype":"BFloat16","Group size":4,"Process Group Name":"0","Process Group Ranks":"[0, 1, 2, 3]"`)
				ready[r] = arrive + 61
			}
		}
		for r := range madeRanks {
			events[r] = append(events[r], fmt.Sprintf(`{"ph":"X","cat":"cuda_runtime","name":"cudaStreamSynchronize","pid":1,"tid":1,"ts":%.3f,"dur":%.3f,"args":{}}`, host[r], ready[r]-host[r]))
		}
	}
	var runs []*trace.Run
	for r := range events {
		text := fmt.Sprintf(`{"distributedInfo":{"rank":%d,"world_size":%d},"deviceProperties":[{"id":0,"name":"NVIDIA H200","numSms":132}],"traceEvents":[`, r, madeRanks) + strings.Join(events[r], ",\n") + "]}"
		run := must.Have(chrome.Read(strings.NewReader(text), chrome.Options{File: fmt.Sprintf("rank%d.json", r)}))(t)
		runs = append(runs, run)
	}
	return runs
}

// A graph that gains what one captured rank waited for the others, of which nothing is known, may gain nothing.
func TestGraphAndUnseenRanks(t *testing.T) {
	rank0 := madeBy(t, cause{func(r, i, k int) float64 { return 1 }, func(r, i int) float64 { return 300 * float64(r) }})[0]
	w := must.Have(lift.Workload(rank0, lift.Options{Unprofiled: true}))(t)
	m := must.Have(machine.Load("h200"))(t)
	m = m.Resize(madeRanks)
	selections := enginetest.MustParse(t, "captured,captured:graph=on")
	var outs []engines.Outcome
	for _, s := range selections {
		out := enginetest.Ran(engines.Run(w, m, s, plan.Scenario{Clock: plan.CapturedClock}, replay.Options{}))(t)
		outs = append(outs, out)
	}
	p := Predict(w, outs[0], outs[1])
	if _, unseen, _, _ := waits(w, outs[0]); unseen < 0.1 || p.Change > -0.1 || p.likely() || !strings.Contains(p.Confidence.Why, "ranks that were not captured") {
		t.Errorf("%.0f %% of waits; a graph %+.1f %%, %.2f likely: %s", 100*unseen, 100*p.Change, p.Confidence.Chance.PFaster, p.Confidence.Why)
	}
}

// A rank of a made capture is late for a known cause, which is found, with how steady it is and what it costs; balanced
// ranks gain what it costs. Where ranks take turns or do not differ, nobody is named.
func TestLateRank(t *testing.T) {
	alike := func(rank, iteration, kernel int) float64 { return 1 }
	prompt := func(rank, iteration int) float64 { return 0 }
	const all = madeIterations
	for _, c := range []struct {
		name  string
		cause cause
		want  overlap.LateCause // "": nobody is named
		last  int               // iterations; of stalls one more, in which no rank is late but for the noise
		costs float64           // µs an iteration, mean
		says  string
	}{
		{"nothing", cause{alike, prompt}, "", 0, 0, ""},
		{"one rank's clock is 8 % lower", cause{func(r, i, k int) float64 {
			if r == 2 {
				return 1.08
			}
			return 1
		}, prompt}, overlap.LateClock, all, 0.08 * 400 * layers, "all of its kernels take 8.0 % longer: its clock"},
		{"the ranks' clocks take turns", cause{func(r, i, k int) float64 {
			if i%madeRanks == r {
				return 1.08
			}
			return 1
		}, prompt}, "", 0, 0, ""},
		{"one kernel is slow on one rank", cause{func(r, i, k int) float64 {
			if r == 1 && k == 1 {
				return 1.4
			}
			return 1
		}, prompt}, overlap.LateKernels, all, 0.4 * 120 * layers, "nvjet_tst_192x128 takes 1"},
		{"one rank's host stalls each third iteration", cause{alike, func(r, i int) float64 {
			if r == 3 && i%3 == 2 {
				return 300
			}
			return 0
		}}, overlap.LateHost, 4, 300.0 * 3 / all, "last in 4 of 10 (0.0 µs to 300.4 µs)"},
		{"one rank's host pauses once, in an iteration that is left out", cause{alike, func(r, i int) float64 {
			if r == 3 && i == 6 {
				return 50_000
			}
			return 0
		}}, "", 0, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := must.Have(lift.Workload(made(t, c.cause), lift.Options{Unprofiled: true}))(t)
			m := must.Have(machine.Load("h200"))(t)
			m.Clock = machine.Clock{} // no power limit, so that waiting is all that differs
			captured := must.Have(engines.Run(w, m.Resize(madeRanks), engines.CapturedSelection(), plan.Scenario{Clock: plan.CapturedClock}, replay.Options{}))(t)
			late := LateRank(w, captured)
			if c.want == "" {
				if late != nil && late.Share >= LeastWaiting {
					t.Fatalf("%s: %+v", LateText(late), late)
				}
				return
			}
			if late == nil {
				t.Fatal("nobody is named")
			}
			t.Log(LateText(late))
			if late.Cause != c.want || late.Iterations != all || late.Last != c.last {
				t.Errorf("%+v", late)
			}
			if math.Abs(float64(late.Cost)/1e3/c.costs-1) > 0.1 {
				t.Errorf("costs %d ns an iteration, want %.0f µs", late.Cost, c.costs)
			}
			if !strings.Contains(LateText(late), c.says) {
				t.Errorf("%q, want ...%s...", LateText(late), c.says)
			}
			if math.Abs(late.Balanced+late.Share) > 0.1*late.Share {
				t.Errorf("balanced ranks gain %.2f %%, of %.2f %%", -100*late.Balanced, 100*late.Share)
			}
		})
	}
}

// A program is PyTorch's by an operator, or by a kernel, mangled or not.
func TestNative(t *testing.T) {
	for name, want := range map[string]bool{
		"aten::mm": false, "void at::native::elementwise_kernel<128, 4>": false, "_ZN2at6native29vectorized_elementwise_kernelILi4E": false,
		"triton_red_fused_0": false, "saxpy(int, float, float*, float*)": true, "Cijk_Ailk_Bljk_HHS": true, "void genericReformat::copyVectorizedKernel<double>(int)": true,
	} {
		if got := isNative(&trace.Run{Names: []string{"", name}}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
