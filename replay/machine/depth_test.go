package machine_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// TestLoneTilesByDepth compares the share of a CU that a tile uses alone with GEMMs of 64x64 tiles
// on an H100 and an H200, which testdata/steps.cu timed by the depth of a step along K: one
// workgroup on each CU against a workgroup a tile. The share at depth 64 is given, that at 32
// predicted.
func TestLoneTilesByDepth(t *testing.T) {
	for _, gpu := range []string{"h100", "h200"} {
		t.Run(gpu, func(t *testing.T) { compareDepths(t, "testdata/"+gpu+"-steps.jsonl") })
	}
}

func compareDepths(t *testing.T, path string) {
	data := must.Have(os.ReadFile(path))(t)
	type size struct{ m, n, k, depth int }
	alone, full := map[size]float64{}, map[size]float64{}
	cus := 0
	for line := range bytes.Lines(data) {
		var r struct {
			Row, Tile                        string
			CUs, Stages, M, N, K, Workgroups int
			US                               float64
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		at := size{r.M, r.N, r.K, map[string]int{"64x64x32": 32, "64x64x64": 64}[r.Tile]}
		switch {
		case r.Row == "gpu":
			cus = r.CUs
		case r.Stages != 2 || at.depth == 0: // only these load the next step meanwhile
		case r.Workgroups == cus:
			alone[at] = r.US
		case r.Workgroups == r.M/64*(r.N/64):
			full[at] = r.US
		}
	}
	if len(alone) != 6 {
		t.Fatalf("%d rows of a workgroup on each CU, want 6", len(alone))
	}
	for at := range alone {
		if at.depth != 32 {
			continue
		}
		deep := at
		deep.depth = 64
		var m machine.Machine // such that a tile of 64x64x64 uses what it does
		m.Matmul.Compiled.Value, m.Matmul.Lone.Value = 1, 1/(1+(alone[deep]/full[deep]-1)/4)
		got, want := m.LonePipe(64, 64, 32), full[at]/alone[at]
		t.Logf("%d x %d x %d: depth 64 %.2f of a CU, depth 32 %.2f, predicted %.2f", at.m, at.n, at.k, full[deep]/alone[deep], want, got)
		if math.Abs(got-want) > 0.15*want {
			t.Errorf("%d x %d x %d: alone a tile of depth 32 uses %.2f of its CU, predicted %.2f", at.m, at.n, at.k, want, got)
		}
		// Tiles of 128x128x32 of the same kind use 0.68 of both GPUs' CUs (engines/score/testdata/h*00-tiles.golden).
		if large := m.LonePipe(128, 128, 32); at.k == 8192 && math.Abs(large-0.68) > 0.15*0.68 {
			t.Errorf("%d x %d x %d: alone a tile of 128x128x32 uses 0.68 of its CU, predicted %.2f", at.m, at.n, at.k, large)
		}
	}
}
