package results

import (
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/workload"
)

// Kernels that would look alike show what tells them apart; those of the same name and shape
// are one row.
func TestKernelNames(t *testing.T) {
	ks := []workload.KernelSummary{
		{Name: `"void par_ranged2d_kernel<policy, lambda_1>(int)`, Count: 1, TotalNs: 10},
		{Name: `"void par_ranged2d_kernel<policy, lambda_2>(int)`, Count: 1, TotalNs: 20},
		{Name: "_ZN2ck27kernel_gemm_xdl_cshuffle_v3INS_28GridwiseA_ArgumentE", Count: 1, TotalNs: 30},
		{Name: "_ZN2ck27kernel_gemm_xdl_cshuffle_v3INS_28GridwiseB_ArgumentE", Count: 2, TotalNs: 30},
		{Name: "gemm", Shape: "gemm 1x2x3", Workgroups: 1, Count: 1, TotalNs: 1},
		{Name: "gemm", Shape: "gemm 1x2x3", Workgroups: 2, Count: 3, TotalNs: 50},
		{Name: "gemm", Shape: "gemm 1x2x4", Count: 1, TotalNs: 2},
	}
	joined := merged(ks)
	if len(joined) != 6 || joined[0].Name != "gemm" || joined[0].Count != 4 || joined[0].TotalNs != 51 {
		t.Errorf("merged: %+v", joined)
	}
	names := kernelNames(ks[:4])
	for i, want := range []string{"par_ranged2d…", "par_ranged2d…", "_ZN2ck27", "_ZN2ck27"} {
		if !strings.HasPrefix(names[i], want[:8]) || len([]rune(names[i])) > nameWidth || strings.Contains(names[i], `"`) {
			t.Errorf("%q", names[i])
		}
	}
	for _, part := range []string{"1>(int)", "2>(int)", "A_ArgumentE", "B_ArgumentE"} {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, "…"+part) }) {
			t.Errorf("no name ends in %q: %q", part, names)
		}
	}
}

// Lists in inspect's JSON that grow with the trace are cut, and the rest is counted.
func TestBoundedLists(t *testing.T) {
	short, long := make([]int, 3), make([]int, maxListed+5)
	if n := truncateList(&short); n != 0 || len(short) != 3 {
		t.Errorf("%d of 3 left out", n)
	}
	if n := truncateList(&long); n != 5 || len(long) != maxListed {
		t.Errorf("%d left out, %d listed", n, len(long))
	}
}
