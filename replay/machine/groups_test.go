package machine

import (
	"slices"
	"testing"
)

func grouped(cus float64, rows ...[]float64) GPU {
	return GPU{CUs: Quantity{Value: cus}, Groups: Table{Rows: rows}}
}

// The drawing of groups.go.
func TestGrouping(t *testing.T) {
	for _, c := range []struct {
		g    GPU
		want []int
	}{
		{grouped(12, []float64{2, 2}, []float64{4, 2}), []int{0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3}},
		{grouped(9, []float64{1, 1}, []float64{3, 1}, []float64{5, 1}), []int{0, 1, 2, 1, 2, 2, 1, 2, 2}},
		{GPU{CUs: Quantity{Value: 3}}, nil},
	} {
		if got := c.g.Grouping(); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.g.Groups.Rows, got, c.want)
		}
	}
}

// What an H200 held at once while a plain grid held so many SMs
// (samples/measurements/2026-11-22-h200-groups/clusters.txt: those not late).
func TestClustersBesideHeldCUs(t *testing.T) {
	g := load(t, "h200").GPU
	for size, want := range map[int]map[int]int{ // by how many are held
		1:  {40: 92},
		2:  {0: 66, 1: 65, 2: 64, 3: 63, 4: 62, 5: 62, 8: 62, 9: 61, 12: 58, 16: 54, 20: 54, 24: 54, 28: 50, 32: 46, 40: 46, 48: 39, 56: 37, 64: 32, 66: 32, 80: 24},
		4:  {0: 30, 8: 30, 9: 29, 12: 26, 16: 24, 28: 24, 32: 22, 40: 22, 48: 17, 64: 15, 80: 9},
		8:  {0: 15, 9: 14, 16: 9, 28: 9, 32: 7, 66: 7, 80: 2},
		16: {0: 7},
	} {
		for held, want := range want {
			if got := g.Clusters(size, held); got != want {
				t.Errorf("clusters of %d with %d held: %d, measured %d", size, held, got, want)
			}
		}
	}
	if n := g.Clustered(4); n != 120 {
		t.Errorf("clusters of 4 lie on %v CUs", n)
	}
	unknown := GPU{CUs: Quantity{Value: 132}}
	if a, b := unknown.Clusters(2, 3), unknown.Clustered(8); a != 64 || b != 132 {
		t.Errorf("unknown groups: %d clusters beside 3 held, %v CUs", a, b)
	}
}

// A census gives the groups back; a fill order that is another one is a residual.
func TestReadGroups(t *testing.T) {
	row := Row{
		ID: "x", World: 1, Strategy: "isolated", Us: 1, Workload: Workload{Kind: "cu_groups"},
		// Two lone pairs, 4-5 and 6-7, and a group of four.
		Params: Params{Groups: [][]int{{0, 1, 2, 3}, {4, 5}, {6, 7}}, FillOrder: []int{4, 6, 5, 7, 0, 2, 1, 3}},
	}
	base := load(t, "h200")
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
	c := &calibration{m: Machine{Matmul: Matmul{Clusters: Table{Rows: [][]float64{{128, 128, 1, 2}, {192, 192, 1, 1}}}}}}
	for _, name := range []string{
		"nvjet_sm90_tst_192x192_64x3_2x1_v_bz_coopB_NNN", "nvjet_sm90_tst_192x192_64x4_1x2_h_bz_coopB_TNN", "nvjet_sm90_tst_192x192_64x3_2x1_v_bz_coopB_NTN",
		"nvjet_sm90_tst_160x128_64x5_2x4_h_bz_NNN", "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_tn", "",
	} {
		c.rows = append(c.rows, Row{Workload: Workload{Kind: "gemm"}, Params: Params{KernelName: name}})
	}
	f := readClusters(c)
	got := tidy(f.table, []dimension{count, count, count, count})
	want := [][]float64{{128, 128, 1, 2}, {160, 128, 2, 4}, {192, 192, 2, 1}}
	if !slices.EqualFunc(got, want, slices.Equal) || len(f.rows) != 4 {
		t.Errorf("%v from %d rows, want %v", got, len(f.rows), want)
	}
}
