package engines_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/tiles"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// What modelled kernels gain by themselves is no strategy's.
func TestGainIsBeyondBulk(t *testing.T) {
	sel := enginetest.MustParse(t, "bulk,bulk:channels=8,decompose,bulk:protocol=simple") // the last is experimental
	for _, c := range []struct {
		times [4]trace.Time
		best  int
	}{{[4]trace.Time{997, 996, 993, 900}, -1}, {[4]trace.Time{1003, 1003, 994, 900}, 2}, {[4]trace.Time{997, 990, 993, 900}, 1}} {
		var p engines.PairChoice
		for i, s := range sel {
			p.Outcomes = append(p.Outcomes, taking(s, c.times[i], ""))
		}
		if p.Choose(1000, false); p.Best != c.best {
			t.Errorf("times %v: chose %d, want %d", c.times, p.Best, c.best)
		}
	}
}

// Of every engine the defaults come first, no combination comes twice, given
// settings stay, and a setting varies only where it means something.
func TestCandidates(t *testing.T) {
	for _, e := range engines.All() {
		sel := must.Have(e.Candidates(nil))(t)
		if set := e.String(sel[0].Values); set != "" {
			t.Errorf("%s: first are not the defaults but %q", e.Name, set)
		}
		seen := map[string]bool{}
		for _, s := range sel {
			set := e.String(s.Values)
			if seen[set] {
				t.Errorf("%s: %q twice", e.Name, set)
			}
			seen[set] = true
			for _, p := range e.Params {
				if s.Values[p.Name] != p.Default && !p.Matters(s.Values) {
					t.Errorf("%s: %q varies %s, which means nothing there", e.Name, set, p.Name)
				}
			}
		}
		for _, p := range e.Params {
			if name, values, ok := strings.Cut(p.For, "="); ok {
				for _, v := range strings.Split(values, "|") {
					if _, err := e.Values(map[string]string{name: v}); err != nil {
						t.Errorf("%s: %s is for %s: %v", e.Name, p.Name, p.For, err)
					}
				}
			}
		}
	}
	sel := must.Have(tiles.Decompose.Candidates(map[string]string{"chunks": "3", "variant": "chunks"}))(t)
	for _, s := range sel {
		if s.Values["chunks"] != "3" {
			t.Errorf("chunks=3 was given, %s tried", s.Values["chunks"])
		}
	}
}

// taking is the outcome of a selection that takes a time, or does not run.
func taking(s plan.Selection, t trace.Time, why string) engines.Outcome {
	out := engines.Outcome{Selection: s, Why: why}
	out.Time, out.Expected = t, t
	return out
}

func TestReadSettings(t *testing.T) {
	got, err := engines.ReadSettings(strings.NewReader("# rows\npolicy: own\n\nposts: row * cols + col/8 # in groups\n"), "p.yaml")
	if want := "policy=own:posts=row * cols + col/8"; err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if sel, err := engines.ParseSelection("tilesync:" + got); err != nil || sel[0].Values["posts"] != "row * cols + col/8" {
		t.Errorf("%v, %v", sel, err)
	}
	for _, text := range []string{"policy own", "policy:", "a: b: c", "- a", "a: b=c", ":", "a: b,c"} {
		if _, err := engines.ReadSettings(strings.NewReader("policy: own\n"+text), "p.yaml"); err == nil || !strings.HasPrefix(err.Error(), "p.yaml:line 2: no setting") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Every variant of every engine, where it applies and where it does not: as conform asks.
func TestVariants(t *testing.T) {
	reduced := plantest.Spec{Ranks: 4, Steps: 3, Op: trace.AllReduce, Bytes: 128 << 20, Gemm: 1_220_000, Comm: 640_000, Channels: 24}
	scatter := plantest.Spec{Ranks: 8, Steps: 2, Op: trace.ReduceScatter, Bytes: 64 << 20, Gemm: 304_000, Comm: 170_000, Channels: 16}
	gather := plantest.Spec{Ranks: 8, Steps: 2, Op: trace.AllGather, Bytes: 64 << 20, Gemm: 304_000, Comm: 170_000, Channels: 32, Reverse: true}
	specs := []struct {
		name string
		spec plantest.Spec
	}{{"all_to_all", plantest.MoeDown}, {"all_reduce", reduced}, {"reduce_scatter", scatter}, {"all_gather", gather}}
	for _, v := range []struct {
		engine string
		set    map[string]string
		serves string // the specs it applies to
	}{
		{"decompose", map[string]string{"variant": "waves"}, "all_to_all all_reduce reduce_scatter"},
		{"decompose", map[string]string{"variant": "waves", "chunks": "64"}, "all_to_all all_reduce reduce_scatter"},
		{"decompose", map[string]string{"variant": "ring"}, "reduce_scatter all_gather"},
		{"onesided", map[string]string{"impl": "pull", "gemm": "whole"}, "all_to_all reduce_scatter all_gather"},
		{"onesided", map[string]string{"impl": "pull", "gemm": "chunks"}, "all_to_all reduce_scatter all_gather"},
		{"onesided", map[string]string{"impl": "push"}, "all_to_all reduce_scatter all_gather"},
		{"ideal", map[string]string{"variant": "gemm-rs"}, "all_reduce reduce_scatter"},
		{"ideal", map[string]string{"variant": "rs-nmc"}, "all_reduce reduce_scatter"},
	} {
		e := enginetest.EngineNamed(t, v.engine)
		values := must.Have(e.Values(v.set))(t)
		for _, s := range specs {
			t.Run(v.engine+" "+e.String(values)+"/"+s.name, func(t *testing.T) {
				w, m := s.spec.Build(t), plantest.H200(t, s.spec.Ranks)
				out := enginetest.Outcome(t, w, m, v.engine, v.set)
				if want := strings.Contains(v.serves, s.name); (out.Result != nil) != want {
					t.Fatalf("applies: %v, want %v (%s)", out.Result != nil, want, out.Why)
				}
				if out.Result != nil {
					conform(t, plan.Selection{Strategy: e, Values: values}, w, m)
				}
			})
		}
	}
}

// A captured kernel that fits on no CU of the machine, as one of another GPU, keeps its time (rule D14).
func TestKernelOfAnotherGPU(t *testing.T) {
	m := plantest.H200(t, 2)
	took := func(shared int) trace.Time {
		w := plantest.Spec{Ranks: 2, Steps: 3, Op: trace.AllReduce, Bytes: 32 << 20, Gemm: 400_000, Comm: 150_000, Channels: 16}.Build(t)
		for i := range w.Ops {
			if op := &w.Ops[i]; op.Kind == trace.Compute {
				k := *op.Kernel
				k.Footprint.Shared = shared
				op.Kernel = &k
			}
		}
		return enginetest.Outcome(t, w, m, "bulk", nil).Time
	}
	if here, elsewhere := took(100<<10), took(1<<20); elsewhere < here*98/100 || elsewhere > here*102/100 {
		t.Errorf("an iteration takes %d ns with kernels of another GPU, %d with those of this one", elsewhere, here)
	}
}
