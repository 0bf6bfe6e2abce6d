package engines

import (
	"encoding/csv"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
)

// The published measurements of cuSync's MLP on V100, with the grids of the
// paper's Table IV: from the two kernels' times alone, RowSync is predicted
// within 8 %. Nothing of this machine was fitted to them.
func TestPublishedRowSync(t *testing.T) {
	const file = "../../shared/facts/cusync_raw.csv"
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s: the folder shared is not beside the checkout", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	v100, err := machine.Load("v100")
	if err != nil {
		t.Fatal(err)
	}
	type grid struct{ columns, parts int } // of a tile of the first product; along K
	grids := map[string]grid{"128": {128, 2}, "256": {64, 2}, "512": {128, 2}, "1024": {128, 1}, "2048": {128, 1}}
	checked := 0
	for _, r := range rows {
		if r[0] != "mlp-gpt3-v100.csv" || r[5] != "rowsync" || grids[r[3]].parts == 0 {
			continue
		}
		us := func(i int) float64 {
			v, err := strconv.ParseFloat(r[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		batch, _ := strconv.ParseInt(r[3], 10, 64)
		s := mlp{ranks: 1, steps: 4, batch: batch, hidden: 12288, ffn: 6144, up: trace.Time(us(8) * 1e3), down: trace.Time(us(9) * 1e3)}
		w := s.build(t)
		for i := range w.Ops {
			op := &w.Ops[i]
			op.Tiling.TileM, op.Tiling.TileN = 256, 128
			parts := 1
			if i%2 == 0 {
				op.Tiling.TileN, parts = grids[r[3]].columns, grids[r[3]].parts
			}
			op.Tiling.WGs = ceilDiv(int(op.Shape.M), 256) * int(op.Shape.N) / op.Tiling.TileN * parts
			op.Tiling.Tiles = op.Tiling.WGs
			op.Footprint.Shared, op.Footprint.Registers = 40<<10, 100 // two a CU
		}
		got := outcome(t, w, v100.Resize(1), "tilesync", nil)
		if got.Result == nil {
			t.Fatalf("batch %d: %s", batch, got.Why)
		}
		e := float64(got.Time)/1e3/us(10) - 1
		t.Logf("batch %4d: %6.0f µs one after the other, %6.0f predicted, %6.0f measured: %+.1f %%", batch, us(6), float64(got.Time)/1e3, us(10), 100*e)
		if e < -0.08 || e > 0.08 {
			t.Errorf("batch %d: off by %+.1f %%", batch, 100*e)
		}
		checked++
	}
	if checked != 5 {
		t.Errorf("%d rows found, 5 expected", checked)
	}
}
