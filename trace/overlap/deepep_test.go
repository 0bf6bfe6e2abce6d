package overlap

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A layer of experts as PyTorch's profiler writes it for DeepEP: the kernels that send
// tokens are communication, the one that counts them is compute.
//
//	stream 7   |layout GGGGG           |
//	stream 22  |       nn DDDDDDDD CCCC|
func TestDeepEPCommunicates(t *testing.T) {
	const text = `{"traceEvents": [
{"ph":"X","cat":"kernel","name":"void deep_ep::layout::get_dispatch_layout<256, 4, 8>(long const*, int*)","pid":0,"tid":7,"ts":0,"dur":10,"args":{"stream":7,"device":0,"grid":[20,1,1],"block":[256,1,1],"correlation":1}},
{"ph":"X","cat":"kernel","name":"void deep_ep::intranode::notify_dispatch<8>(int const*, int*, int)","pid":0,"tid":22,"ts":10,"dur":10,"args":{"stream":22,"device":0,"grid":[9,1,1],"block":[128,1,1],"correlation":2}},
{"ph":"X","cat":"kernel","name":"void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*)","pid":0,"tid":22,"ts":20,"dur":100,"args":{"stream":22,"device":0,"grid":[20,1,1],"block":[768,1,1],"correlation":3}},
{"ph":"X","cat":"kernel","name":"void deep_gemm::fp8_gemm_kernel<4096u, 7168u>(float*)","pid":0,"tid":7,"ts":120,"dur":50,"args":{"stream":7,"device":0,"grid":[132,1,1],"block":[384,1,1],"correlation":4}},
{"ph":"X","cat":"kernel","name":"void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(__nv_bfloat16*)","pid":0,"tid":22,"ts":150,"dur":60,"args":{"stream":22,"device":0,"grid":[20,1,1],"block":[768,1,1],"correlation":5}}
]}`
	run := must.Have(chrome.Read(strings.NewReader(text), chrome.Options{File: "rank0.json"}))(t)
	var ops []trace.CollectiveOp
	for _, s := range run.Spans {
		if s.Kind == trace.Collective {
			ops = append(ops, run.Comm(s).Op)
		}
	}
	if len(ops) != 3 || ops[0] != trace.Barrier || ops[1] != trace.AllToAll || ops[2] != trace.AllToAll {
		t.Errorf("operations %v", ops)
	}
	b := Measure(run).Ranks[0].Breakdown
	if b.Communication != 170_000 || b.Exposed != 150_000 || b.Overlapped != 20_000 || b.Compute != 60_000 {
		t.Errorf("communication %d, exposed %d, overlapped %d, compute %d ns", b.Communication, b.Exposed, b.Overlapped, b.Compute)
	}
}
