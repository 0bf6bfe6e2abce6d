package workload

import "testing"

func TestTraffic(t *testing.T) {
	for _, c := range []struct {
		shape       Shape
		read, write float64
	}{
		{Shape{Kind: GEMM, M: 4, N: 8, K: 16, ElemSize: 2}, 2 * (4*16 + 16*8), 2 * 4 * 8},
		{Shape{Kind: GEMM, M: 4, N: 8, K: 16, ElemSize: 1}, 4*16 + 16*8, 2 * 4 * 8}, // bytes in, two out
		{Shape{Kind: Embedding, M: 4, N: 8, K: 16, ElemSize: 4}, 4 * 4 * 8 * 16, 4 * 4 * 8},
		{Shape{Kind: GEMM, M: 4, N: 8, K: 16}, 0, 0},
		{Shape{}, 0, 0},
	} {
		if r, w := c.shape.Traffic(); r != c.read || w != c.write {
			t.Errorf("%v: reads %g, writes %g, want %g and %g", c.shape, r, w, c.read, c.write)
		}
	}
}

func TestFlops(t *testing.T) {
	for kind, want := range map[ShapeKind]float64{GEMM: 2 * 4 * 8 * 16, GEMV: 2 * 4 * 8 * 16, Embedding: 0, Elementwise: 0, NoShape: 0} {
		if got := (Shape{Kind: kind, M: 4, N: 8, K: 16}).Flops(); got != want {
			t.Errorf("%q: %g, want %g", kind, got, want)
		}
	}
}
