package operator_test

import (
	"math"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/operator"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// gemmFile is a GEMM and an all-to-all with durations that are easy to compute by hand.
const gemmFile = `operator: gemm+all_to_all
machine: h200:4
ranks: 4
iterations: 3
type: bf16
shape: {m: 8192, n: 4096, k: 3584}
`

func load(t *testing.T, name string) machine.Machine {
	t.Helper()
	return must.Have(machine.Load(name))(t)
}

// runOf returns the run of a file's text on a machine.
func runOf(t *testing.T, text, on string) *trace.Run {
	t.Helper()
	f := must.Have(operator.Parse(strings.NewReader(text), "w.yaml", nil))(t)
	return must.Have(f.Run(load(t, on)))(t)
}

func lifted(t *testing.T, run *trace.Run) *workload.Workload {
	t.Helper()
	return must.Have(lift.Workload(run, lift.Options{}))(t)
}

// ops are the names of a rank's operations.
func ops(w *workload.Workload, rank int) string {
	var names []string
	for _, id := range w.Ranks[rank] {
		names = append(names, w.Ops[id].Name)
	}
	return strings.Join(names, " ")
}

// TestLift checks that the lifted run of a file has the pairs of its operator.
func TestLift(t *testing.T) {
	for _, c := range []struct {
		operator, shape, ops string
		pair                 workload.Direction
		shapes               []workload.Shape // of the computing operations
		bytes                int64            // communicated
	}{
		{
			"gemm+all_to_all", "{m: 8192, n: 4096, k: 3584}", "fill gemm_256x128 all_to_all", workload.ComputeThenCollective,
			[]workload.Shape{{Kind: workload.GEMM, M: 8192, N: 4096, K: 3584}},
			8192 * 4096 * 2,
		},
		{
			"gemm+reduce_scatter", "{m: 8192, n: 4096, k: 3584}", "fill gemm_256x128 reduce_scatter", workload.ComputeThenCollective,
			[]workload.Shape{{Kind: workload.GEMM, M: 8192, N: 4096, K: 3584}},
			8192 * 4096 * 2,
		},
		{
			"gemm+all_reduce", "{m: 8192, n: 4096, k: 3584}", "fill gemm_256x128 all_reduce", workload.ComputeThenCollective,
			[]workload.Shape{{Kind: workload.GEMM, M: 8192, N: 4096, K: 3584}},
			8192 * 4096 * 2,
		},
		{
			"all_gather+gemm", "{m: 8192, n: 4096, k: 3584}", "all_gather fill gemm_256x128", workload.CollectiveThenCompute,
			[]workload.Shape{{Kind: workload.GEMM, M: 8192, N: 4096, K: 3584}},
			8192 * 3584 * 2,
		},
		{
			"gemv+all_reduce", "{m: 65536, k: 4096}", "gemv_32x1 all_reduce", workload.ComputeThenCollective,
			[]workload.Shape{{Kind: workload.GEMV, M: 65536, N: 1, K: 4096}},
			65536 * 2,
		},
		{
			"gemm+gemm", "{m: 256, k: 4096, hidden: 2048, n: 4096}", "gemm_128x256 gemm_128x256", workload.ComputeThenCompute,
			[]workload.Shape{{Kind: workload.GEMM, M: 256, N: 2048, K: 4096}, {Kind: workload.GEMM, M: 256, N: 4096, K: 2048}},
			0,
		},
		{
			"embedding+all_to_all", "{batch: 512, tables: 16, dim: 256, pooling: 10}", "embedding all_to_all permute", workload.ComputeThenCollective,
			[]workload.Shape{{Kind: workload.Embedding, M: 512 * 16, N: 256, K: 10}},
			512 * 16 * 256 * 2,
		},
	} {
		w := lifted(t, runOf(t, "operator: "+c.operator+"\nmachine: h200:4\ntype: bf16\nshape: "+c.shape, "h200:4"))
		tiles := func(s string) string { return s[:strings.IndexByte(s+"_", '_')] } // the tile is the library's choice
		got, want := strings.Fields(ops(w, 3)), strings.Fields(c.ops)
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || tiles(got[i]) != tiles(want[i]) {
				t.Errorf("%s: operations %v, want %v", c.operator, got, want)
				break
			}
		}
		if len(w.Pairs) != 1 || w.Pairs[0].Direction != c.pair || w.Pairs[0].Confidence < 0.9 || len(w.Pairs[0].First) != 4 {
			t.Errorf("%s: pairs %+v, want one %v of 4 ranks", c.operator, w.Pairs, c.pair)
			continue
		}
		var shapes []workload.Shape
		for _, id := range w.Ranks[0] {
			if op := &w.Ops[id]; op.Kind == trace.Compute {
				shapes = append(shapes, op.Shape)
			}
		}
		for i, s := range c.shapes {
			if i >= len(shapes) || shapes[i].Kind != s.Kind || shapes[i].M != s.M || shapes[i].N != s.N || shapes[i].K != s.K || shapes[i].DType != "bf16" {
				t.Errorf("%s: shapes %+v, want %+v", c.operator, shapes, c.shapes)
			}
		}
		if c.bytes > 0 && w.Collectives[0].Bytes != c.bytes {
			t.Errorf("%s: %d bytes, want %d", c.operator, w.Collectives[0].Bytes, c.bytes)
		}
		if w.Run.Estimated == "" || len(w.Notes) == 0 || !strings.Contains(w.Notes[0], "not measured") {
			t.Errorf("%s: not marked as estimated: %q, notes %q", c.operator, w.Run.Estimated, w.Notes)
		}
	}
}

// TestChains checks that an operator of several dependent kernels is lifted to one pair
// per dependency, in order, for any reduction dimension.
func TestChains(t *testing.T) {
	for _, c := range []struct {
		text, ops string
		sums      []int64   // K by operation
		read      []float64 // bytes
	}{
		{
			"operator: attention\nshape: {m: 256, hidden: 4096, width: 512, context: 1024}",
			"gemm_tile_128x128 attention_gemm_tile_128x128 gemm_tile_128x128",
			[]int64{4096, 512, 512},
			[]float64{2 * (256*4096 + 4096*1536), 2 * (256 + 2*1024) * 512, 2 * (256*512 + 512*4096)},
		},
		{
			"operator: conv+conv\nshape: {batch: 2, height: 28, width: 28, channels: 128, filter: 3}",
			"conv_gemm_tile_128x128 conv_gemm_tile_128x128",
			[]int64{9 * 128, 9 * 128},
			[]float64{2 * (2*28*28*128 + 9*128*128), 2 * (2*28*28*128 + 9*128*128)},
		},
	} {
		w := lifted(t, runOf(t, c.text+"\nmachine: v100:1\ntype: f16\nkernel: {tile: 128x128, threads: 256, registers: 128}", "v100:1"))
		if got := ops(w, 0); got != c.ops {
			t.Errorf("operations %q, want %q", got, c.ops)
		}
		for i := range w.Ops {
			if op := &w.Ops[i]; op.Shape.K != c.sums[i] || op.Read != c.read[i] || op.Tiling.TileM != 128 {
				t.Errorf("%s: %+v reads %.0f bytes, want a sum over %d and %.0f bytes", op.Name, op.Shape, op.Read, c.sums[i], c.read[i])
			}
		}
		if len(w.Pairs) != len(c.sums)-1 {
			t.Fatalf("%q: %d pairs, want %d", c.ops, len(w.Pairs), len(c.sums)-1)
		}
		for i, p := range w.Pairs {
			if p.Direction != workload.ComputeThenCompute || p.First[0] != int32(i) || p.Second[0] != int32(i+1) {
				t.Errorf("%q: pair %d is %+v", c.ops, i, p)
			}
		}
	}
}

// TestSchedule compares with a timeline computed by hand: sequential kernels, separated
// by the profile's launch gap, repeated every iteration.
func TestSchedule(t *testing.T) {
	m := load(t, "mi210:4") // no fill: the profile has no tile counters for its library
	w := lifted(t, runOf(t, gemmFile, "mi210:4"))
	gap := trace.Time(math.Round(m.Launch.Gap.Value * 1e9))
	gemm, a2a := &w.Ops[w.Ranks[0][0]], &w.Ops[w.Ranks[0][1]]
	flops := 2.0 * 8192 * 4096 * 3584
	// 32·32 tiles of 256x128 on 104 CUs are 10 waves: 1040 tiles' time for 1024.
	want := flops / m.GPU.Flops.Value * 1040 / 1024
	if got := seconds(gemm); math.Abs(got-want) > 1e-8 {
		t.Errorf("GEMM %.9f s, want %.9f", got, want)
	}
	if got := seconds(a2a); math.Abs(got-m.Library.Time(trace.AllToAll, 8192*4096*2, 4, 32)) > 1e-8 {
		t.Errorf("all-to-all %.9f s, want the library's", got)
	}
	if a2a.Start != gemm.End+gap {
		t.Errorf("all-to-all at %d, want a gap after %d", a2a.Start, gemm.End)
	}
	next := &w.Ops[w.Ranks[0][2]]
	if len(w.Steps) != 3 || next.Start != a2a.End+gap || next.Step != 1 {
		t.Errorf("%d steps, the second at %d, want 3 and %d", len(w.Steps), next.Start, a2a.End+gap)
	}
}

// TestRoofs checks that a duration is the higher of its roofs.
func TestRoofs(t *testing.T) {
	m := load(t, "mi210:4")
	for _, c := range []struct {
		what, text string
		want       float64 // seconds
	}{
		{
			"a GEMV reads its matrix once, in 10 waves of 208 workgroups of which 2048 are needed",
			"operator: gemv+all_reduce\nmachine: mi210:4\ntype: f16\nshape: {m: 65536, k: 8192}",
			(65536*8192 + 8192 + 65536) * 2 / m.GPU.Read.Value * 10 * 208 / 2048,
		},
		{
			"a GEMM with a short sum is bound by its output",
			"operator: gemm+all_to_all\nmachine: mi210:4\ntype: f16\nshape: {m: 8192, n: 8192, k: 16}",
			(8192*16*2 + 8192*8192) * 2 / m.GPU.Memory.Value,
		},
		{
			"compiled tiles share a CU: 192 of 256x128 on 104 CUs of two slots are two a CU at most, so two tiles' time",
			"operator: gemm+all_to_all\nmachine: mi210:4\ntype: f16\nshape: {m: 4096, n: 1536, k: 16384}\nkernel: {tile: 256x128, threads: 256, registers: 128, shared: 32768}",
			2 * 2 * 256 * 128 * 16384 * 104 / m.GPU.Flops.Value,
		},
	} {
		w := lifted(t, runOf(t, c.text, "mi210:4"))
		if got := seconds(&w.Ops[0]); math.Abs(got/c.want-1) > 1e-5 {
			t.Errorf("%s: %.3f µs, want %.3f", c.what, got*1e6, c.want*1e6)
		}
	}
}

// A tile of known depth holds two parts of both inputs in shared memory, which bounds how many
// share a CU; shared memory that the file states stands (rule G14).
func TestDepthOfTiles(t *testing.T) {
	for _, c := range []struct {
		kernel        string
		shared, perCU int
	}{
		{"tile: 64x64, registers: 64", 0, 4},
		{"tile: 64x64x32, registers: 64", 16 << 10, 4},
		{"tile: 64x64x64, registers: 64", 32 << 10, 3},
		{"tile: 64x64x64, registers: 64, shared: 16384", 16 << 10, 4},
	} {
		m := load(t, "a40:4")
		text := "operator: gemm+all_reduce\nmachine: a40:4\ntype: bf16\nshape: {m: 8192, n: 8192, k: 8192}\nkernel: {threads: 256, " + c.kernel + "}"
		op := lifted(t, runOf(t, text, "a40:4")).Ops[0]
		if got := op.Footprint.Residents(&m.GPU); op.Footprint.Shared != c.shared || got != c.perCU {
			t.Errorf("%s: %d bytes of shared memory, %d a CU, want %d and %d", c.kernel, op.Footprint.Shared, got, c.shared, c.perCU)
		}
	}
}

// TestAssumptionsCarry checks that the notes name assumed numbers of the profile and the durations that depend on them.
func TestAssumptionsCarry(t *testing.T) {
	notes := strings.Join(lifted(t, runOf(t, gemmFile, "mi210:4")).Notes, "\n")
	for _, want := range []string{"not measured: roofline on mi210:4", "gpu.flops of mi210:4 is assumed", "library.all_to_all.link of mi210:4 is assumed"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes lack %q:\n%s", want, notes)
		}
	}
	measured := strings.Join(lifted(t, runOf(t, gemmFile, "h200:4")).Notes, "\n")
	if strings.Contains(measured, "assumed") || !strings.Contains(measured, "not measured: roofline on h200:4") {
		t.Errorf("every rate of h200 is sourced, but the notes are\n%s", measured)
	}
}

// TestErrors checks the messages and positions of errors in files.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "w.yaml: operator is missing"},
		{"no mapping", "- a\n- b\n", "w.yaml:line 1: no list of keys and values"},
		{"no YAML", "operator: [\n", "w.yaml:1:11: sequence end token"},
		{"unknown operator", strings.Replace(gemmFile, "gemm+all_to_all", "gemm+gather", 1), `w.yaml:line 1: unknown operator "gemm+gather" (one of embedding+all_to_all`},
		{"unknown key", gemmFile + "rank: 4\n", "w.yaml:line 7: unknown key rank (known are operator, machine, ranks"},
		{"unknown size", strings.Replace(gemmFile, "k: 3584", "k: 3584, pooling: 70", 1), "w.yaml:line 6: unknown key shape.pooling"},
		{"missing size", strings.Replace(gemmFile, ", k: 3584", "", 1), "w.yaml:line 6: shape.k is missing (add k: NUMBER; gemm+all_to_all has m, n, k)"},
		{"a unit", strings.Replace(gemmFile, "8192", "8 KiB", 1), `w.yaml:line 6: shape.m: "8 KiB" (write a whole number from 1, without a unit)`},
		{"zero", strings.Replace(gemmFile, "8192", "0", 1), `w.yaml:line 6: shape.m: "0" (write a whole number`},
		{"a type that GEMMs have no rate for", strings.Replace(gemmFile, "bf16", "f32", 1), `w.yaml:line 5: gemm+all_to_all: type "f32" (one of bf16, f16)`},
		{"no machine", strings.Replace(gemmFile, "machine: h200:4\n", "", 1), "w.yaml: machine is missing (add machine: h200:4"},
		{"many iterations", strings.Replace(gemmFile, "iterations: 3", "iterations: 3000", 1), "w.yaml:line 4: 3000 iterations (at most 1000)"},
		{"a bad tile", gemmFile + "kernel: {tile: 128}\n", `w.yaml:line 7: kernel.tile: "128" (write rows x columns, as in 128x256, or with the depth along K, as in 128x256x32, one for all GEMMs or one for each)`},
		{"a tile without depth", gemmFile + "kernel: {tile: 128x64x0}\n", `w.yaml:line 7: kernel.tile: "128x64x0"`},
		{"a tile of four sides", gemmFile + "kernel: {tile: 128x64x32x2}\n", `w.yaml:line 7: kernel.tile: "128x64x32x2"`},
	} {
		_, err := operator.Parse(strings.NewReader(c.text), "w.yaml", nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for _, c := range []struct{ name, text, want string }{
		{"ranks", strings.Replace(gemmFile, "ranks: 4", "ranks: 5", 1), "w.yaml:line 3: 5 ranks on h200:4, which has 4 GPUs (choose a machine with as many GPUs)"},
		{"a share", strings.Replace(gemmFile, "m: 8192", "m: 8190", 1), "w.yaml:line 6: m: 8190 does not divide over 4 ranks (give a multiple of 4)"},
		{"a mistyped size", strings.ReplaceAll(strings.Replace(gemmFile, "m: 8192, n: 4096", "m: 2000000000, n: 2000000000", 1), "3584", "2000000000"), "is a size mistyped?"},
	} {
		f, err := operator.Parse(strings.NewReader(c.text), "w.yaml", nil)
		if err == nil {
			_, err = f.Run(load(t, "h200:4"))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// FuzzParse checks that the reader and the schedule never panic.
func FuzzParse(f *testing.F) {
	f.Add(gemmFile)
	f.Add("operator: gemm+gemm\nmachine: v100:1\ntype: f16\nshape: {m: 1, k: 1, hidden: 1, n: 1}\nkernel: {tile: 1x1}")
	f.Add("machine: h200:4\ntype: bf16\nshape: {a: 2048}\ngroups: {g: 2}\ngraph:\n  - {op: gemm, m: a, n: 3*a/2, k: a, name: x}\n  - {op: all_reduce, count: a*a, group: g, stream: s, after: [x]}")
	m := must.Have(machine.Load("mi210:4"))(f)
	f.Fuzz(func(t *testing.T, text string) {
		file, err := operator.Parse(strings.NewReader(text), "w.yaml", nil)
		if err != nil {
			return
		}
		file.Iterations = min(file.Iterations, 2)
		if run, err := file.Run(m); err == nil && run.Estimated == "" {
			t.Error("a run that nobody measured is not marked")
		}
	})
}

func seconds(op *workload.Op) float64 { return float64(op.Dur()) / 1e9 }
