package results

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// The module of JAX's operators and parameters.
func TestModulePath(t *testing.T) {
	for name, want := range map[string]string{
		"jit(step)/jvp(GPT)/layer3/attn/out/dot_general":        "layer3/attn",
		"jit(step)/transpose(jvp(GPT))/layer10/down/transpose":  "layer10/down",
		"p['layer0']['attn']['value']['kernel']":                "layer0/attn",
		"jit(step)/transpose(jvp(GPT))/head/transpose":          "",
		"jit(step)/jvp(GPT)/layers_2/...qhd,...khd->...hqk/dot": "layers_2",
	} {
		if got := modulePath.FindString(strings.ReplaceAll(name, "']['", "/")); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// Ranges before and behind the work of a module, as FSDP has them, make one around it, on each thread for itself.
func TestRangesAroundModules(t *testing.T) {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{})
	for _, x := range []struct {
		lane       int64
		name       string
		start, end trace.Time
	}{
		{0, "FSDP::pre_forward (h.0)", 0, 2},
		{1, "FSDP::post_forward (h.0)", 3, 4}, // of another thread
		{0, "FSDP::all_gather (h.1)", 5, 6},
		{0, "FSDP::post_forward (h.0)", 10, 11},
		{0, "FSDP::pre_forward (h.1)", 12, 13}, // never left
		{0, "FSDP::pre_backward (h.0)", 20, 21},
		{0, "FSDP::post_backward_accumulate (h.0)", 30, 31},
		{0, "FSDP::post_backward_reduce (h.0)", 40, 41},
	} {
		lane := b.Lane(trace.Lane{Kind: trace.HostThread, Rank: rank, ID: x.lane, Peer: trace.None})
		b.Add(trace.Span{Start: x.start, End: x.end, Name: b.Intern(x.name), Lane: lane, Parent: trace.None, Attr: trace.None, Kind: trace.Marker})
	}
	run := b.Finish(trace.Options{KeepZero: true})
	around(run, run.Spans)
	var ends []trace.Time
	for _, s := range run.Spans {
		ends = append(ends, s.End)
	}
	if want := []trace.Time{11, 4, 6, 11, 13, 31, 31, 41}; !slices.Equal(ends, want) {
		t.Errorf("ends %v, want %v", ends, want)
	}
}

// Of a stack of PyTorch's modules the layer is the outermost of a class that has several; ranges of layers have many spellings.
func TestLayersOfStacks(t *testing.T) {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{})
	host := b.Lane(trace.Lane{Kind: trace.HostThread, Rank: rank, Peer: trace.None})
	w := &workload.Workload{Rows: []int32{0}}
	for i, names := range [][]string{
		{"nn.Module: Llama_0", "nn.Module: DecoderLayer_3", "nn.Module: Linear_22"},
		{"nn.Module: Llama_0", "nn.Module: DecoderLayer_4", "nn.Module: Linear_30"},
		{"nn.Module: Llama_0", "nn.Module: Norm_0"},
		{"nn.Module: Llama_0", "nn.Module: Linear_31"},
		{"forward", "## Layer 7 ##"},
		{"block_2"},
		{"layer_norm_0"},
	} {
		from := trace.Time(100 * i)
		for k, name := range names {
			d := trace.Time(k)
			b.Add(trace.Span{
				Start: from + d, End: from + 90 - d, Name: b.Intern(name), Lane: host, Parent: trace.None, Attr: trace.None, Kind: trace.Marker,
			})
		}
		w.Ops = append(w.Ops, workload.Op{Start: from + 2000, End: from + 2050, Issued: from + 45})
	}
	w.Run = b.Finish(trace.Options{KeepZero: true})
	if got, want := layersOf(w), []string{"DecoderLayer_3", "DecoderLayer_4", "", "Linear_31", "Layer 7", "block_2", ""}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The backward pass of a stack of modules runs on a thread without them: its kernels are of the layer of the operator that made the node.
func TestLayersOfBackward(t *testing.T) {
	event := func(category, name, thread string, ts, dur int, args string) string {
		return fmt.Sprintf(`{"ph":"X","cat":%q,"name":%q,"pid":%q,"tid":%q,"ts":%d,"dur":%d,"args":{%s}},`, category, name, "1", thread, ts, dur, args)
	}
	kernel := func(number, launch, start int, thread string) string {
		args := fmt.Sprintf(`"correlation":%d`, number)
		return event("cuda_runtime", "cudaLaunchKernel", thread, launch, 2, args) + event("kernel", "gemm", "7", start, 50, args+`,"stream":7,"device":0`)
	}
	in := `{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA H200"}],"distributedInfo":{"rank":0,"world_size":1},"traceEvents":[` +
		event("python_function", "nn.Module: Block_0", "7", 100, 90, "") + event("cpu_op", "aten::mm", "7", 110, 20, `"Sequence number":4`) + kernel(1, 112, 300, "7") +
		event("cpu_op", "aten::view", "7", 180, 5, `"Sequence number":5`) + // makes no node: Block_1 has the next one
		event("python_function", "nn.Module: Block_1", "7", 200, 90, "") + event("cpu_op", "aten::mm", "7", 210, 20, `"Sequence number":5`) + kernel(2, 212, 400, "7") +
		event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", "9", 500, 30, `"Sequence number":5,"Fwd thread id":1`) +
		event("cpu_op", "MmBackward0", "9", 501, 28, `"Sequence number":5,"Fwd thread id":1`) + kernel(3, 505, 600, "9") +
		event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", "9", 540, 30, `"Sequence number":4,"Fwd thread id":1`) +
		event("cpu_op", "MmBackward0", "9", 541, 28, `"Sequence number":4,"Fwd thread id":1`) + kernel(4, 545, 700, "9") +
		event("cpu_op", "autograd::engine::evaluate_function: ReluBackward0", "9", 572, 7, `"Sequence number":4,"Fwd thread id":1`) +
		event("python_function", "nn.Module: Part_0", "9", 573, 2, "") + event("cpu_op", "aten::mm", "9", 573, 2, `"Sequence number":5`) + kernel(6, 573, 760, "9") + // again
		event("python_function", "nn.Module: Part_1", "9", 576, 2, "") + event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", "9", 576, 2, `"Sequence number":5`) + kernel(7, 576, 780, "9") +
		event("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", "9", 580, 30, "") + kernel(5, 585, 800, "9") + `{}]}`
	run := must.Have(chrome.Read(strings.NewReader(in), chrome.Options{File: "a.json"}))(t)
	w := must.Have(lift.Workload(run, lift.Options{}))(t)
	if got, want := layersOf(w), []string{"Block_0", "Block_1", "Block_1", "Block_0", "Block_0", "Part_0", ""}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
