package lift

import (
	"regexp"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/replay/lift/kernel"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Recorder is what a captured program was written with, as far as names show it, and how its profiler records more: texts, ""
// where it has no such thing. It is the only place that knows how frameworks are profiled.
type Recorder struct {
	Torch  bool   // PyTorch
	XLA    bool   // JAX
	Engine string // that serves the model: "SGLang", "vLLM" or ""

	Shapes   string // sizes of operators
	Dataflow string // what operators read and write
	Memory   string // how much memory the program takes
	Less     string // less work for each launch
	Steps    string // iterations as ranges of the profile
	Waits    string // nothing launched before the profile is left on the device
}

// ofTorch matches names of PyTorch's operators, kernels (also mangled and of its compiler) and ranges.
var ofTorch = regexp.MustCompile(`\b(aten|at|c10d?)::|2at6native|N3c10|^triton_|^ProfilerStep#`)

// RecorderOf finds what a program was written with.
func RecorderOf(run *trace.Run) Recorder {
	xla := slices.ContainsFunc(run.Ranks, func(r trace.Rank) bool { return r.Compiler == trace.XLA })
	switch {
	case xla:
		r := Recorder{
			XLA: true, Less: "python_tracer_level=0 of jax.profiler.ProfileOptions", Waits: "block_until_ready() before the profile begins",
			Steps: `with jax.profiler.StepTraceAnnotation("train", step_num=i): around each of several steps, ` +
				"and block_until_ready() before and behind them",
		}
		if !strings.HasSuffix(run.Ranks[0].Source, ".pb") { // which has the programs, and with them all that they say
			r.Shapes = "the *.xplane.pb that JAX's profiler wrote beside this file"
			r.Dataflow = r.Shapes
		}
		return r
	case slices.ContainsFunc(run.Names, ofTorch.MatchString):
		return Recorder{
			Torch: true, Engine: engineOf(run), Shapes: "torch.profiler.profile(record_shapes=True)",
			Memory: "profile_memory=True", Less: "with_stack off",
			Dataflow: "an execution trace beside the profile (torch.profiler.ExecutionTraceObserver)",
			Steps:    "torch.profiler.schedule(wait=2, warmup=1, active=3, repeat=1); prof.step() after each",
			Waits:    "torch.cuda.synchronize() before prof.step() of the last warm-up step",
		}
	case slices.ContainsFunc(run.Names, func(name string) bool { return strings.Contains(name, "tensorflow::") }):
		return Recorder{
			Less:  "python_tracer_level=0 of tf.profiler.experimental.ProfilerOptions",
			Steps: `with tf.profiler.experimental.Trace("train", step_num=i, _r=1): around each of several steps`,
		}
	}
	return Recorder{Engine: engineOf(run), Steps: `an NVTX or ROCTX range named "ProfilerStep#i" around step i`}
}

// engineOf finds what served the model.
func engineOf(run *trace.Run) (engine string) {
	for _, name := range run.Names {
		switch {
		case strings.Contains(name, "sglang"), strings.Contains(name, "sgl_kernel"), strings.Contains(name, "sgl_hip"),
			strings.HasPrefix(name, "void moe_fused_gate_kernel"),
			strings.HasPrefix(name, "step[") && kernel.BatchOf(name).Phase != workload.NoPhase:
			return "SGLang" // it has kernels of vLLM too
		case strings.Contains(name, "vllm"), strings.HasPrefix(name, "execute_") && strings.Contains(name, "_generation_"):
			engine = "vLLM"
		}
	}
	return engine
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

// A leadKernels is the device operations that hosts launched before the profiler recorded their calls: the device was behind.
type leadKernels struct {
	Spans  map[trace.SpanID]bool
	Behind trace.Time // from a rank's first recorded launch to the end of its last such operation; of all ranks the longest, ns
}

// leadOf finds them: a stream runs in the order of launches, so what starts on it before its first operation of a
// recorded launch was launched before the recording. A stream without recorded launches is compared with the first such
// operation of its rank. Where launches are not recorded of most later operations either, nothing tells (rule V31).
func leadOf(run *trace.Run) (lead leadKernels) {
	queues := map[trace.Lane]int{}
	of := make([]int, len(run.Lanes)) // by lane: its queue
	for i, lane := range run.Lanes {
		q := wholeQueue(lane)
		if _, ok := queues[q]; !ok {
			queues[q] = len(queues)
		}
		of[i] = queues[q]
	}
	type since struct {
		start, launched trace.Time // of the first operation of a recorded launch, and the first launch
		with, without   int        // recorded launches, of later operations
	}
	first := make([]trace.Time, len(queues)) // by queue, start of the first operation of a recorded launch; 0: none
	ranks := make([]since, len(run.Ranks))
	for _, s := range run.Spans { // by start
		if !s.Kind.OnDevice() {
			continue
		}
		r, q := &ranks[run.RankOf(s)], of[s.Lane]
		launch := launchOf(run, s)
		switch {
		case launch == trace.None:
			if first[q] > 0 {
				r.without++
			}
			continue
		case first[q] == 0:
			first[q] = s.Start + 1
		}
		if at := run.Spans[launch].Start; r.with == 0 {
			r.start, r.launched = s.Start, at
		} else {
			r.launched = min(r.launched, at)
		}
		r.with++
	}
	for i, s := range run.Spans {
		if !s.Kind.OnDevice() || launchOf(run, s) != trace.None {
			continue
		}
		r, until := ranks[run.RankOf(s)], first[of[s.Lane]]-1
		if until < 0 {
			until = r.start
		}
		if r.with <= r.without || s.Start >= until {
			continue
		}
		if lead.Spans == nil {
			lead.Spans = map[trace.SpanID]bool{}
		}
		lead.Spans[trace.SpanID(i)] = true
		lead.Behind = max(lead.Behind, s.End-r.launched)
	}
	return lead
}
