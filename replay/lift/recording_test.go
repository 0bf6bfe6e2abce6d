package lift

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// Hints for a program that is not PyTorch's name nothing of PyTorch's, and a profile that has its programs needs no other.
func TestRecorder(t *testing.T) {
	for name, want := range map[string]string{
		"aten::mm": "torch", "ProfilerStep#3": "torch", "void tensorflow::functor::Fill<float>(float*)": "tf.",
		"void genericReformat::copy<float>(int)": "NVTX", "saxpy(int, float*)": "NVTX",
	} {
		run := &trace.Run{Names: []string{"", name}, Ranks: []trace.Rank{{}}}
		r := RecorderOf(run)
		if r.XLA || r.Torch != (want == "torch") || r.Torch != strings.Contains(fmt.Sprint(r), "torch") || !strings.Contains(r.Steps, want) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for source, want := range map[string]string{"host.xplane.pb": "", "host.trace.json.gz": "the *.xplane.pb that JAX's profiler wrote beside this file"} {
		r := RecorderOf(&trace.Run{Names: []string{"triton_gemm"}, Ranks: []trace.Rank{{Source: source, Compiler: trace.XLA}}})
		if !r.XLA || r.Shapes != want || r.Dataflow != want || strings.Contains(fmt.Sprint(r), "torch") {
			t.Errorf("%s: %+v", source, r)
		}
	}
}
