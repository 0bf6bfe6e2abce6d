package trace_test

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
)

func TestCollectiveNames(t *testing.T) {
	for _, c := range []struct {
		kernel string
		is     bool
		op     trace.CollectiveOp
	}{
		{"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", true, trace.AllReduce},
		{"ncclKernel_ReduceScatter_RING_LL_Sum_half(ncclWorkElem)", true, trace.ReduceScatter},
		{"ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", true, trace.UnknownOp},
		{"ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", true, trace.SendRecv},
		{"void vllm::cross_device_reduce_1stage<__half, 4>", true, trace.AllReduce},
		{"ampere_fp16_s16816gemm_fp16_128x128", false, trace.UnknownOp},
	} {
		if got := trace.Communicates(c.kernel); got != c.is {
			t.Errorf("Communicates(%q) = %v", c.kernel, got)
		}
		if got := trace.CollectiveOpIn(c.kernel); got != c.op {
			t.Errorf("CollectiveOpIn(%q) = %v, want %v", c.kernel, got, c.op)
		}
	}
}

func TestRankInName(t *testing.T) {
	for name, want := range map[string]int{
		"rank3.json.gz": 3, "/a/rank7/x_rank-12_wg_trace.csv": 12, `C:\t\Rank_4.json`: 4, "12345_kernel_trace.csv": trace.None, "rank.json": trace.None,
		"1758.5-TP-3-DP-0-EP-3.trace.json.gz": 3, "1758-TP-2-DECODE.trace.json.gz": 2, "1758-TP-1-PP-1.trace.json.gz": trace.None, "qwen-TP8.json": trace.None,
	} {
		if got := trace.RankInName(name); got != want {
			t.Errorf("RankInName(%q) = %d, want %d", name, got, want)
		}
	}
}
