package html

import (
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
)

// usingReport has recorded shares of one rank of its first run.
func usingReport() Report {
	rep := sample()
	rep.Runs[0].Start = 40_000
	rep.Runs[0].Use = []Use{{Rank: 0, Name: "compute units", Color: "#56b4e9", Most: 100, Unit: "%", Points: []Point{{0, 50}, {40_000, 50.5}, {70_000, 0}}}}
	return rep
}

// Recorded shares are shown on one clock from the first iteration, with the copies that they
// lack; runs without shares show their counters; a rank has a graph of its own. A value that a
// reader cannot tell from the one before is left out.
func TestUse(t *testing.T) {
	f := usingReport().useGraphs()
	if len(f.List) != 2 || f.List[0].Name != "rank 0" || f.List[1].Name != "rank 1" {
		t.Fatalf("graphs %+v", f)
	}
	rows := func(g useGraph) (list []string) {
		for _, group := range g.Groups {
			list = append(list, group.Name)
			for _, r := range group.Rows {
				list = append(list, r.Name)
			}
		}
		return list
	}
	first, second := rows(f.List[0]), rows(f.List[1])
	for _, want := range []string{"captured", "compute units", "copies", "fused (order=aware) · −30.0 %", "compute kernels"} {
		if !slices.Contains(first, want) {
			t.Errorf("rank 0 lacks %q: %q", want, first)
		}
	}
	if slices.Contains(second, "compute units") || !slices.Contains(second, "copies") {
		t.Errorf("rank 1 has what rank 0 uses, or lacks its copies: %q", second)
	}
	r := f.List[0].Groups[0].Rows[0]
	if r.Scale != "0 to 100 %" || !slices.Equal(r.At, []trace.Time{-40_000, 30_000, 60_000}) || !slices.Equal(r.Share, []float64{0.5, 0, 0}) {
		t.Errorf("the shares are %+v", r)
	}
}

// Half of the height from 0, which is 40,000 of the run, to 30,000 of 70,000; text stays text.
func TestBrowserDrawsUse(t *testing.T) {
	t.Parallel()
	var got struct {
		Path, Title string
		Texts       []string
		Size        []float64
	}
	visit(t, render(t, usingReport()), unfold+`
const svg = document.querySelector("[data-use] > svg");
return {
  Path: svg.querySelector("path").getAttribute("d"), Title: svg.querySelector("title").textContent,
  Texts: [...svg.querySelectorAll("text")].map((e) => e.textContent), Size: [svg.width.baseVal.value, svg.height.baseVal.value],
};`, &got)
	if got.Path != "M190 78V63H618.6V78z" {
		t.Errorf("the share is drawn as %s", got.Path)
	}
	if want := "0 µs|10 µs|20 µs|30 µs|40 µs|50 µs|60 µs|captured|compute units|0 to 100 %|copies"; !strings.HasPrefix(strings.Join(got.Texts, "|"), want) {
		t.Errorf("texts %q", got.Texts)
	}
	if got.Title != "Utilisation over time, rank 0" || got.Size[0] != 1200 || got.Size[1] < 200 {
		t.Errorf("%q of %v px", got.Title, got.Size)
	}
}
