package results

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// captured is a trace of one of two ranks: a host call, GEMMs, and an all-reduce, in steps.
func captured(t *testing.T, file, operator, launch string, steps int, group string) *Inspection {
	t.Helper()
	var events []string
	add := func(format string, args ...any) { events = append(events, fmt.Sprintf(format, args...)) }
	for i := range steps {
		at := 1000*i + 10
		add(`{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%d","pid":1,"tid":1,"ts":%d,"dur":900}`, i, at)
		if operator != "" {
			add(`{"ph":"X","cat":"cpu_op","name":"%s","pid":1,"tid":1,"ts":%d,"dur":80,"args":{"External id":%d}}`, operator, at+1, i+1)
		}
		for k, name := range []string{"nvjet_tst_128x256", "nvjet_tst_64x64", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"} {
			c := 10*i + k + 1
			if launch == "cudaGraphLaunch" {
				c = i + 1 // of all
			}
			if launch != "" && (k == 0 || launch != "cudaGraphLaunch") {
				add(`{"ph":"X","cat":"cuda_runtime","name":"%s","pid":1,"tid":1,"ts":%d,"dur":2,"args":{"correlation":%d,"External id":%d}}`, launch, at+5*k+2, c, i+1)
			}
			args := ""
			if k == 2 {
				args = group
			}
			add(`{"ph":"X","cat":"kernel","name":"%s","pid":0,"tid":7,"ts":%d,"dur":200,"args":{"device":0,"stream":7,"correlation":%d,"grid":[32,1,1],"block":[384,1,1]%s}}`, name, at+210*k+100, c, args)
		}
	}
	text := `{"distributedInfo":{"rank":0,"world_size":2},"deviceProperties":[{"id":0,"name":"NVIDIA H200","numSms":132}],"traceEvents":[` + strings.Join(events, ",\n") + "]}"
	run := must.Have(chrome.Read(strings.NewReader(text), chrome.Options{File: file}))(t)
	w := must.Have(lift.Workload(run, lift.Options{}))(t)
	return Inspect(w, nil)
}

// What a capture lacks is named best first, with the line of the profiler that made it: never
// an execution trace of a serving engine, never steps that are there.
func TestImprovements(t *testing.T) {
	const two, none = `,"Collective name":"allreduce","In msg nelems":1048576,"Out msg nelems":1048576,"dtype":"BFloat16","Group size":2,"Process Group Ranks":"[0, 1]"`, ""
	for _, c := range []struct {
		name, file, operator, launch string
		steps                        int
		group                        string
		want                         []string // lacks: part of do
		never                        string
	}{
		{"plain script", "rank0.json", "aten::mm", "cudaLaunchKernel", 4, two, []string{
			"what operators read and write: overlapse.handler", "sizes of GEMMs: torch.profiler.profile(record_shapes=True)", "the other 1 of 2 ranks: rank{rank}.json.gz",
		}, "steps"},
		{"one step", "rank0.json", "aten::mm", "cudaLaunchKernel", 1, two, []string{"further steps: active=3"}, ""},
		{"vLLM", "rank0.json.gz", "vllm::unified_attention", "cudaLaunchKernel", 4, two, []string{`sizes of GEMMs: vLLM: --profiler-config`, "the other 1 of 2 ranks: copy all of one capture"}, "ExecutionTrace"},
		{"SGLang in graphs", "rank0.json", "sgl_kernel::gemm", "cudaGraphLaunch", 4, none, []string{"sizes of GEMMs in graphs: --disable-cuda-graph", "sizes of collectives: graph_capture_profile"}, "ExecutionTrace"},
		{"vLLM in graphs", "rank0.json", "vllm::unified_attention", "cudaGraphLaunch", 4, none, []string{"sizes of GEMMs in graphs: capture_torch_profiler"}, "ExecutionTrace"},
		{"no host calls", "rank0.json", "", "", 4, two, []string{"the host's calls: ProfilerActivity.CPU"}, ""},
		{"rocprofv3", "rank0_results.db", "", "", 4, none, []string{"the host's calls: rocprofv3 --hip-trace", "sizes of collectives: rocprofv3 --rccl-trace"}, "ExecutionTrace"},
		{"rocprof's JSON", "results.json", "", "hipLaunchKernel", 4, none, []string{"sizes of collectives: rocprofv3 --rccl-trace"}, "ExecutionTrace"},
		{"Nsight", "rank0.sqlite", "", "", 1, none, []string{"sizes of collectives: nsys profile -t cuda,nvtx", "further steps: nvtx.range_push"}, "ExecutionTrace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := captured(t, c.file, c.operator, c.launch, c.steps, c.group)
			all := ""
			last := 1.0
			for _, x := range v.improvements() {
				all += fmt.Sprintf("%s: %s: %s (%.3f)\n", x.Lacks, x.Do, x.Worth, x.Share)
				if x.Share > last || x.Share > 1 || x.Worth == "" || x.Do == "" || strings.Contains(x.Worth, "%!") {
					t.Errorf("%+v", x)
				}
				last = x.Share
			}
			for _, want := range c.want {
				lacks, do, _ := strings.Cut(want, ": ")
				found := false
				for _, line := range strings.Split(all, "\n") {
					found = found || strings.HasPrefix(line, lacks+": ") && strings.Contains(line, do)
				}
				if !found {
					t.Errorf("lacks %q:\n%s", want, all)
				}
			}
			if c.never != "" && strings.Contains(all, c.never) {
				t.Errorf("has %q:\n%s", c.never, all)
			}
		})
	}
}

// A row has measured times only. What the machine's law tells is a range in its own sentence.
func TestLawsAreNoMeasurements(t *testing.T) {
	const two = `,"Collective name":"allreduce","In msg nelems":1048576,"Out msg nelems":1048576,"dtype":"BFloat16","Group size":2,"Process Group Ranks":"[0, 1]"`
	v := captured(t, "rank0.pt.trace.json", "aten::mm", "cudaLaunchKernel", 2, two)
	if got, want := v.waitingText(&v.each[0]), "unknown, as the other ranks were not captured"; got != want {
		t.Errorf("without a machine: %s", got)
	}
	m := must.Have(machine.Load("h200:2"))(t)
	v = Inspect(v.workload, &m)
	law := m.Library.Time(trace.AllReduce, 2<<20, 2, 0) * 1.25 // as many channels as it takes for the bytes limit it not
	want := fmt.Sprintf("0.0 µs to %.1f µs an iteration for ranks that were not captured", 200-1e6*law)
	if got := v.waitingText(&v.each[0]); !strings.HasPrefix(got, want) || v.summary.Collectives[0].TransferNs != 200_000 {
		t.Errorf("%s; a row of %d ns\nwant %s", got, v.summary.Collectives[0].TransferNs, want)
	}
}

// Nothing is known of what bounds a step whose collectives have no times.
func TestCollectivesWithoutTimes(t *testing.T) {
	v := captured(t, "rank0.pt.trace.json", "aten::mm", "cudaLaunchKernel", 2, "")
	w := v.workload
	for i := range w.Collectives {
		op := &w.Ops[w.Collectives[i].Members[0]]
		op.End = op.Start
	}
	untimed := Inspect(w, nil)
	if got, want := untimed.boundText(&untimed.each[0]), "unknown: none of the 2 collectives has a time; the kernels beside them take"; !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if got := verdict.Judge(w, engines.Outcome{}, nil, nil); got.Kind != verdict.Withdrawn || got.Sentences[0] != "no verdict: none of the 2 collectives of the trace has a time" {
		t.Errorf("%s: %q", got.Kind, got.Sentences)
	}
}
