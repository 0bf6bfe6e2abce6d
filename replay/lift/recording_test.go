package lift

import (
	"fmt"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// Hints for a program that is not PyTorch's name nothing of PyTorch's, and a profile that has its programs needs no other.
func TestHintsByFramework(t *testing.T) {
	for name, want := range map[string]string{
		"aten::mm": PyTorch, "ProfilerStep#3": PyTorch, "void tensorflow::functor::Fill<float>(float*)": TensorFlow,
		"void genericReformat::copy<float>(int)": "", "saxpy(int, float*)": "",
	} {
		run := &trace.Run{Names: []string{"", name}, Ranks: []trace.Rank{{}}}
		h := HintsOf(run)
		if got := FrameworkOf(run); got != want || (want == PyTorch) != strings.Contains(fmt.Sprint(h), "torch.") {
			t.Errorf("%s is of %q, with hints %+v", name, got, h)
		}
	}
	for source, want := range map[string]string{"host.xplane.pb": "", "host.trace.json.gz": "the *.xplane.pb that JAX's profiler wrote beside this file"} {
		h := HintsOf(&trace.Run{Names: []string{"triton_gemm"}, Ranks: []trace.Rank{{Source: source, Compiler: trace.XLA}}})
		if h.Shapes != want || h.Dataflow != want || strings.Contains(fmt.Sprint(h), "torch") {
			t.Errorf("%s: %+v", source, h)
		}
	}
}
