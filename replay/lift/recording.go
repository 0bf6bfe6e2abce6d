package lift

import (
	"regexp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// An Engine is what serves a model, as far as names of kernels and ranges show it: it decides how a
// profile that shows more is recorded.
type Engine uint8

// The engines.
const (
	NoEngine Engine = iota
	SGLang
	VLLM
)

// EngineOf finds what served the model.
func EngineOf(run *trace.Run) Engine {
	engine := NoEngine
	for _, name := range run.Names {
		switch {
		case strings.Contains(name, "sglang"), strings.Contains(name, "sgl_kernel"), strings.Contains(name, "sgl_hip"), strings.HasPrefix(name, "void moe_fused_gate_kernel"), strings.HasPrefix(name, "step[") && kernel.BatchOf(name).Phase != workload.NoPhase:
			return SGLang // it has kernels of vLLM too
		case strings.Contains(name, "vllm"), strings.HasPrefix(name, "execute_") && strings.Contains(name, "_generation_"):
			engine = VLLM
		}
	}
	return engine
}

// The frameworks, by what their profilers and kernels are named.
const (
	PyTorch    = "PyTorch"
	TensorFlow = "TensorFlow"
)

// ofPyTorch matches names of its operators, kernels (also mangled and of its compiler) and ranges.
var ofPyTorch = regexp.MustCompile(`\b(aten|at|c10d?)::|2at6native|N3c10|^triton_|^ProfilerStep#`)

// FrameworkOf is the framework of a captured program: trace.XLA if that compiled it, PyTorch or TensorFlow; "" if nothing
// tells, as of a program that calls CUDA or HIP itself.
func FrameworkOf(run *trace.Run) string {
	if slices.ContainsFunc(run.Ranks, func(r trace.Rank) bool { return r.Compiler == trace.XLA }) {
		return trace.XLA
	}
	framework := ""
	for _, name := range run.Names {
		switch {
		case strings.Contains(name, "tensorflow::"), strings.Contains(name, "10tensorflow"):
			framework = TensorFlow
		case ofPyTorch.MatchString(name):
			return PyTorch
		}
	}
	return framework
}

// Hints are how a profile that shows more is recorded with the profiler of a framework; "" where it has no such thing.
type Hints struct {
	Shapes   string // sizes of operators
	Dataflow string // what operators read and write
	Memory   string // how much memory the program takes
	Less     string // less work for each launch
	Steps    string // iterations as ranges of the profile
	Waits    string // nothing launched before the profile is left on the device
}

// HintsOf are the hints for a capture: the only place that knows how frameworks are profiled.
func HintsOf(run *trace.Run) Hints {
	switch FrameworkOf(run) {
	case PyTorch:
		return Hints{
			Shapes: "torch.profiler.profile(record_shapes=True)", Memory: "profile_memory=True", Less: "with_stack and profile_memory off",
			Dataflow: "an execution trace beside the profile (torch.profiler.ExecutionTraceObserver)",
			Steps:    "torch.profiler.schedule(wait=2, warmup=1, active=3, repeat=1); prof.step() after each",
			Waits:    "torch.cuda.synchronize() before prof.step() of the last warm-up step",
		}
	case trace.XLA:
		h := Hints{
			Less: "python_tracer_level=0 of jax.profiler.ProfileOptions",
			Steps: `with jax.profiler.StepTraceAnnotation("train", step_num=i): around each of several steps, ` +
				"and block_until_ready() before and behind them",
			Waits: "block_until_ready() before the profile begins",
		}
		if !strings.HasSuffix(run.Ranks[0].Source, ".pb") { // which has the programs, and with them all that they say
			h.Shapes = "the *.xplane.pb that JAX's profiler wrote beside this file"
			h.Dataflow = h.Shapes
		}
		return h
	case TensorFlow:
		return Hints{
			Less:  "python_tracer_level=0 of tf.profiler.experimental.ProfilerOptions",
			Steps: `with tf.profiler.experimental.Trace("train", step_num=i, _r=1): around each of several steps`,
		}
	}
	return Hints{Steps: `an NVTX or ROCTX range named "ProfilerStep#i" around step i`}
}

// noteUnknownSizes adds a note about collectives of unknown size.
func (l *lifter) noteUnknownSizes() {
	n := 0
	for i := range l.Collectives {
		if c := &l.Collectives[i]; c.Bytes == 0 && c.Op != trace.Barrier && !c.Part {
			n++
		}
	}
	l.noteCount(n, "collective", "collectives", "of unknown size")
}
