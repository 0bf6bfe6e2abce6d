package format

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A profile collects events of a Kineto file.
type profile struct {
	events []string
	at     int // microseconds
}

func (k *profile) add(format string, args ...any) {
	k.events = append(k.events, fmt.Sprintf(format, args...))
}

func (k *profile) file(rank int) string {
	return fmt.Sprintf(`{"distributedInfo":{"rank":%d,"world_size":2},"baseTimeNanoseconds":1790857026000000000,"traceEvents":[%s]}`, rank, strings.Join(k.events, ",\n"))
}

// call adds a call of the runtime; launches of AMD name their kernel and its grid.
func (k *profile) call(name string, correlation int, more string) {
	k.add(`{"ph":"X","cat":"cuda_runtime","name":%q,"pid":70,"tid":70,"ts":%d,"dur":2,"args":{"correlation":%d%s}}`, name, k.at, correlation, more)
	k.at += 5
}

var capturedKernels = []struct{ kernel, operator, more string }{
	{"gemm", "aten::mm", `"Input Dims":[[%d,64],[64,32]],"Input type":["c10::BFloat16","c10::BFloat16"]`},
	{"void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)", "_C_custom_ar::all_reduce", `"Input Dims":[[],[%d,32],[%[1]d,32]],"Input type":["","c10::BFloat16","c10::BFloat16"]`},
	{"norm", "vllm::rms_norm", `"Input Dims":[[%d,32]],"Input type":["c10::BFloat16"]`},
	{"ncclDevKernel_AllGather_RING_LL(x)", "record_param_comms", `"Collective name":"_allgather_base","In msg nelems":%d,"Out msg nelems":%[1]d,"Group size":2,"dtype":"BFloat16","Process Group Name":"tp","Input Dims":[[%[1]d]]`},
}

// captureOf is the profile of the capture of one graph for a batch.
func captureOf(rank, batch int, named bool) string {
	var k profile
	k.add(`{"ph":"X","cat":"user_annotation","name":"capture_%d_FULL","pid":70,"tid":70,"ts":0,"dur":900}`, batch)
	k.at = 5
	k.call("cudaLaunchKernel", 1, "") // before the capture, of which the file has the kernel
	k.add(`{"ph":"X","cat":"kernel","name":"fill","pid":0,"tid":7,"ts":30,"dur":1,"args":{"correlation":1,"stream":7,"device":0}}`)
	k.call("cudaStreamBeginCapture", 2, "")
	for i, c := range capturedKernels {
		k.add(`{"ph":"X","cat":"cpu_op","name":%q,"pid":70,"tid":70,"ts":%d,"dur":10,"args":{"External id":%d,%s}}`, c.operator, k.at, 100+i, fmt.Sprintf(c.more, batch))
		k.at += 2
		more := fmt.Sprintf(`,"External id":%d`, 100+i)
		if named {
			more += fmt.Sprintf(`,"kernel":%q,"grid":[%d,1,1],"block":[128,1,1]`, c.kernel, 4+i)
		}
		k.call("cudaLaunchKernel", 10+i, more)
		k.at += 10
	}
	k.call("cudaStreamEndCapture", 30, "")
	return k.file(rank)
}

// replayOf is the profile of two launches of the graph.
func replayOf(rank, batch int) string {
	var k profile
	for launch := range 2 {
		k.add(`{"ph":"X","cat":"user_annotation","name":"execute_%d_context_0_generation_%[1]d","pid":70,"tid":70,"ts":%d,"dur":100}`, batch, 1000*(launch+1))
		k.at = 1000*(launch+1) + 5
		k.call("cudaGraphLaunch", 50+launch, "")
		for i, c := range capturedKernels {
			k.add(`{"ph":"X","cat":"kernel","name":%q,"pid":0,"tid":7,"ts":%d,"dur":8,"args":{"correlation":%d,"stream":7,"device":0}}`, c.kernel, k.at+10+10*i, 50+launch)
		}
	}
	return k.file(rank)
}

// Kernels of a graph take from its capture what the profile of the replay lacks: by names, as AMD's calls have them,
// or by order; from the capture of the smallest batch that holds theirs; beside the profile or in the folders of vLLM and SGLang.
func TestCapturesBeside(t *testing.T) {
	const vllm = "graph_capture_rank_0.%d.pt.trace.json"
	for _, c := range []struct {
		name  string
		named bool
		below string // folder of the captures
		file  string
		batch int // of the replay
		want  int64
	}{
		{"by name, in a folder below", true, "capture_traces", vllm, 32, 32},
		{"by order, in a folder below", false, "capture_traces", vllm, 24, 32},
		{"by name, in one folder", true, "", vllm, 40, 64},
		{"of SGLang", true, "graph_capture_profile", "DecodeCudaGraphRunner_bs_%d_rank0.json", 40, 64},
		{"of SGLang with adapters, in one folder", true, "", "DecodeCudaGraphRunner_bs_%d_stream_1_nolora_rank0.json", 32, 32},
		{"of SGLang in 2025", true, "", "bs_%d_rank0.json", 32, 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			captures := filepath.Join(dir, c.below)
			must.Do(t, os.MkdirAll(captures, 0o755))
			for rank := range 2 {
				write(t, filepath.Join(dir, fmt.Sprintf("graph_execution_rank_%d.json", rank)), replayOf(rank, c.batch))
			}
			for _, batch := range []int{16, 32, 64} { // of rank 0 only
				write(t, filepath.Join(captures, fmt.Sprintf(c.file, batch)), captureOf(0, batch, c.named))
			}
			run := must.Have(Open(dir, Options{}))(t)
			kernels := 0
			for _, s := range run.Spans {
				k := run.Kernel(s)
				if k == nil {
					continue
				}
				kernels++
				name := run.NameOf(s)
				switch op := run.Operator(k); {
				case op == nil:
					t.Errorf("%s has no operator", name)
				case name == "gemm" && op.Dims[0][0] != c.want, name == "norm" && op.Dims[0][0] != c.want:
					t.Errorf("%s of batch %d, want %d", name, op.Dims[0][0], c.want)
				}
				if grid := run.Setup(k).WGs() > 0; grid != c.named {
					t.Errorf("%s has a grid: %v", name, grid)
				}
				if s.Kind == trace.Collective {
					m, want := run.Comm(s), c.want*2
					if strings.Contains(name, "cross_device") {
						want = c.want * 32 * 2
					} else if m.Group == trace.None || run.Groups[m.Group].Name != "tp" {
						t.Errorf("%s of group %d", name, m.Group)
					}
					if m.Bytes() != want || run.Collective(s).Bytes != want {
						t.Errorf("%s of %d bytes, want %d", name, m.Bytes(), want)
					}
				}
			}
			if kernels != 16 || len(run.Ranks) != 2 {
				t.Errorf("%d kernels of %d ranks, want 16 of 2", kernels, len(run.Ranks))
			}
			if !slices.ContainsFunc(run.Ledger.Entries, func(e trace.Entry) bool {
				return strings.Contains(e.Reason, "in captured graphs are among the launches of a capture") && e.Kernels == 16
			}) {
				t.Error("no entry about the capture")
			}
		})
	}
}

// A capture of another model names nothing, and says so.
func TestCaptureOfAnotherGraph(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rank0.json"), strings.ReplaceAll(replayOf(0, 32), `"gemm"`, `"another"`))
	write(t, filepath.Join(dir, "graph_capture_rank_0.json"), captureOf(0, 32, true))
	run := must.Have(Open(dir, Options{}))(t)
	for _, s := range run.Spans {
		if k := run.Kernel(s); k != nil && k.Op != trace.None {
			t.Errorf("%s has an operator", run.NameOf(s))
		}
	}
	if !slices.ContainsFunc(run.Ledger.Entries, func(e trace.Entry) bool { return e.Reason == assemble.NoCapture }) {
		t.Error("no entry")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o644))
}

// Profiles of two stages of SGLang on two ranks are joined one after another: what was not profiled between
// them is left out, by the same time on all ranks.
func TestStagesOfOneProfile(t *testing.T) {
	dir := t.TempDir()
	for rank := range 2 {
		for i, stage := range []string{"EXTEND", "DECODE"} {
			var k profile
			k.at = 1_000_000*i + 10*rank
			k.call("cudaLaunchKernel", 1+i, "")
			k.add(`{"ph":"X","cat":"kernel","name":%q,"pid":0,"tid":7,"ts":%d,"dur":100,"args":{"correlation":%d,"stream":7,"device":0}}`, strings.ToLower(stage), k.at+10, 1+i)
			k.add(`{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)","pid":0,"tid":8,"ts":%d,"dur":%d,"args":{"stream":8,"device":0,"Collective name":"allreduce","In msg nelems":8,"Out msg nelems":8,"Group size":2,"dtype":"BFloat16","Process Group Name":"tp"}}`, k.at+120, 20-10*rank)
			write(t, filepath.Join(dir, fmt.Sprintf("1758.5-TP-%d-%s.trace.json", rank, stage)), k.file(rank))
		}
	}
	run := must.Have(Open(dir, Options{}))(t)
	var got []string
	for _, s := range run.Spans {
		if s.Kind == trace.Compute {
			got = append(got, fmt.Sprintf("%s of %d at %d by %s", run.NameOf(s), run.RankOf(s), s.Start/1000, run.NameOf(run.Spans[run.LaunchOf(s)])))
		}
	}
	want := []string{ // a window is 145 us, to the end of the collective
		"extend of 0 at 15 by cudaLaunchKernel", "extend of 1 at 25 by cudaLaunchKernel",
		"decode of 0 at 160 by cudaLaunchKernel", "decode of 1 at 170 by cudaLaunchKernel",
	}
	if len(run.Collectives) != 2 || len(run.Collectives[0].Members) != 2 || len(run.Collectives[1].Members) != 2 {
		t.Errorf("collectives %+v, want one of two ranks in each stage", run.Collectives)
	}
	if !slices.Equal(got, want) || len(run.Ranks) != 2 {
		t.Errorf("%d ranks: %q, want %q", len(run.Ranks), got, want)
	}
}
