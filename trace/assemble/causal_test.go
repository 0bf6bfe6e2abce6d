package assemble

import "testing"

// Values of inputs as torch 2.11 records them.
func TestCausal(t *testing.T) {
	for _, c := range []struct {
		name, values string
		want         bool
	}{
		{`"aten::scaled_dot_product_attention"`, `["", "", "", "", "0.", "True", "0.088388347648318447", "True"]`, true},
		{`"aten::scaled_dot_product_attention"`, `["", "", "", "", "0.", "False", "", "False"]`, false},
		{`"aten::_flash_attention_forward"`, `["", "", "", "", "", "8192", "8192", "0.", "True", "False", "0.088388347648318433", "", "", "", ""]`, true},
		{`"aten::_flash_attention_forward"`, `["", "", "", "", "", "8192", "4096", "0.", "False", "True", "0.088388347648318433", "", "", "", ""]`, false},
		{`"aten::_cudnn_attention_forward"`, `["", "", "", "", "", "", "2048", "2048", "True", "0.", "True", "False", "0.088388347648318447"]`, true},
		{`"aten::_cudnn_attention_backward"`, `["", "", "", "", "", "", "", "", "", "", "", "2048", "2048", "0.", "True", "0.088388347648318447"]`, true},
		{`"aten::_efficient_attention_forward"`, `["", "", "", "", "", "", "", "", "0.10000000000000001", "1", "True", "", "", ""]`, true},
		{`"aten::dropout"`, `["", "0.", "True"]`, false},
		{`"aten::scaled_dot_product_attention"`, `["", "0."]`, false},
		{`"aten::scaled_dot_product_attention"`, ``, false},
	} {
		if got := Causal([]byte(c.name), []byte(c.values)); got != c.want {
			t.Errorf("%s%s: causal %v", c.name, c.values, got)
		}
	}
}
