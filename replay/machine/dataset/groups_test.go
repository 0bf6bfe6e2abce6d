package dataset

import (
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
)

// A census gives the groups back; a fill order that is another one is a residual.
func TestReadGroups(t *testing.T) {
	row := Row{
		ID: "x", World: 1, Strategy: "isolated", Us: 1, Workload: Workload{Kind: "cu_groups"},
		// Two lone pairs, 4-5 and 6-7, and a group of four.
		Params: Params{Benchmark: Benchmark{Groups: [][]int{{0, 1, 2, 3}, {4, 5}, {6, 7}}, FillOrder: []int{4, 6, 5, 7, 0, 2, 1, 3}}},
	}
	base := machinetest.Load(t, "h200")
	base.GPU.CUs.Value = 8
	for residual, order := range map[float64][]int{0: {4, 6, 5, 7, 0, 2, 1, 3}, 0.25: {0, 6, 5, 7, 4, 2, 1, 3}} {
		row.Params.FillOrder = order
		c := &calibration{rows: []Row{row}, m: base}
		f := readGroups(c)
		if f.residual != residual || !slices.EqualFunc(f.table, [][]float64{{2, 2}, {4, 1}}, slices.Equal) {
			t.Errorf("%v: %v, residual %v", order, f.table, f.residual)
		}
	}
}

// A tile's cluster is the one most often named; tiles without a name keep theirs.
func TestReadClusters(t *testing.T) {
	c := &calibration{m: machine.Machine{Matmul: machine.Matmul{Clusters: machine.Table{Rows: [][]float64{{128, 128, 1, 2}, {192, 192, 1, 1}}}}}}
	for _, name := range []string{
		"nvjet_sm90_tst_192x192_64x3_2x1_v_bz_coopB_NNN", "nvjet_sm90_tst_192x192_64x4_1x2_h_bz_coopB_TNN", "nvjet_sm90_tst_192x192_64x3_2x1_v_bz_coopB_NTN",
		"nvjet_sm90_tst_160x128_64x5_2x4_h_bz_NNN", "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_tn", "",
	} {
		c.rows = append(c.rows, Row{Strategy: "isolated", Workload: Workload{Kind: "gemm"}, Params: Params{Benchmark: Benchmark{KernelName: name}}})
	}
	f := readClusters(c)
	got := tidy(f.table, []machine.Dimension{machine.Count, machine.Count, machine.Count, machine.Count})
	want := [][]float64{{128, 128, 1, 2}, {160, 128, 2, 4}, {192, 192, 2, 1}}
	if !slices.EqualFunc(got, want, slices.Equal) || len(f.rows) != 4 {
		t.Errorf("%v from %d rows, want %v", got, len(f.rows), want)
	}
}
