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

func load(t testing.TB, name string) machine.Machine {
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
