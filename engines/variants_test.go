package engines_test

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

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
