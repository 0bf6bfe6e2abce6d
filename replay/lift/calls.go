package lift

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Call is what follows from the name of a host call or range.
type hostCall struct {
	Call     bool   // of the runtime or driver, not of the framework
	Syncs    bool   // the host waits for the device
	Enqueues bool   // a kernel, copy or fill
	Copies   bool   // a copy, and returns behind it: cudaMemcpy, hipMemcpyWithStream
	Kernel   bool   // a kernel
	Waits    bool   // a stream was made to wait for an event
	Results  bool   // the host waits for an event, such as the copy of results
	Step     string // the base of a marked iteration: "train" of "train#3"
	Updates  bool   // an optimizer's step, as torch.optim.Optimizer marks it: the end of an iteration
	Backward bool   // autograd runs a function
	Sets     bool   // XLA sets what the kernels of a captured graph read and write

	Attention, Prefill, Decode bool // of a kernel: attention, over a prompt, of one token a sequence
	Many                       bool // of a kernel: llama.cpp's GEMM, which it takes for more than 8 tokens; fewer are products with vectors (ggml-cuda/mmvq.cuh)
	Graph                      bool // of a kernel: a captured graph, recorded as a whole
}

// readCalls reads the names of a run: host calls, by name.
func readCalls(names []string) []hostCall {
	calls := make([]hostCall, len(names))
	for i, name := range names {
		rest, cu := strings.CutPrefix(name, "cu")
		c := hostCall{
			Call:   strings.HasPrefix(name, "hip") || strings.HasPrefix(name, "cuda") || cu && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z',
			Syncs:  strings.HasSuffix(name, "Synchronize"),
			Kernel: strings.Contains(name, "LaunchKernel"),
			Waits:  name == "cudaStreamWaitEvent" || name == "hipStreamWaitEvent" || name == "cuStreamWaitEvent",
			Step:   stepBase(name),

			Updates:  strings.HasPrefix(name, "Optimizer.step#"),
			Backward: strings.HasPrefix(name, "autograd::engine::evaluate_function"),
			Sets:     name == "command_buffer::update",
			Many:     strings.Contains(name, "mul_mat_q<"),
			Graph:    strings.HasPrefix(name, trace.GraphName),
		}
		c.Results = c.Call && strings.HasSuffix(name, "EventSynchronize")
		c.Attention, c.Prefill, c.Decode = attention(name)
		memcpy := strings.Contains(name, "Memcpy")
		c.Enqueues = c.Kernel || memcpy || strings.Contains(name, "Memset")
		c.Copies = c.Call && memcpy && !strings.Contains(name, "Async")
		calls[i] = c
	}
	return calls
}

// stepBase is "train" for "train#3", forwardBatch for the range of a serving engine; "" if the
// name marks no iteration.
func stepBase(name string) string {
	if batchOf(name).Phase != workload.NoPhase {
		return forwardBatch
	}
	i := strings.LastIndexByte(name, '#')
	if i <= 0 || i == len(name)-1 {
		return ""
	}
	for _, c := range name[i+1:] {
		if c < '0' || c > '9' {
			return ""
		}
	}
	return name[:i]
}

// forwardBatch is the base of the ranges in which serving engines run a batch.
const forwardBatch = "forward batch"

// The ranges of serving engines: vLLM's worker names what is scheduled, requests and, in
// parentheses, their tokens ("sq": queries); its version of 2025 names requests only. SGLang's
// model runner names its forward mode, TensorRT-LLM's executor the number of an iteration, its
// requests and, since 2026, the tokens of prompts.
var (
	vllmBatch   = regexp.MustCompile(`^execute_(?:\d+_)?context_(\d+)\((?:sq)?(\d+)[^)]*\)_generation_(\d+)\((?:sq)?(\d+)`)
	vllmOld     = regexp.MustCompile(`^execute_new_(\d+)_cached_(\d+)$`)
	sglangBatch = regexp.MustCompile(`^step\[([A-Z_0-9]+) bs=(\d+)(?: toks=(\d+))?(?:.* c_sq=(\d+))?(?:.* g_sq=(\d+))?`)
	tensorRTLLM = regexp.MustCompile(`^\[Executor\] _forward_step(?: \d+)?: (\d+) ctx reqs, (?:(\d+) ctx tokens, )?(\d+) gen reqs`)
)

// batchOf reads the name of a serving engine's range; the zero value for other names.
func batchOf(name string) workload.Batch {
	switch {
	case strings.HasPrefix(name, "execute_"):
		if m := vllmBatch.FindStringSubmatch(name); m != nil {
			return batch(m[1], m[3], m[2], m[4])
		}
		if m := vllmOld.FindStringSubmatch(name); m != nil {
			return batch(m[1], m[2], "", "")
		}
	case strings.HasPrefix(name, "[Executor]"):
		if m := tensorRTLLM.FindStringSubmatch(name); m != nil {
			if m[3] != "0" { // which may have drafts of several tokens each
				m[2] = ""
			}
			return batch(m[1], m[3], m[2], "")
		}
	case strings.HasPrefix(name, "step["):
		m := sglangBatch.FindStringSubmatch(name)
		switch {
		case m == nil:
		case m[1] == "EXTEND" || m[1] == "SPLIT_PREFILL":
			return batch(m[2], "", cmp.Or(m[3], m[4]), "")
		case m[1] == "MIXED":
			b := batch(m[2], "", m[4], m[5])
			b.Phase = workload.Mixed
			return b
		case m[1] == "DECODE":
			return batch("", m[2], "", m[2])
		case m[1] == "TARGET_VERIFY", strings.HasPrefix(m[1], "DRAFT_"): // several tokens a request
			return batch("", m[2], "", m[5])
		}
	}
	return workload.Batch{}
}

// batch is a batch of so many requests and tokens of prefill and of decode; "" is none, or unknown.
func batch(prefills, decodes, promptTokens, decodeTokens string) workload.Batch {
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 40)
		if err != nil {
			return 0
		}
		return n
	}
	p, d := number(prefills), number(decodes)
	b := workload.Batch{Requests: p + d, Tokens: number(promptTokens) + number(decodeTokens)}
	switch {
	case p > 0 && d > 0:
		b.Phase = workload.Mixed
	case p > 0:
		b.Phase = workload.Prefill
	case d > 0:
		b.Phase = workload.Decode
	}
	return b
}

// decodesByTile finds FlashInfer's prefill kernels that decode: without a causal mask, over a tile of 16
// queries, which are the heads of one key (BatchDecodeWithPagedKVCacheWrapper, use_tensor_cores).
var decodesByTile = regexp.MustCompile(`kerneltraits<\(flashinfer::maskmode\)0, (?:\(unsigned int\))?16u?,`)

// attention reports whether a kernel's name is of attention, over prompts or of one token a sequence.
// Many kernels do both, as FlashAttention's of paged caches (flash_fwd_splitkv_kernel, FlashAttnFwdSm90).
// Sources: flashinfer include/flashinfer/attention; FlashMLA csrc; TensorRT-LLM's fmha and xqa kernels
// (…Context, …ForGen); aiter hsa (pa_, mla_) and csrc/cpp_itfs/pa; ck_tile fmha; the Triton kernels of vLLM
// (v1/attention/ops) and SGLang (srt/layers/attention/triton_ops).
func attention(name string) (is, prefill, decode bool) {
	name = strings.ToLower(name)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(name, w) })
	}
	if workload.ClassOf(name) != workload.ClassDense || has("conv", "wgrad", "dgrad", "fprop") && !has("sdpa") {
		return false, false, false
	}
	decode = has("decode", "pageattention", "pagedattention", "paged_attention", "unified_attention_3d", "splitkv_mla", "fmhafwdsplitkv", "fmhamla",
		"mla_dec", "mla_a", "aiter::pa_", "forgen", "kernel_mha", "masked_multihead", "_fwd_grouped_kernel_stage", "_fwd_kernel_stage") || decodesByTile.MatchString(name)
	prefill = !decode && has("prefill", "context", "fmhafwd", "fmha_fwd", "fmha_v2", "mla_pfl", "sparse_attn_fwd")
	return true, prefill, decode
}

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
			strings.HasPrefix(name, "step[") && batchOf(name).Phase != workload.NoPhase:
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
		if c := &l.Collectives[i]; c.Bytes == 0 && c.Op != trace.Barrier && !c.Earlier {
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
