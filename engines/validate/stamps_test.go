package validate

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/plan/plantest"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine/calibrate"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/format"
)

// The distances of predicted workgroups from stamped ones, as a golden.
func TestStampsAgainstHardware(t *testing.T) {
	const shared = "../../../shared/data/h200"
	f, err := os.Open(filepath.Join(shared, "validate.jsonl"))
	if err != nil {
		t.Skip("no measurements in the folder shared beside the checkout")
	}
	defer f.Close()
	if testing.Short() {
		t.Skip("replays 16 kernels with all their workgroups")
	}
	rows, err := calibrate.ReadRows(f, "validate.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(shared, "wg", "*.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, regexp.MustCompile(`_rank\d+_wg_trace.*`).ReplaceAllString(filepath.Base(f), ""))
	}
	names = slices.Compact(names)
	got := fmt.Sprintf("%-32s %8s %9s %9s %7s %7s %7s %7s\n", "stamps", "wgs", "measured", "predicted", "starts", "ends", "order", "shape")
	for _, name := range names {
		stamps, err := format.Open(filepath.Join(shared, "wg", name+"_rank*"), format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		row, err := StampsRow(name, Programs(stamps), rows)
		if err != nil {
			got += fmt.Sprintf("%-32s %v\n", name, err)
			continue
		}
		run, err := format.Open(filepath.Join(shared, row.Trace), format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := CheckStamps(name, stamps, row, run, plantest.H200(t, 4))
		if c.Why != "" {
			got += fmt.Sprintf("%-32s %s\n", name, c.Why)
			continue
		}
		got += fmt.Sprintf("%-32s %8d %9.1f %9.1f %6.1f%% %6.1f%% %6.1f%% %6.1f%%\n", name, c.Workgroups, c.Measured, c.Predicted, 100*c.Starts, 100*c.Ends, 100*c.Order, 100*c.Shape)
	}
	const golden = "testdata/stamps.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("distances from stamps changed:\n%s\nbefore:\n%s", got, want)
	}
}

func TestStampsRow(t *testing.T) {
	tile := []int{128, 256, 64}
	rows := []calibrate.Row{
		{ID: "bulk", Machine: "h200x4", World: 4, Strategy: "bulk", Trace: "t", Workload: calibrate.Workload{Name: "moe_down", Kind: "gemm+collective", Tile: tile}},
		{ID: "few", Strategy: "fused", Trace: "t", Workload: calibrate.Workload{Name: "moe_down", Tile: tile}, Params: calibrate.Params{Order: "aware", Programs: 66}},
		{ID: "library", Strategy: "fused", Trace: "t", Workload: calibrate.Workload{Name: "moe_down"}, Params: calibrate.Params{Order: "aware", Programs: 132}},
		{ID: "all", Strategy: "fused", Trace: "t", Workload: calibrate.Workload{Name: "moe_down", Tile: tile}, Params: calibrate.Params{Order: "aware", Programs: 132}},
		{ID: "untraced", Strategy: "fused", Workload: calibrate.Workload{Name: "moe_down", Tile: tile}, Params: calibrate.Params{Order: "oblivious", Programs: 132}},
		{ID: "row", Strategy: "tilesync", Trace: "t", Workload: calibrate.Workload{Kind: "gemm+gemm", Batch: 512}, Params: calibrate.Params{Policy: "row"}},
		{ID: "gather", Strategy: "fused", Trace: "t", Workload: calibrate.Workload{Kind: "embedding+collective", Batch: 1024, Tables: 64, SameBuild: true}, Params: calibrate.Params{Order: "aware", Programs: 1056}},
	}
	for name, want := range map[string]string{
		"gemm_moe_down_fused_aware":     "all",
		"gemm_moe_down_fused_oblivious": "", // measured, but from no trace
		"gemm_moe_down_plain_grid":      "bulk",
		"mlp_b512_row_consumer":         "row",
		"mlp_b512_tile_consumer":        "",
		"emb_b1024_t64_fused_aware":     "", // by another number of workgroups
		"gemm_beside_allreduce_ctas8":   "gemm_beside_allreduce_ctas8",
		"something":                     "",
	} {
		row, err := StampsRow(name, 132, rows)
		if row.ID != want || (err == nil) != (want != "") {
			t.Errorf("%s: row %q, %v; want %q", name, row.ID, err, want)
		}
	}
}

// Sorted times move to their peers in order; stretching moves all in proportion.
func TestMover(t *testing.T) {
	if d := mover([]float64{0, 0, 10, 10}, []float64{0, 4, 10, 12}); d != 1.5 {
		t.Errorf("%v, want (0+4+0+2)/4", d)
	}
	if d := mover([]float64{0, 5, 10}, stretched([]float64{0, 10, 20}, 0.5)); d != 0 {
		t.Errorf("%v, want 0", d)
	}
}

// Of 192 compiled tiles on 132 CUs, 60 CUs have two and 72 have one, which ends
// earlier: lone tiles reach the profile's matmul.lone of its matmul.compiled.
func TestLoneTilesEndEarlier(t *testing.T) {
	m := plantest.H200(t, 1)
	op := workload.Op{End: 144_000, Kernel: &workload.Kernel{Shape: workload.Shape{Kind: workload.GEMM}, Tiling: workload.Tiling{Tiles: 192, WGs: 192}, Footprint: replay.Footprint{Threads: 256, Shared: 96 << 10}}}
	pl := &plan.Planner{Machine: m}
	g := pl.GridOf(&op, op.Dur())
	share := m.Matmul.Lone.Value / m.Matmul.Compiled.Value
	if want := 144_000 / (2 * share); math.Abs(float64(g.Time)-want) > 1 || math.Abs(g.Pipe-share) > 1e-9 {
		t.Errorf("a tile takes %d ns alone and %.3f of the pipes, want %.0f and %.3f", g.Time, g.Pipe, want, share)
	}
	op.Tiling.WGs = 264 // two on every CU: none is alone, and none waits
	if g := pl.GridOf(&op, op.Dur()); math.Abs(float64(g.Time)*2*g.Pipe-144_000) > 2 {
		t.Errorf("two together take %.0f ns, want 144000", float64(g.Time)*2*g.Pipe)
	}
}
