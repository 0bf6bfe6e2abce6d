package results

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// An improvement is something that a capture lacks, without which predictions are worse.
type improvement struct {
	Lacks string  `json:"lacks"`
	Worth string  `json:"worth"` // what is not known without it
	Do    string  `json:"do"`    // the line to add to the next capture
	Share float64 `json:"share"` // of an iteration's time that it is about; the largest comes first
}

// leastLack is the share of time below which something that is missing is not worth a line.
const leastLack = 0.01

// withoutGraph is how kernels of graphs get what a profile of the same step says of them.
const withoutGraph = "a profile of the capture, or of the same step without a graph, in a folder capture_traces beside the trace"

// ofVLLM is how vLLM profiles the capture (vllm/config/profiler.py) or runs without graphs.
const ofVLLM = `vLLM: "capture_torch_profiler": true in --profiler-config writes a folder capture_traces beside the trace; in versions without it a profile with --enforce-eager, in such a folder`

// ofSGLang is how SGLang profiles the capture or runs without graphs.
const ofSGLang = "SGLang: SGLANG_GRAPH_BATCH_CAPTURE=1 and --enable-profile-cuda-graph write a folder graph_capture_profile to put beside the trace; or a profile with --disable-cuda-graph in a folder capture_traces there"

// A source is what captured a trace, and how its profiler records more.
type source struct {
	kineto, rocm, nsys, serving, vllm, sglang, graphs bool

	lift.Recorder
}

func sourceOf(w *workload.Workload, phases bool) source {
	s := source{serving: phases, Recorder: lift.RecorderOf(w.Run)}
	d := &w.Run.Ranks[0].Device
	s.rocm = strings.HasPrefix(d.RuntimeVersion, "ROCm") || strings.HasPrefix(d.Name, "AMD") || strings.HasPrefix(d.Name, "gfx")
	file := w.Run.Ranks[0].Source
	ends := func(ends ...string) bool {
		return slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(strings.TrimSuffix(file, ".gz"), end) })
	}
	s.rocm = s.rocm || ends(".db", ".rpd", ".csv")
	s.nsys = ends(".sqlite", ".sqlite3")
	s.kineto = ends(".trace.json")
	for i := 0; i < len(w.Run.Spans) && ends(".json") && !s.kineto; i++ { // rocprof's have calls of HIP, but no operators
		if sp := w.Run.Spans[i]; sp.Kind == trace.HostCall || sp.Kind == trace.Launch {
			name := w.Run.NameOf(sp)
			s.kineto = strings.Contains(name, "::") || strings.HasPrefix(name, "cu") || name == "record_param_comms"
			s.rocm = s.rocm || strings.HasPrefix(name, "hip")
		}
	}
	for _, name := range w.Run.Names {
		s.graphs = s.graphs || strings.HasSuffix(name, "GraphLaunch")
	}
	s.kineto = s.kineto && !s.XLA
	s.vllm, s.sglang = s.Engine == plan.VLLM, s.Engine == plan.SGLang
	s.serving = s.serving || s.vllm || s.sglang
	return s
}

// profiler is what makes PyTorch's profiler do more: an argument of its own, or the engine's; "" where a program has none.
func (s source) profiler(argument, vllm, sglang string) string {
	switch {
	case s.XLA:
		return s.Shapes
	case s.vllm:
		return `vLLM: --profiler-config '{"profiler": "torch", "torch_profiler_dir": "traces"` + vllm + `}', then POST /start_profile and /stop_profile`
	case s.sglang:
		return `SGLang: POST /start_profile {"output_dir": "traces", "num_steps": 5` + sglang + `}`
	case s.serving:
		return "record_shapes of the engine's profiler: vLLM --profiler-config, SGLang POST /start_profile"
	case s.kineto:
		return "torch.profiler.profile(" + argument + ")"
	}
	if !s.Torch {
		return ""
	}
	return "capture with PyTorch's profiler: torch.profiler.profile(" + argument + ")"
}

// improvements are what would make predictions from a capture better, best first.
func (v *Inspection) improvements() []improvement {
	w := v.workload
	if len(w.Ops) == 0 || v.summary.Estimated || !slices.ContainsFunc(v.each, func(p phasePart) bool { return p.of.Mean.Total() > 0 }) {
		return nil
	}
	s := sourceOf(w, w.Serves())
	var whole, guessed, shapeless, inGraphs, sizeless, sizelessInGraphs, library, all trace.Time
	training, captured := false, false // captured: what graphs consist of was recorded
	for i := range w.Ops {
		op := &w.Ops[i]
		if w.Copies[op.Rank] {
			continue
		}
		all += op.Dur()
		training = training || op.Backward || op.Optimizer
		captured = captured || op.Graph && op.Shape.Kind != workload.NoShape
		if strings.HasPrefix(op.Name, "CUDA graph ") {
			whole += op.Dur()
		}
		if w.EvidenceOf(op.ID) == workload.Guessed {
			guessed += op.Dur()
		}
		k := w.Run.Kernel(w.Run.Spans[op.Span])
		if op.Kind == trace.Compute && op.Shape.Kind == workload.NoShape && (k == nil || k.Op == trace.None) && workload.ClassOf(op.Name) == workload.ClassMatrix { // else its operator tells no more
			if shapeless += op.Dur(); op.Graph {
				inGraphs += op.Dur()
			}
		}
		if c := op.Collective; c >= 0 && !w.Collectives[c].Earlier && w.Collectives[c].Op != trace.Barrier && (w.Collectives[c].Bytes == 0 || w.Collectives[c].Guessed) {
			if sizeless += op.Dur(); op.Graph {
				sizelessInGraphs += op.Dur()
			}
			if !w.Collectives[c].Foreign { // profilers of NCCL and RCCL record its size
				library += op.Dur()
			}
		}
	}
	work := func(part trace.Time) float64 { return float64(part) / float64(max(1, all)) }
	percent := func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
	var list []improvement
	add := func(share float64, lacks, worth, do string) {
		if share >= leastLack && do != "" {
			list = append(list, improvement{lacks, fmt.Sprintf(worth, percent(share)), do, share})
		}
	}
	if w.Opaque() {
		share := work(whole)
		if whole == 0 {
			share = 1
		}
		add(share, "what CUDA graphs consist of", "%s of the work is graphs that are seen only as a whole, with their communication", "nsys profile --cuda-graph-trace=node")
	}
	if v.blind() {
		do := `export_chrome_trace(f"trace/rank{rank}.json.gz") on every rank`
		switch {
		case s.serving && !s.nsys:
			do = "the engine writes a file for each rank: copy all of one capture into a folder"
		case s.nsys:
			do = "nsys profile -o trace/rank%q{RANK} on every rank"
		case s.rocm && !s.kineto:
			do = "rocprofv3 --output-directory trace/rank%env{RANK}% on every rank"
		}
		share, time := v.most(func(t overlap.Times) trace.Time { return t.Transfer })
		worth := "transfer and waiting, %s of " + time + ", cannot be told apart"
		if w.Unseen() {
			worth = "why collectives wait: transfer and waiting take %s of " + time
		}
		add(share, fmt.Sprintf("the other %d of %d ranks", v.summary.World-v.summary.Captured, v.summary.World), worth, do)
	}
	if (s.kineto || s.XLA) && !s.serving && len(w.Run.Uses) == 0 {
		worth := "what %s of the work waits for is guessed, so that it is less certain what may move"
		if training {
			worth += ", and buckets keep their sizes"
		}
		do := "ExecutionTraceObserver in one more step: overlapse.handler of samples/capture/overlapse.py"
		if !s.kineto {
			do = s.Dataflow
		}
		add(work(guessed), "what operators read and write", worth, do)
	}
	if captured {
		shapeless, inGraphs = shapeless-inGraphs, 0 // no profile has them
	}
	ofGraphs := withoutGraph
	switch {
	case s.vllm:
		ofGraphs = ofVLLM
	case s.sglang:
		ofGraphs = ofSGLang
	case s.XLA:
		ofGraphs = s.Shapes
	}
	sizes := s.profiler("record_shapes=True", `, "torch_profiler_record_shapes": true`, `, "record_shapes": true`)
	const gemms = "%s of the work are GEMMs of unknown size, which cannot be split or fused"
	if s.graphs && inGraphs > shapeless/2 {
		add(work(shapeless), "sizes of GEMMs in graphs", gemms, ofGraphs)
	} else {
		add(work(shapeless), "sizes of GEMMs", gemms, sizes)
	}
	switch {
	case s.rocm && !s.kineto && library > sizeless/2:
		sizes = "rocprofv3 --rccl-trace --output-format rocpd"
	case s.nsys && library > sizeless/2:
		sizes = "nsys profile -t cuda,nvtx, and nsys export --type sqlite --include-json true"
	case s.graphs && sizelessInGraphs > sizeless/2:
		sizes = ofGraphs
	}
	add(work(sizeless), "sizes of collectives", "%s of the work are collectives of unknown size: their bandwidth is not known, and in chunks they are estimated", sizes)
	if v.leftOut() == 0 && !slices.ContainsFunc(w.Ops, func(op workload.Op) bool { return op.Issued != trace.Infinity }) {
		do := s.profiler("activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]", "", `, "activities": ["CPU", "GPU"]`)
		if s.rocm && !s.kineto {
			do = "rocprofv3 --hip-trace, which also records what streams wait for"
		}
		share, time := v.most(func(t overlap.Times) trace.Time { return t.Idle })
		add(share, "the host's calls", "devices are idle for %s of "+time+", and why is not known", do)
	}
	slices.SortStableFunc(list, func(a, b improvement) int { return cmp.Compare(b.Share, a.Share) })
	if n := workload.Iterations(w); n < 3 && !s.serving {
		lacks := "further steps"
		if n == 0 {
			lacks = "marks of steps"
		}
		do := s.Steps
		if s.Torch && !s.kineto {
			do = `torch.cuda.nvtx.range_push(f"ProfilerStep#{i}") before every step, and range_pop() after it`
		}
		list = append(list, improvement{
			Lacks: lacks, Worth: "three give the time of a step without that of the profiler's start, and its noise, which diff needs",
			Do: do,
		})
	}
	return list
}

// most is the largest share that a part of the time takes, of all iterations or of those of one phase, and of which.
func (v *Inspection) most(of func(overlap.Times) trace.Time) (share float64, time string) {
	for _, p := range v.each {
		if x := float64(of(p.of.Mean)) / float64(max(1, p.of.Mean.Total())); x >= share {
			share, time = x, strings.TrimSuffix("the time of "+strings.TrimSuffix(p.title(), ": "), " of ")
		}
	}
	return share, time
}
