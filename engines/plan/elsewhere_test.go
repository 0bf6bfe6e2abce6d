package plan

import "testing"

// A setting that ran on a GPU ran there with its strategy.
func TestElsewhere(t *testing.T) {
	s := Strategy{Name: "s", Params: []Param{CarrierParams[0]}}
	for _, c := range []struct{ carrier, gpu, want string }{
		{AsCaptured, "NVIDIA H200", ""},
		{AsCaptured, "AMD Instinct MI300X", "s"},
		{ByEngines, "AMD Instinct MI300X", ""},
		{ByEngines, "NVIDIA H100", "carrier=dma"},
	} {
		if got, _ := Elsewhere(Selection{Strategy: s, Values: Values{"carrier": c.carrier}}, c.gpu); got != c.want {
			t.Errorf("%s on %s: %q, want %q", c.carrier, c.gpu, got, c.want)
		}
	}
}
