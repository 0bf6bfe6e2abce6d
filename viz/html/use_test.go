package html

import (
	"strings"
	"testing"

	"github.com/overlapse/overlapse/viz/svg"
)

// Recorded shares are shown on one clock from the first iteration, with the copies that they
// lack; runs without shares show their counters; a rank has a figure of its own.
func TestUse(t *testing.T) {
	rep := sample()
	rep.Runs[0].Start = 40_000
	rep.Runs[0].Use = []Use{{Rank: 0, Quantity: svg.Quantity{Name: "compute units", Color: "#56b4e9", Most: 100, Unit: "%", Points: []svg.Point{{At: 0, Value: 50}, {At: 40_000, Value: 50.5}, {At: 70_000, Value: 0}}}}}
	f := rep.useFigures()
	if len(f.List) != 2 || f.List[0].Name != "rank 0" || f.List[1].Name != "rank 1" {
		t.Fatalf("figures %+v", f)
	}
	first, second := string(f.List[0].SVG), string(f.List[1].SVG)
	for _, want := range []string{">compute units</text>", "0 to 100 %", ">captured</text>", ">copies</text>", ">fused (order=aware) · −30.0 %</text>", ">compute kernels</text>"} {
		if !strings.Contains(first, want) {
			t.Errorf("rank 0 lacks %q", want)
		}
	}
	if strings.Contains(second, "compute units") || !strings.Contains(second, ">copies</text>") {
		t.Error("rank 1 has what rank 0 uses, or lacks its copies")
	}
	// Half of the height from 0, which is 40,000 of the run, to 30,000 of 70,000.
	if want := `d="M190 78V63H618.6V78z"`; !strings.Contains(first, want) {
		t.Errorf("the share is not %s in %s", want, first)
	}
}
