package results

import (
	"strings"
	"testing"
)

// The module of JAX's operators and parameters.
func TestModulePath(t *testing.T) {
	for name, want := range map[string]string{
		"jit(step)/jvp(GPT)/layer3/attn/out/dot_general":        "layer3/attn",
		"jit(step)/transpose(jvp(GPT))/layer10/down/transpose":  "layer10/down",
		"p['layer0']['attn']['value']['kernel']":                "layer0/attn",
		"jit(step)/transpose(jvp(GPT))/head/transpose":          "",
		"jit(step)/jvp(GPT)/layers_2/...qhd,...khd->...hqk/dot": "layers_2",
	} {
		if got := modulePath.FindString(strings.ReplaceAll(name, "']['", "/")); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
