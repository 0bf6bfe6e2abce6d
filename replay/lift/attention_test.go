package lift

import (
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// Attention multiplies queries by keys and scores by values: 4 operations for each query, key and column, half of
// them where a query sees the keys up to its own place, and 2.5 times as many backward. The sizes of the first
// and the last are those of Llama on two H200 (FlashAttention-2, section 4.1).
func TestAttentionFlops(t *testing.T) {
	heads := [][]int64{{2, 16, 2048, 128}, {2, 8, 2048, 128}, {2, 8, 2048, 128}}
	tokens := [][]int64{{1, 8192, 32, 128}, {1, 4096, 32, 128}, {1, 4096, 32, 128}}
	grad := func(d [][]int64) [][]int64 { return append([][]int64{d[0]}, d...) }
	for _, c := range []struct {
		name   string
		dims   [][]int64
		causal bool
		want   float64
	}{
		{"aten::_cudnn_attention_forward", heads, true, 2 * 2 * 16 * 2048 * 2048 * 128},
		{"aten::_cudnn_attention_forward", heads, false, 4 * 2 * 16 * 2048 * 2048 * 128},
		{"aten::_cudnn_attention_backward", grad(heads), true, 5 * 2 * 16 * 2048 * 2048 * 128},
		{"aten::_scaled_dot_product_flash_attention", heads, true, 2 * 2 * 16 * 2048 * 2048 * 128},
		{"aten::_scaled_dot_product_efficient_attention_backward", grad(heads), false, 10 * 2 * 16 * 2048 * 2048 * 128},
		{"aten::_flash_attention_forward", tokens, false, 4 * 32 * 8192 * 4096 * 128},
		{"aten::_flash_attention_backward", grad(tokens), false, 10 * 32 * 8192 * 4096 * 128},
		{"aten::_flash_attention_forward", [][]int64{{8192, 32, 128}, {8192, 32, 128}}, true, 0}, // of several lengths
		{"aten::cudnn_convolution", [][]int64{{64, 3, 224, 224}, {64, 3, 7, 7}}, false, 0},
		{"aten::_flash_attention_backward", nil, false, 0},
	} {
		if got := attentionFlops(&trace.Operator{Name: c.name, Dims: c.dims, Causal: c.causal}); got != c.want {
			t.Errorf("%s%v, causal %v: %g operations, want %g", c.name, c.dims, c.causal, got, c.want)
		}
	}
}
