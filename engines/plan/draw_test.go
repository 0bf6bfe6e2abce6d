package plan

import (
	"math"
	"testing"

	"github.com/overlapse/overlapse/replay/cost"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// Kernels of matrix instructions draw power for their operations: attention of FlashAttention-2 on an H200, 290 of
// 829 TFLOP/s, for 0.35 of its time.
func TestMatrixKernelsDrawByFlops(t *testing.T) {
	var m machine.Machine
	m.GPU.Flops.Value, m.GPU.CUs.Value = 829e12, 132
	for _, c := range []struct {
		what  string
		k     workload.Kernel
		share float64 // of 1 ms
	}{
		{"attention of known sizes", workload.Kernel{Dense: true, Flops: 290e9}, 0.35},
		{"attention faster than the profile's GEMMs", workload.Kernel{Dense: true, Flops: 900e9}, 1},
		{"attention of unknown sizes", workload.Kernel{Dense: true}, 0.75},
		{"a convolution on all CUs", workload.Kernel{Dense: true, Tiling: workload.Tiling{WGs: 132}}, 0.75},
		{"a convolution on a sixth of the CUs", workload.Kernel{Dense: true, Tiling: workload.Tiling{WGs: 22}}, 0.125},
		{"a GEMM", workload.Kernel{Shape: workload.Shape{Kind: workload.GEMM, M: 4096, N: 4096, K: 8192}}, 0.3316},
	} {
		var clock Clock
		clock.add(&cost.Laws{Machine: &m, Workload: &workload.Workload{}}, &workload.Op{Kernel: &c.k, Kind: trace.Compute, End: 1_000_000, Collective: -1, Step: -1})
		if got := clock.demand.Matrix / 1e-3; math.Abs(got-c.share) > 0.001 || clock.demand.Memory > 0 {
			t.Errorf("%s draws for %.4f of its time, want %.4f", c.what, got, c.share)
		}
	}
}
