package tiles_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/engines/tiles"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// A kernel with one workgroup per tile takes its measured time when it runs alone.
func TestSynchronisedGridKeepsTime(t *testing.T) {
	for _, s := range []plantest.Mlp{plantest.Mlp512, {Ranks: 1, Steps: 1, Batch: 128, Hidden: 12288, Ffn: 6144, Up: 91_400, Down: 53_500}} {
		w, m := s.Build(t), plantest.H200(t, s.Ranks)
		pl := must.Have(plan.NewPlanner(w, m, plan.Scenario{}))(t)
		for _, op := range w.Ops[:2] {
			c, ok := plan.CoverOf(&op)
			if !ok {
				t.Fatal("no tiles")
			}
			k := pl.KernelOf(&op, pl.ApartGrid(&op, c.Tiles()*c.Splits))
			p := &program.Program{GPUs: []program.GPU{{Streams: []program.Stream{{Commands: []program.Command{{Op: program.Launch, Kernel: k}}}}}}}
			res := must.Have(replay.Simulate(m, p, replay.Options{}))(t)
			if d := res.Makespan - op.Dur(); d < -op.Dur()/100 || d > op.Dur()/100 {
				t.Errorf("%s of batch %d takes %d ns, measured %d", op.Name, s.Batch, res.Makespan, op.Dur())
			}
		}
	}
}

// Of the captured steps beside the checkout most have dependent GEMMs that tilesync can serve.
func TestTilesyncSteps(t *testing.T) {
	steps, err := filepath.Glob("../../../shared/data/steps/*/traces/*")
	if _, no := os.Stat("../../../shared/data"); no != nil || testing.Short() {
		t.Skip("the folder shared beside the checkout is absent: no captured steps")
	}
	if err != nil || len(steps) < 70 {
		t.Fatal(len(steps), err)
	}
	applies := 0
	for _, path := range steps {
		run := must.Have(format.Open(path, format.Options{}))(t)
		w := must.Have(lift.Workload(run, lift.Options{}))(t)
		v := must.Have(tiles.Tilesync.Values(nil))(t)
		_, err = schedule.Planned(tiles.Tilesync, w, plantest.H200(t, 2), v, plan.Scenario{})
		switch {
		case err == nil:
			applies++
		case len(err.Error()) < len("tilesync: does not apply: no GEMM in the trace"):
			t.Errorf("%s: no reason: %v", path, err)
		}
	}
	if applies < 40 {
		t.Errorf("tilesync applies to %d of %d steps", applies, len(steps))
	}
}

func TestFormulas(t *testing.T) {
	for formula, want := range map[string]string{
		"row +":                  "expected operand",
		"(row":                   "expected ')'",
		"row col":                "expected 'EOF'",
		"height":                 "position 1: a formula has whole numbers, [row col k rows cols splits], + - * / % and parentheses",
		"1/0 + len(row)":         "position 7: a formula has",
		"":                       "expected operand",
		strings.Repeat("1", 201): "formula of 201 bytes (at most 200)",
		"row*cols+(col%4)/2-k":   "",
	} {
		_, err := tiles.Tilesync.Values(map[string]string{"posts": formula})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", formula, err, want)
		}
	}
}

// A GEMM in other parts along K takes as long as parts of its loop and the sums of its parts, one after another (rule
// T11): 64x12288x6144 in tiles of 64x256 on an H100 and an H200, whose kernels took so long in 1, 2, 3 and 5 parts
// (engines/score/testdata/h*00-tiles.jsonl, rows of spread, last workgroups). Shares of the loop alone are up to 38 % short.
func TestPartsAddTheirSums(t *testing.T) {
	measured := map[string]map[string]float64{
		"h100": {"1": 291.8, "2": 158.3, "3": 120.2, "5": 93.7},
		"h200": {"1": 296.2, "2": 155, "3": 116.7, "5": 87.1},
	}
	for gpu, took := range measured {
		m := must.Have(machine.Load(gpu + ":1"))(t)
		w := plantest.Chain{Ranks: 1, Steps: 1, M: 64, GEMMs: []plantest.Dense{
			{Name: "gemm", N: 6144, K: 12288, Rows: 64, Cols: 256, Dur: trace.Time(1000 * took["1"])},
			{Name: "next", N: 12288, K: 6144, Rows: 64, Cols: 256, Dur: 150_000},
		}}.Build(t)
		pl := must.Have(plan.NewPlanner(w, m, plan.Scenario{}))(t)
		for parts, us := range took {
			is := float64(tiles.InParts(pl, &w.Ops[0], parts, 0).DurAlone()) / 1000
			if is > 1.01*us || is < 0.74*us {
				t.Errorf("%s in %s parts: %.1f us, measured %.1f", gpu, parts, is, us)
			}
		}
	}
}
