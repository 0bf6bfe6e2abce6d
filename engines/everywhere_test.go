package engines_test

import (
	"math"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// variants are settings that make a strategy move bytes in another way than its defaults do.
const variants = "decompose:variant=ring,decompose:variant=waves,multistream:priority=on,fused:order=oblivious," +
	"onesided:impl=ll,onesided:impl=multimem,onesided:impl=store," +
	"trigger:arbitration=mca:queue=5"

// TestEverywhere checks every strategy that applies, of every sample and of every operation of a library, on each kind
// of machine: switch, mesh, torus and two nodes, of NVIDIA and AMD.
func TestEverywhere(t *testing.T) {
	all := must.Have(engines.ParseSelection("all"))(t)
	for text := range strings.SplitSeq(variants, ",") {
		if sel, err := engines.ParseSelection(text); err == nil { // else no such setting
			all = append(all, sel...)
		} else {
			t.Errorf("%s: %v", text, err)
		}
	}
	try := func(name string, w *workload.Workload, m machine.Machine, isFile bool) {
		t.Run(name+" on "+m.Name, func(t *testing.T) {
			if !longtest.Asked() && w.World > 8 {
				t.Skip("many ranks")
			}
			outs := must.Have(engines.Compare(w, m, all, plan.Scenario{}, replay.Options{Causes: true, Usage: true}, nil))(t)
			ran := 0
			for _, out := range outs {
				if out.Result != nil {
					ran++
					memoryIsOneAccount(t, w, out)
				}
			}
			if ran < 3 {
				t.Errorf("%d strategies ran", ran)
			}
			if isFile {
				haveReasons(t, w, outs)
			}
		})
	}
	for _, name := range []string{"moe-ep4", "llama70b-fc2-allreduce", "moe-down-triton"} {
		w := plantest.LiftSample(t, name)
		try(name, w, plantest.H200(t, w.World), false)
	}
	for _, name := range plantest.SampleOperators(t) {
		w, m := plantest.SampleOperator(t, name)
		try(name, w, m, true)
	}
	for _, kind := range []struct {
		profile string
		ranks   int
	}{{"h200", 4}, {"mi300x", 4}, {"torus128", 4}, {"h800", 16}} {
		m := must.Have(machine.Load(kind.profile))(t)
		for _, s := range []plantest.Spec{
			{Op: trace.AllReduce, Bytes: 32 << 20, Comm: 640_000, Channels: 24},
			{Op: trace.ReduceScatter, Bytes: 32 << 20, Comm: 170_000, Channels: 16},
			{Op: trace.AllGather, Bytes: 32 << 20, Comm: 170_000, Channels: 16, Reverse: true},
			{Op: trace.AllToAll, Bytes: 32 << 20, Comm: 153_000, Channels: 32},
			{Op: trace.AllToAll, Bytes: 32 << 20, Comm: 153_000, Channels: 6},
			{Op: trace.Broadcast, Bytes: 32 << 20, Comm: 153_000, Channels: 16},
			{Op: trace.Reduce, Bytes: 32 << 20, Comm: 153_000, Channels: 16},
		} {
			s.Ranks, s.Steps, s.Gemm = kind.ranks, 2, 304_000
			try(s.Op.String(), buildFor(t, s, &m), m.Resize(kind.ranks), false)
		}
	}
}

// haveReasons checks of a workload file that each strategy has a result, or one line that says why it has none, and that
// the schedule as given comes out as it went in.
func haveReasons(t *testing.T, w *workload.Workload, outs []engines.Outcome) {
	applied := map[string]bool{}
	for _, out := range outs {
		switch {
		case out.Result == nil && (out.Why == "" || strings.HasPrefix(out.Why, "cannot run")):
			t.Errorf("%s: %q", out.Strategy.Name, out.Why)
		case out.Result == nil:
			continue
		case out.Result.Run.Estimated == "":
			t.Errorf("%s: not marked as estimated", out.Strategy.Name)
		case out.Strategy.Name == "captured":
			if r := enginetest.ResidualOf(w, out.Result.Run); r.Worst > 0 {
				t.Errorf("the schedule as given is off by %d ns", r.Worst)
			}
		default:
			applied[out.Strategy.Name] = true
		}
	}
	if len(applied) < 2 { // bulk, and the strategy of the file
		t.Errorf("%d strategies apply", len(applied))
	}
}

// memoryIsOneAccount checks that the bytes that flows took of each GPU's memory, for
// which they contended, are those that the simulation counted, and that those are
// what is reported by cause.
func memoryIsOneAccount(t *testing.T, w *workload.Workload, out engines.Outcome) {
	name := out.Strategy.Name + " " + out.Strategy.String(out.Values)
	counted, total := make([]float64, out.Machine.GPUs), 0.0
	for _, x := range out.Result.Traffic {
		if x.Resource == replay.Memory {
			counted[x.GPU] += x.Bytes
			total += x.Bytes
		}
	}
	updates := out.Strategy.Kind == plan.Future && out.Machine.GPU.UpdateCost() > 1 // a byte that is added takes more than a byte of memory
	for _, u := range out.Result.Usage {
		taken := 0.0
		for i, share := range u.Shares {
			taken += share * out.Machine.GPU.Memory.Value * float64(min(u.Width, out.Result.Makespan-u.Width*trace.Time(i))) / 1e9
		}
		if u.Of == replay.Memory.String() && !updates && math.Abs(taken-counted[u.GPU]) > 0.03*counted[u.GPU]+1 { // flows last whole nanoseconds
			t.Errorf("%s: flows take %.0f bytes of GPU %d's memory, %.0f are counted", name, taken, u.GPU, counted[u.GPU])
		}
	}
	reported := 0.0
	for _, x := range verdict.MemoryByCause(w, out) {
		reported += x.Read + x.Written
	}
	if each := float64(w.World * max(1, workload.Iterations(w))); math.Abs(reported*each-total) > 1e-6*total+10*each {
		t.Errorf("%s: %.0f bytes are reported, %.0f were simulated", name, reported*each, total)
	}
}

// TestMemoryOfCollectives states in chunks of a rank's N what each operation of
// a library reads and writes on one rank, however it is cut and on every kind of
// machine: a step that adds reads two chunks. Of h800 the switch does not add, as where NCCL_NVLS_ENABLE is 0.
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
			m := must.Have(machine.Load(kind.profile))(t)
			m.Library.Switch.Value = 0
			for _, channels := range []int{6, 16, 32} {
				s := plantest.Spec{Ranks: kind.ranks, Steps: 2, Op: op, Bytes: 48 << 20, Gemm: 304_000, Comm: 170_000, Channels: channels}
				w := buildFor(t, s, &m)
				for _, name := range []string{"bulk", "decompose", "multistream"} {
					out := enginetest.Outcome(t, w, m.Resize(kind.ranks), name, nil)
					if out.Result == nil {
						t.Fatalf("%s on %s: %s", name, kind.profile, out.Why)
					}
					got, chunk := verdict.MemoryByCause(w, out), float64(s.Bytes)/float64(s.Ranks)
					want := of(float64(s.Ranks))
					for _, x := range got {
						if c, ok := want[x.Cause]; ok && (!plantest.Near(x.Read, c.read*chunk) || !plantest.Near(x.Written, c.written*chunk)) {
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

// buildFor is a workload with kernels that use no more shared memory than a CU of the machine has.
func buildFor(t testing.TB, s plantest.Spec, m *machine.Machine) *workload.Workload {
	w := s.Build(t)
	for i := range w.Ops {
		f := &w.Ops[i].Footprint
		f.Shared = min(f.Shared, int(m.GPU.Shared.Value))
	}
	return w
}
