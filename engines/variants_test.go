package engines

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// Every variant of every engine, where it applies and where it does not: as conform asks.
func TestVariants(t *testing.T) {
	reduced := spec{ranks: 4, steps: 3, op: trace.AllReduce, bytes: 128 << 20, gemm: 1_220_000, comm: 640_000, channels: 24}
	scatter := spec{ranks: 8, steps: 2, op: trace.ReduceScatter, bytes: 64 << 20, gemm: 304_000, comm: 170_000, channels: 16}
	gather := spec{ranks: 8, steps: 2, op: trace.AllGather, bytes: 64 << 20, gemm: 304_000, comm: 170_000, channels: 32, reverse: true}
	specs := []struct {
		name string
		spec spec
	}{{"all_to_all", moeDown}, {"all_reduce", reduced}, {"reduce_scatter", scatter}, {"all_gather", gather}}
	for _, v := range []struct {
		engine string
		set    map[string]string
		serves string // the specs it applies to
	}{
		{"decompose", map[string]string{"variant": "waves"}, "all_to_all all_reduce reduce_scatter"},
		{"decompose", map[string]string{"variant": "waves", "group": "1"}, "all_to_all all_reduce reduce_scatter"},
		{"decompose", map[string]string{"variant": "ring"}, "reduce_scatter all_gather"},
		{"decompose", map[string]string{"variant": "ring", "both": "on"}, "reduce_scatter all_gather"},
		{"ideal", map[string]string{"variant": "gemm-rs"}, "all_reduce reduce_scatter"},
		{"ideal", map[string]string{"variant": "rs-nmc"}, "all_reduce reduce_scatter"},
	} {
		e := engineNamed(t, v.engine)
		values, err := e.Values(v.set)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range specs {
			t.Run(v.engine+" "+e.String(values)+"/"+s.name, func(t *testing.T) {
				w, m := s.spec.build(t), h200(t, s.spec.ranks)
				out := outcome(t, w, m, v.engine, v.set)
				if want := strings.Contains(v.serves, s.name); (out.Result != nil) != want {
					t.Fatalf("applies: %v, want %v (%s)", out.Result != nil, want, out.Why)
				}
				if out.Result != nil {
					conform(t, Selection{e, values}, w, m)
				}
			})
		}
	}
}
