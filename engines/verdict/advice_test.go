package verdict

import (
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
)

// Every setting that differs from its default has a way to get it, and one that has not
// does not appear.
func TestSettingsOf(t *testing.T) {
	for text, want := range map[string][]string{
		"multistream:channels=8:bucket_mb=50": {"async_op=True", "NCCL_MAX_NCHANNELS=8", "bucket_cap_mb=50"},
		"multistream:channels=32":             {"async_op=True", "NCCL_MIN_NCHANNELS=32"},
		"multistream:keep_gathered=on":        {"async_op=True", "reshard_after_forward=False"},
		"bulk:graph=on":                       {"async_op=False", "torch.cuda.graph"},
		"decompose:chunks=8":                  {"split the rows", "8 parts"},
	} {
		sel, err := engines.ParseSelection(text)
		if err != nil {
			t.Fatal(err)
		}
		got := settingsOf(sel[0], 24)
		if len(got) != len(want) || !slices.EqualFunc(got, want, strings.Contains) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
