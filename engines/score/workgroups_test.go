package score

import (
	"compress/gzip"
	"encoding/csv"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// durations are the workgroups' durations of a measured kernel, in nanoseconds,
// split into those that had their CU alone all the while and those that did not.
func durations(t *testing.T, file string) (alone, shared []float64) {
	t.Helper()
	f := must.Have(os.Open(file))(t)
	defer f.Close()
	z := must.Have(gzip.NewReader(f))(t)
	rows := must.Have(csv.NewReader(z).ReadAll())(t)
	column := func(name string) int { return slices.Index(rows[0], name) }
	cu, start, end := column("CU_Id"), column("Wait_End_Timestamp"), column("End_Timestamp")
	on := map[string]int{}
	for _, r := range rows[1:] {
		on[r[cu]]++
	}
	for _, r := range rows[1:] {
		a, _ := strconv.ParseFloat(r[start], 64)
		b, _ := strconv.ParseFloat(r[end], 64)
		if on[r[cu]] == 1 {
			alone = append(alone, b-a)
		} else {
			shared = append(shared, b-a)
		}
	}
	slices.Sort(alone)
	slices.Sort(shared)
	return alone, shared
}

// The stamps of 192 workgroups on 132 CUs, of which 72 had one and 60 two:
// from the kernel's time alone, the model finds how long either kind took.
func TestWorkgroupsAgainstStamps(t *testing.T) {
	alone, shared := durations(t, "../../samples/measurements/2026-11-20-h200x4/wg/mlp_b512_stream_producer_rank0_wg_trace.csv.gz")
	s := plantest.Mlp512
	s.Up = trace.Time(shared[len(shared)-1])
	w, m := s.Build(t), plantest.H200(t, s.Ranks)
	pl := must.Have(plan.NewPlanner(w, m, plan.Scenario{}))(t)
	c, _ := plan.CoverOf(&w.Ops[0])
	g := pl.ApartGrid(&w.Ops[0], c.Tiles()*c.Splits)
	for _, x := range []struct {
		what        string
		model, real float64
		n, want     int
	}{
		{"alone on a CU", float64(g.Time), quantile(alone, 0.5), len(alone), 72},
		{"two on a CU", float64(g.Time) * 2 * g.Pipe, quantile(shared, 0.5), len(shared), 120},
	} {
		if x.n != x.want {
			t.Errorf("%s: %d workgroups measured, %d expected", x.what, x.n, x.want)
		}
		if e := x.model/x.real - 1; e < -0.08 || e > 0.08 {
			t.Errorf("%s: %.0f ns, measured %.0f (%+.1f %%)", x.what, x.model, x.real, 100*e)
		}
		t.Logf("%s: %.0f ns, measured %.0f", x.what, x.model, x.real)
	}
}

// Sorted times move to their peers in order; stretching moves all in proportion.
func TestMover(t *testing.T) {
	if d := mover([]float64{0, 0, 10, 10}, []float64{0, 4, 10, 12}); d != 1.5 {
		t.Errorf("%v, want (0+4+0+2)/4", d)
	}
	if d := mover([]float64{0, 5, 10}, sorted([]float64{20, 10, 0}, 0.5)); d != 0 {
		t.Errorf("%v, want 0", d)
	}
}

// Of 192 compiled tiles on 132 CUs, 60 CUs have two and 72 have one, which ends
// earlier: lone tiles reach the profile's matmul.lone of its matmul.compiled.
func TestLoneTilesEndEarlier(t *testing.T) {
	m := plantest.H200(t, 1)
	op := workload.Op{End: 144_000, Kernel: &workload.Kernel{Shape: workload.Shape{Kind: workload.GEMM}, Tiling: workload.Tiling{Tiles: 192, WGs: 192}, Footprint: program.Footprint{Threads: 256, Shared: 96 << 10}}}
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
