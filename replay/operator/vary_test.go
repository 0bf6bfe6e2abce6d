package operator

import (
	"strings"
	"testing"
)

func TestWith(t *testing.T) {
	f, err := Parse(strings.NewReader("operator: gemm+all_to_all\nmachine: h200:4\ntype: bf16\nshape: {m: 8192, n: 4096, k: 3584}\n"), "w.yaml")
	if err != nil {
		t.Fatal(err)
	}
	g, err := f.With(map[string]int64{"m": 4096})
	if err != nil || g.shape["m"] != 4096 || g.shape["n"] != 4096 || f.shape["m"] != 8192 {
		t.Errorf("%v of %v, %v", g, f, err)
	}
	for _, sizes := range []map[string]int64{{"rows": 3}, {"m": 0}, {"m": maxSize}} {
		if _, err := f.With(sizes); err == nil || !strings.HasPrefix(err.Error(), "w.yaml:") {
			t.Errorf("%v: %v", sizes, err)
		}
	}
}
