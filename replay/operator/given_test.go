package operator

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/machinetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

const mlp = "operator: gemm+gemm\nmachine: v100x1\ntype: f16\nshape: {m: 512, k: 12288, hidden: 6144, n: 12288}\nkernel: {tile: 256x128, threads: 256, registers: 128}\n"

// TestParseWithOtherValues checks that values replace those of a file, and that errors name the file.
func TestParseWithOtherValues(t *testing.T) {
	f, err := Parse(strings.NewReader(mlp), "w.yaml", map[string]string{"shape.m": "256", "kernel.split": "2 1", "kernel.tile": "256x64 256x128"})
	if err != nil || f.shape["m"] != 256 || f.shape["k"] != 12288 || at(f.Kernel.Splits, 0) != 2 || at(f.Kernel.Tiles, 1).N != 128 {
		t.Errorf("%+v, %v", f, err)
	}
	for _, set := range []map[string]string{{"shape.rows": "3"}, {"shape.m": "0"}, {"kernel.split": "0"}, {"times": "-1"}, {"sync": "gpu"}} {
		if _, err := Parse(strings.NewReader(mlp), "w.yaml", set); err == nil || !strings.HasPrefix(err.Error(), "w.yaml:") {
			t.Errorf("%v: %v", set, err)
		}
	}
}

// TestSplit checks the grid of a GEMM whose tiles are split along K, and what its parts
// move through memory beyond the operands.
func TestSplit(t *testing.T) {
	f := must.Have(Parse(strings.NewReader(mlp), "w.yaml", map[string]string{"kernel.split": "2 1"}))(t)
	run := must.Have(f.Run(machinetest.Load(t, "v100x1")))(t)
	var wgs []int
	for _, s := range run.Spans {
		if s.Kind == trace.Compute {
			wgs = append(wgs, run.Setup(run.Kernel(s)).WGs())
		}
	}
	if len(wgs) != 2 || wgs[0] != 2*48*2 || wgs[1] != 2*96 {
		t.Errorf("grids of %v workgroups, want 192 and 192", wgs)
	}
}

// TestTimes checks that given times replace rooflines, less the launch of a host that waits.
func TestTimes(t *testing.T) {
	m := machinetest.Load(t, "v100x1")
	for _, c := range []struct {
		set  map[string]string
		want [3]trace.Time // first kernel, gap, second kernel; ns
		err  string
	}{
		{map[string]string{"times": "800 400.5"}, [3]trace.Time{800_000, 1500, 400_500}, ""},
		{map[string]string{"times": "800 400.5", "sync": "host"}, [3]trace.Time{791_200, 8_800, 391_700}, ""},
		{map[string]string{"times": "800 400.5", "sync": "event"}, [3]trace.Time{794_000, 1500, 399_000}, ""},
		{map[string]string{"times": "800 400.5", "sync": "clear", "kernel.split": "2 1"}, [3]trace.Time{789_600, 8_800, 391_700}, ""},
		{map[string]string{"times": "800"}, [3]trace.Time{}, "1 times for 2 compute kernels (give 2, in µs)"},
		{map[string]string{"times": "800 3", "sync": "host"}, [3]trace.Time{}, "takes less than its launch and the wait for it, 8.8 µs"},
	} {
		f := must.Have(Parse(strings.NewReader(mlp), "w.yaml", c.set))(t)
		run, err := f.Run(m)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: %v, want %q", c.set, err, c.err)
			}
			continue
		}
		var k []trace.Span
		for _, s := range run.Spans {
			if s.Kind == trace.Compute {
				k = append(k, s)
			}
		}
		if got := [3]trace.Time{k[0].Dur(), k[1].Start - k[0].End, k[1].Dur()}; err != nil || got != c.want {
			t.Errorf("%v: %v ns, %v, want %v", c.set, got, err, c.want)
		}
	}
}

// GEMMs of the matrix library have a workgroup a CU where they are persistent, else one a tile.
func TestLibraryGrids(t *testing.T) {
	for name, want := range map[string]int{"h200x1": 132, "a100x1": 32 * 16, "mi300xx1": 32 * 16} {
		f := must.Have(Parse(strings.NewReader("operator: gemm+all_reduce\nmachine: h200:1\ntype: f16\nshape: {m: 4096, n: 4096, k: 4096}\n"), "w.yaml", nil))(t)
		run := must.Have(f.Run(machinetest.Load(t, name)))(t)
		for _, s := range run.Spans {
			if s.Kind == trace.Compute && run.Setup(run.Kernel(s)).WGs() != want {
				t.Errorf("%s: %d workgroups, want %d", name, run.Setup(run.Kernel(s)).WGs(), want)
			}
		}
	}
}
