package results

import (
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
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

// Ranges before and behind the work of a module, as FSDP has them, make one around it, on each thread for itself.
func TestRangesAroundModules(t *testing.T) {
	var b trace.Builder
	rank := b.AddRank(trace.Rank{})
	for _, x := range []struct {
		lane       int64
		name       string
		start, end trace.Time
	}{
		{0, "FSDP::pre_forward (h.0)", 0, 2},
		{1, "FSDP::post_forward (h.0)", 3, 4}, // of another thread
		{0, "FSDP::all_gather (h.1)", 5, 6},
		{0, "FSDP::post_forward (h.0)", 10, 11},
		{0, "FSDP::pre_forward (h.1)", 12, 13}, // never left
		{0, "FSDP::pre_backward (h.0)", 20, 21},
		{0, "FSDP::post_backward_accumulate (h.0)", 30, 31},
		{0, "FSDP::post_backward_reduce (h.0)", 40, 41},
	} {
		lane := b.Lane(trace.Lane{Kind: trace.HostThread, Rank: rank, ID: x.lane, Peer: trace.None})
		b.Add(trace.Span{Start: x.start, End: x.end, Name: b.Intern(x.name), Lane: lane, Parent: trace.None, Attr: trace.None, Kind: trace.Marker})
	}
	run := b.Finish(trace.Options{KeepZero: true})
	around(run, run.Spans)
	var ends []trace.Time
	for _, s := range run.Spans {
		ends = append(ends, s.End)
	}
	if want := []trace.Time{11, 4, 6, 11, 13, 31, 31, 41}; !slices.Equal(ends, want) {
		t.Errorf("ends %v, want %v", ends, want)
	}
}
