package engines

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
)

// variants are settings that make a strategy move bytes in another way than its defaults do.
const variants = "decompose:variant=ring,decompose:variant=waves,multistream:priority=on,fused:order=oblivious," +
	"onesided:impl=ll,onesided:impl=ll128,onesided:impl=multimem,onesided:impl=store," +
	"trigger:arbitration=mca:queue=5,trigger:algorithm=direct,trigger:nmc=off"

// everywhere calls check with the outcome of every strategy that applies, for
// every sample and for every operation of a library, on each kind of machine:
// switch, mesh, torus and two nodes, of NVIDIA and AMD.
func everywhere(t *testing.T, check func(t *testing.T, w *workload.Workload, out Outcome)) {
	all, err := ParseSelection("all")
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.SplitSeq(variants, ",") {
		if sel, err := ParseSelection(text); err == nil { // else no such setting
			all = append(all, sel...)
		} else {
			t.Errorf("%s: %v", text, err)
		}
	}
	try := func(name string, w *workload.Workload, m machine.Machine) {
		t.Run(name+" on "+m.Name, func(t *testing.T) {
			if testing.Short() && w.World > 8 {
				t.Skip("many ranks")
			}
			outs, err := Compare(w, m, all, replay.Options{Causes: true}, nil)
			if err != nil {
				t.Fatal(err)
			}
			ran := 0
			for _, out := range outs {
				if out.Result != nil {
					ran++
					check(t, w, out)
				}
			}
			if ran < 3 {
				t.Errorf("%d strategies ran", ran)
			}
		})
	}
	for _, name := range []string{"moe-ep4", "llama70b-fc2-allreduce", "moe-down-triton"} {
		w := liftSample(t, name)
		try(name, w, h200(t, w.World))
	}
	files, err := filepath.Glob("../samples/workloads/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no workload files", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		w, m := sampleOperator(t, name)
		try(name, w, m)
	}
	for _, kind := range []struct {
		profile string
		ranks   int
	}{{"h200", 4}, {"mi300x", 4}, {"torus128", 4}, {"h800", 16}} {
		m, err := machine.Load(kind.profile)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []spec{
			{op: trace.AllReduce, bytes: 32 << 20, comm: 640_000, channels: 24},
			{op: trace.ReduceScatter, bytes: 32 << 20, comm: 170_000, channels: 16},
			{op: trace.AllGather, bytes: 32 << 20, comm: 170_000, channels: 16, reverse: true},
			{op: trace.AllToAll, bytes: 32 << 20, comm: 153_000, channels: 32},
			{op: trace.AllToAll, bytes: 32 << 20, comm: 153_000, channels: 6},
			{op: trace.Broadcast, bytes: 32 << 20, comm: 153_000, channels: 16},
			{op: trace.Reduce, bytes: 32 << 20, comm: 153_000, channels: 16},
		} {
			s.ranks, s.steps, s.gemm = kind.ranks, 2, 304_000
			try(s.op.String(), s.buildFor(t, &m), m.Resize(kind.ranks))
		}
	}
}

// buildFor is build with kernels that use no more shared memory than a CU of the machine has.
func (s spec) buildFor(t testing.TB, m *machine.Machine) *workload.Workload {
	w := s.build(t)
	for i := range w.Ops {
		f := &w.Ops[i].Footprint
		f.Shared = min(f.Shared, int(m.GPU.Shared.Value))
	}
	return w
}

// TestWhatIfNothing checks that the zero replay.WhatIf is the identity for every
// sample, strategy and machine.
func TestWhatIfNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, _ *workload.Workload, out Outcome) {
		want, err := replay.Simulate(out.machine, out.program, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, p := replay.WhatIf{}.Of(out.machine, out.program)
		got, err := replay.Simulate(m, p, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want.Run.Spans, got.Run.Spans); d != "" {
			t.Errorf("%s %s: the zero WhatIf changes spans:\n%s", out.Engine.Name, out.Engine.String(out.Values), d)
		}
	})
}

// TestMemoryTrafficIsOneAccount checks, for every sample, strategy and machine,
// that the bytes that flows took of each GPU's memory, for which they contended,
// are those that the simulation counted, and that those are what is reported by cause.
func TestMemoryTrafficIsOneAccount(t *testing.T) {
	everywhere(t, func(t *testing.T, w *workload.Workload, out Outcome) {
		name := out.Engine.Name + " " + out.Engine.String(out.Values)
		counted, total := make([]float64, out.machine.GPUs), 0.0
		for _, x := range out.Result.Traffic {
			if x.Resource == replay.Memory {
				counted[x.GPU] += x.Bytes
				total += x.Bytes
			}
		}
		updates := out.Engine.Future && out.machine.GPU.Update.Value > 1 // a byte that is added takes more than a byte of memory
		for _, u := range out.Result.Use {
			taken := u.Fraction * out.machine.GPU.Memory.Value * float64(out.Result.Makespan) / 1e9
			if u.Resource == replay.Memory && !updates && math.Abs(taken-counted[u.GPU]) > 0.03*counted[u.GPU]+1 { // flows last whole nanoseconds
				t.Errorf("%s: flows take %.0f bytes of GPU %d's memory, %.0f are counted", name, taken, u.GPU, counted[u.GPU])
			}
		}
		reported := 0.0
		for _, x := range MemoryByCause(w, out) {
			reported += x.Read + x.Written
		}
		if each := float64(w.World * max(1, Iterations(w))); math.Abs(reported*each-total) > 1e-6*total+10*each {
			t.Errorf("%s: %.0f bytes are reported, %.0f were simulated", name, reported*each, total)
		}
	})
}

// TestMemoryOfCollectives states in chunks of a rank's N what each operation of
// a library reads and writes on one rank, however it is cut and on every kind of
// machine: a step that adds reads two chunks.
func TestMemoryOfCollectives(t *testing.T) {
	type moved struct{ read, written float64 }
	for op, of := range map[trace.CollectiveOp]func(n float64) map[string]moved{
		trace.ReduceScatter: func(n float64) map[string]moved { return map[string]moved{"reduce_scatter": {2*n - 1, n}} },
		trace.AllGather:     func(n float64) map[string]moved { return map[string]moved{"all_gather": {n - 1, n - 1}} },
		trace.AllReduce: func(n float64) map[string]moved {
			return map[string]moved{"reduce_scatter": {2*n - 1, n}, "all_gather": {n - 1, n - 1}}
		},
		trace.AllToAll:  func(n float64) map[string]moved { return map[string]moved{"all_to_all": {n, n}} },
		trace.Broadcast: func(n float64) map[string]moved { return map[string]moved{"broadcast": {n, n}} },
	} {
		for _, kind := range []struct {
			profile string
			ranks   int
		}{{"h200", 4}, {"mi300x", 8}, {"torus128", 4}, {"h800", 16}} {
			m, err := machine.Load(kind.profile)
			if err != nil {
				t.Fatal(err)
			}
			for _, channels := range []int{6, 16, 32} {
				s := spec{ranks: kind.ranks, steps: 2, op: op, bytes: 48 << 20, gemm: 304_000, comm: 170_000, channels: channels}
				w := s.buildFor(t, &m)
				for _, name := range []string{"bulk", "decompose", "multistream"} {
					out := outcome(t, w, m.Resize(kind.ranks), name, nil)
					if out.Result == nil {
						t.Fatalf("%s on %s: %s", name, kind.profile, out.Why)
					}
					got, chunk := MemoryByCause(w, out), float64(s.bytes)/float64(s.ranks)
					want := of(float64(s.ranks))
					for _, x := range got {
						if c, ok := want[x.Cause]; ok && (!near(x.Read, c.read*chunk) || !near(x.Written, c.written*chunk)) {
							t.Errorf("%s, %d channels, %s on %s: %s reads %.2f chunks and writes %.2f, want %+v", op, channels, name, kind.profile, x.Cause, x.Read/chunk, x.Written/chunk, c)
						}
						delete(want, x.Cause)
					}
					if len(want) > 0 {
						t.Errorf("%s, %s on %s: nothing is reported for %v", op, name, kind.profile, want)
					}
				}
			}
		}
	}
}
