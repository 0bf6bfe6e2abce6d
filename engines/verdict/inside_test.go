package verdict

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A fused kernel's communication is inside it: of the 132 workgroups' time on four ranks, 59.8 % compute for peers, 19.8 % for the own
// rank, 12.0 % stores and 7.1 % tail, which the rows of the files sum up to. Kernels without such workgroups say nothing.
func TestInside(t *testing.T) {
	open := func(sample string) *trace.Run {
		run := must.Have(format.Open("../../samples/"+sample, format.Options{}))(t)
		return run
	}
	run := open("moe-down-fused-wg")
	want := "3072 workgroups or tiles store to other ranks; of their places' time: compute for peers 60 %, compute for the own rank 20 %, stores 12 %, tail 7 %, between workgroups 1 %"
	if got := insideText(run); !strings.HasSuffix(got, want) {
		t.Errorf("%s, want ...%s", got, want)
	}
	for i := range run.Workgroups { // every tile for the own rank
		run.Workgroups[i].Peer = trace.None
	}
	if got := insideText(run) + insideText(open("moe-down-triton")); got != "" {
		t.Error(got)
	}
}

// A layer of experts in one kernel is taken apart by its name and its tokens: two GEMMs, dispatch and combine. With GEMMs of one byte
// an element at once to twice the rate of two, the laws' time of all of them, one after another, brackets the published time of
// grouped GEMMs between DeepEP's kernels (8 ranks; deepseek-ai/DeepGEMM pull requests 316 and 352), to a tenth.
func TestExpertsApart(t *testing.T) {
	number := regexp.MustCompile(`take (\S+ .s) to (\S+ .s) \(.*ranks (\S+ .s)`)
	micros := func(text string) float64 {
		took, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
		must.Do(t, err)
		return float64(took.Nanoseconds()) / 1000
	}
	for _, c := range []struct {
		machine, gpu, kernel         string
		hidden, inner, experts, each int
		tokens                       int
		fused, apart                 float64 // us
	}{
		{"b200:8", "NVIDIA B200", "sm100_fp8_fp4", 4096, 2048, 256, 6, 512, 146.5, 146.5 * 1.73},
		{"b200:8", "NVIDIA B200", "sm100_fp8_fp4", 4096, 2048, 256, 6, 8192, 1283.1, 1283.1 * 1.56},
		{"b200:8", "NVIDIA B200", "sm100_fp8_fp4", 4096, 2048, 256, 6, 32768, 4855.5, 4855.5 * 1.62},
		{"b200:8", "NVIDIA B200", "sm100_fp8_fp4", 7168, 3072, 384, 6, 8192, 2818.5, 2818.5 * 1.50},
		{"b200:8", "NVIDIA B200", "sm100_fp8_fp4", 7168, 3072, 384, 6, 32768, 10655.2, 10655.2 * 1.54},
		{"h200:8", "NVIDIA H200", "sm90_fp8", 7168, 2048, 256, 8, 512, 806.9, 866.2},
		{"h200:8", "NVIDIA H200", "sm90_fp8", 7168, 2048, 256, 8, 2048, 2088.1, 2492.8},
		{"h200:8", "NVIDIA H200", "sm90_fp8", 7168, 2048, 256, 8, 8192, 7492.0, 9157.7},
	} {
		m := machinetest.Load(t, c.machine)
		said := InsideText(must.Have(lift.Workload(experts(t, c.gpu, fmt.Sprintf("void deep_gemm::%s_mega_moe_impl<65536u, %du, %du, %du, %du, 32u, 192u>(void*)",
			c.kernel, c.hidden, c.inner, c.experts, c.each), c.hidden, c.tokens, c.fused), lift.Options{}))(t), &m)
		found := number.FindStringSubmatch(said)
		if found == nil || !strings.Contains(said, " of the dispatch and combine") {
			t.Errorf("%+v: %s", c, said)
			continue
		}
		least, most, moving := micros(found[1]), micros(found[2]), micros(found[3])
		if c.apart < 0.9*(least+moving) || c.apart > 1.1*(most+moving) {
			t.Errorf("%d tokens of %s: %.0f to %.0f us apart, published %.0f", c.tokens, c.kernel, least+moving, most+moving, c.apart)
		}
	}
	// without the sizes in the name, with more tokens than it is compiled for, or without the input: not known
	m := machinetest.Load(t, "b200:8")
	const compiled = "void deep_gemm::sm100_bf16_mega_moe_impl<4096u, 7168u, 2048u, 256u, 8u, 32u, 192u>(void*)"
	for name, tokens := range map[string]int{"void deep_gemm::sm100_bf16_mega_moe_impl<4096u, 7168u>(void*)": 64, compiled: 8192} {
		if said := InsideText(must.Have(lift.Workload(experts(t, "NVIDIA B200", name, 7168, tokens, 100), lift.Options{}))(t), &m); !strings.HasSuffix(said, "(all_to_all before and after; sizes unknown: --dataflow)") {
			t.Errorf("%s: %s", name, said)
		}
	}
	// elements of two bytes have one time; what the user gives stands for what the name says
	run := experts(t, "NVIDIA B200", compiled, 4096, 64, 3000)
	given := must.Have(lift.ParseCorrections(strings.NewReader("- {op: sm100_bf16_mega_moe_impl, shape: 32768x4096x7168, groups: 32}"), "given"))(t)
	said := InsideText(must.Have(lift.Workload(run, lift.Options{Dataflow: given}))(t), &m)
	if !regexp.MustCompile(`its GEMMs take [\d.]+ .s and the dispatch and combine over 8 ranks .*: the fusion hides nothing\)$`).MatchString(said) {
		t.Error(said)
	}
}

// experts is a run of one of 8 ranks: three steps of a layer of experts in one kernel, us long, for an input of so many tokens.
func experts(t *testing.T, gpu, kernel string, hidden, tokens int, us float64) *trace.Run {
	var events []string
	at := 1000.0
	for step := range 3 {
		events = append(events, fmt.Sprintf(`{"ph":"X","cat":"cpu_op","name":"mylib::experts","pid":9,"tid":9,"ts":%[1]f,"dur":25,"args":{"External id":%[2]d,"Input Dims":[[%[3]d,%[4]d],[%[3]d,8]],"Input type":["c10::BFloat16","float"]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":%[5]f,"dur":5,"args":{"correlation":%[2]d,"External id":%[2]d}},
{"ph":"X","cat":"kernel","name":%[6]q,"pid":0,"tid":7,"ts":%[7]f,"dur":%[8]f,"args":{"device":0,"stream":7,"correlation":%[2]d,"External id":%[2]d,"grid":[132,1,1],"block":[384,1,1]}},
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#%[9]d","pid":9,"tid":9,"ts":%[10]f,"dur":%[11]f}`,
			at-60, step+1, tokens, hidden, at-50, kernel, at, us, step, at-70, us+10))
		at += us + 20
	}
	file := filepath.Join(t.TempDir(), "rank0.json")
	must.Do(t, os.WriteFile(file, fmt.Appendf(nil, `{"deviceProperties":[{"id":0,"name":%q,"numSms":132}],"distributedInfo":{"backend":"nccl","rank":0,"world_size":8},"schemaVersion":1,"traceEvents":[%s]}`,
		gpu, strings.Join(events, ",\n")), 0o600))
	return must.Have(format.Open(file, format.Options{}))(t)
}
