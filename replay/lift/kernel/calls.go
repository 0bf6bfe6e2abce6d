package kernel

import (
	"strings"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// A Call is what follows from the name of a host call or range.
type Call struct {
	Call     bool   // of the runtime or driver, not of the framework
	Syncs    bool   // the host waits for the device
	Enqueues bool   // a kernel, copy or fill
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

// Calls reads the names of a run: host calls, by name.
func Calls(names []string) []Call {
	calls := make([]Call, len(names))
	for i, name := range names {
		rest, cu := strings.CutPrefix(name, "cu")
		c := Call{
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
		c.Enqueues = c.Kernel || strings.Contains(name, "Memcpy") || strings.Contains(name, "Memset")
		calls[i] = c
	}
	return calls
}

// stepBase is "train" for "train#3", ForwardBatch for the range of a serving engine; "" if the
// name marks no iteration.
func stepBase(name string) string {
	if BatchOf(name).Phase != workload.NoPhase {
		return ForwardBatch
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
