package lift

import (
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// An Engine is what ran the job, as far as names of kernels and ranges show it: it decides how a
// profile that shows more is recorded.
type Engine uint8

// The engines.
const (
	OtherEngine Engine = iota
	SGLang
	VLLM
	PyTorch // PyTorch's profiler, no engine known
)

// Serves reports whether it serves models: its profiler takes no execution traces.
func (e Engine) Serves() bool { return e == SGLang || e == VLLM }

// EngineOf finds what ran the job.
func EngineOf(run *trace.Run) Engine {
	vllm := false
	for _, name := range run.Names {
		if strings.Contains(name, "sglang::") || strings.HasPrefix(name, "void moe_fused_gate_kernel") {
			return SGLang // it has kernels of vLLM too
		}
		vllm = vllm || strings.Contains(name, "vllm::") || strings.HasPrefix(name, "execute_") && strings.Contains(name, "_generation_")
	}
	switch {
	case vllm:
		return VLLM
	case len(run.Ranks) > 0 && (strings.HasPrefix(run.Ranks[0].Device.ProfilerVersion, "CUPTI") || strings.HasPrefix(run.Ranks[0].Device.ProfilerVersion, "roctracer")):
		return PyTorch
	}
	return OtherEngine
}

// RecordShapes says how to record the operators that state the sizes of collectives; "" if that
// is not known. graphs tells that the collectives are of captured graphs.
func (e Engine) RecordShapes(graphs bool) string {
	text := map[Engine]string{
		SGLang:  `record operators: /start_profile with "activities": ["CPU", "GPU"], "record_shapes": true`,
		VLLM:    `record operators: --profiler-config '{"profiler": "torch", "torch_profiler_dir": DIR, "torch_profiler_record_shapes": true}'`,
		PyTorch: "record operators: torch.profiler.profile with ProfilerActivity.CPU and record_shapes=True",
	}[e]
	if text == "" || !graphs {
		return text
	}
	eager := map[Engine]string{SGLang: " started with --disable-cuda-graph", VLLM: " started with --enforce-eager", PyTorch: " without the graph"}[e]
	return text + "; for captured graphs keep such a profile of the same batch" + eager + ", or of their capture, in a folder capture_traces beside this one"
}

// noteUnknownSizes adds a note about collectives of unknown size, and how to record them.
func (l *lifter) noteUnknownSizes() {
	n, graphs := 0, false
	for i := range l.Collectives {
		if c := &l.Collectives[i]; c.Bytes == 0 && c.Op != trace.Barrier && !c.Part {
			n++
			graphs = graphs || l.Ops[c.Members[0]].Graph
		}
	}
	what := "of unknown size"
	if how := EngineOf(l.Run).RecordShapes(graphs); how != "" {
		what += ": " + how
	}
	l.noteCount(n, "collective", "collectives", what)
}
