package score

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

var update = flag.Bool("update", false, "rewrite what tests compare with")

// A part of the dataset that holds every kind of workload under every strategy at
// least once, as a golden: a change that worsens a prediction shows in the diff. The
// whole dataset is samples/measurements/ACCURACY.md and errors.csv.
func TestErrorsAgainstHardware(t *testing.T) {
	d := must.Have(dataset.Open(samples + "/measurements"))(t)
	var got strings.Builder
	seen := map[string]bool{}
	for i := range d.Sets {
		s := &d.Sets[i]
		s.Rows = part(d, s, seen)
		var stamps []dataset.Stamps
		for _, st := range s.Stamps {
			if strings.HasPrefix(st.Name, "mlp") || strings.HasPrefix(st.Name, "gemm_moe_down") { // small ones
				stamps = append(stamps, st)
			}
		}
		s.Stamps = stamps
	}
	read := func(path string) (*trace.Run, error) { return format.Open(path, format.Options{}) }
	machines := func(r dataset.Row) (machine.Machine, error) { return plantest.H200(t, r.World), nil }
	results := must.Have(Dataset(d, read, Inputs{Machine: machines}))(t)
	for _, r := range results {
		for _, c := range r.Checks {
			if c.Why != "" {
				fmt.Fprintf(&got, "%s %s %-44s %s\n", r.Set.Name, c.Row.ID, RowName(c.Row), c.Why)
			} else {
				fmt.Fprintf(&got, "%s %s %-44s %+6.1f%% p_faster %.2f\n", r.Set.Name, c.Row.ID, RowName(c.Row), 100*c.Error(), c.Confidence.Chance.PFaster)
			}
		}
		for _, c := range r.Stamped {
			fmt.Fprintf(&got, "%s %-32s %d of %.1f µs, predicted %.1f: starts %.1f%%, ends %.1f%%, order %.1f%%, shape %.1f%% %s\n",
				r.Set.Name, c.Name, c.Workgroups, c.Measured, c.Predicted, 100*c.Starts, 100*c.Ends, 100*c.Order, 100*c.Shape, c.Why)
		}
	}
	golden(t, "testdata/errors.golden", got.String())
}

// part is the rows of the set that start from traces under which something not seen
// so far ran.
func part(d *dataset.Dataset, s *dataset.Set, seen map[string]bool) []dataset.Row {
	var rows []dataset.Row
	if !Predictable(s) {
		return nil
	}
	for _, same := range groupRows(s.Rows) {
		news := false
		for _, i := range same {
			r := s.Rows[i]
			kind := fmt.Sprint(r.Workload.Kind, r.Strategy, r.Params.Iterations > 0, r.Params.Graph)
			news = news || !seen[kind] && !d.Absent(s, r.Trace)
			seen[kind] = seen[kind] || !d.Absent(s, r.Trace)
		}
		if news {
			for _, i := range same {
				rows = append(rows, s.Rows[i])
			}
		}
	}
	return rows
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		must.Do(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want := must.Have(os.ReadFile(file))(t)
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}

// The tables of a small dataset: what is refused is counted with its reason, noisy
// rows are not scored, signs count against the reference.
func TestAccuracyPage(t *testing.T) {
	row := func(id, strategy string, us float64, chunks int) dataset.Row {
		return dataset.Row{ID: id, World: 2, Strategy: strategy, Us: us, Workload: dataset.Workload{Kind: "gemm+collective", Name: "x"}, Params: dataset.Params{Settings: dataset.Settings{Chunks: chunks}}, AgainUs: us * 1.01}
	}
	noisy := row("d", "decompose", 10, 16)
	noisy.Noisy = true
	checks := []Check{
		{Row: row("a", "bulk", 100, 0), Predicted: 101},
		{Row: row("b", "decompose", 90, 4), Predicted: 95},   // faster, and predicted so
		{Row: row("c", "decompose", 110, 8), Predicted: 100}, // slower, predicted faster
		{Row: noisy, Predicted: 200},
		{Row: row("e", "fused", 80, 0), Why: "no tiles"},
	}
	got := ChangesOf(checks, everything) // predicted -5.9 and -1.0 %, measured -10 and +10 %
	if got.N != 2 || got.Right != 1 || got.Over != 3 || math.Abs(got.Median-(0.0406+0.1099)/2) > 0.001 {
		t.Errorf("changes %+v", got)
	}
	set := dataset.Set{Name: "s", Split: dataset.Blind, About: "A test.", Host: "none", Driver: "1", Date: "2026-11-22"}
	other := dataset.Set{Name: "b", Split: dataset.Calibrate, About: "Benchmarks.", Rows: make([]dataset.Row, 3)}
	page := AccuracyPage("command", []SetResult{{Set: &other}, {Set: &set, Checks: checks}})
	for _, want := range []string{
		"| s | blind | 5 | 3 | 5.6 % | 8.4 % | 12.5 % | 1 of 3 | 1.0 % | 1.0 % |",
		"| decompose | 3 | 2 | 7.3 % | 8.7 % | 1 of 2 |",
		"| fused | 1 | 0 |  |  | 0 of 1 |",
		"* 1: no tiles",
		"| b | calibrate | 3 | Benchmarks. |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
}
