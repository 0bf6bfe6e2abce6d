package score

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/dataset"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/profile"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
)

// Of two captures of one job, each under a schedule that the other predicts, at most one calls the other's likely faster.
func TestCapturesOfOneJobAgree(t *testing.T) {
	folder := "../../../shared/data/real/h200x2"
	f, err := os.Open(filepath.Join(folder, "steps.jsonl"))
	if !longtest.Asked() || err != nil {
		t.Skip("needs the programs of others alongside the checkout")
	}
	defer f.Close()
	all, err := dataset.ReadRows(f, f.Name())
	if err != nil {
		t.Fatal(err)
	}
	way := func(r *dataset.Row, from, to map[string]any) string { return fmt.Sprint(r.Workload.Name, from, to) }
	back := map[string]bool{}
	for i := range all {
		back[way(&all[i], all[i].MeasuredVariant, all[i].CapturedVariant)] = true
	}
	jobs := []string{"ddp_hf_llama", "ddp_tv_resnet50", "fsdp2_hf_llama_ac"}
	rows := slices.DeleteFunc(all, func(r dataset.Row) bool {
		return !slices.Contains(jobs, r.Workload.Name) || !back[way(&r, r.CapturedVariant, r.MeasuredVariant)]
	})
	m, err := profile.Load("h200")
	if err != nil {
		t.Fatal(err)
	}
	checks, err := Rows(rows, Inputs{
		Machine: func(r dataset.Row) (machine.Machine, error) { return m.Resize(r.World), nil },
		Trace: func(r dataset.Row) (*trace.Run, error) {
			return format.Open(filepath.Join(folder, r.Trace), format.Options{})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	likely, pairs := map[string]string{}, 0
	for _, c := range checks {
		if c.Why != "" {
			t.Errorf("%s: %s", c.Row.ID, c.Why)
		}
		if c.Confidence.Chance.PFaster >= verdict.Likely {
			likely[way(&c.Row, c.Row.CapturedVariant, c.Row.MeasuredVariant)] = c.Row.ID
		}
		if c.Change != 0 {
			pairs++
		}
	}
	for _, c := range checks {
		there, here := likely[way(&c.Row, c.Row.CapturedVariant, c.Row.MeasuredVariant)], likely[way(&c.Row, c.Row.MeasuredVariant, c.Row.CapturedVariant)]
		if c.Change != 0 && there != "" && here != "" {
			t.Errorf("rows %s and %s: each of two captures calls the other's schedule likely faster", there, here)
		}
	}
	if len(likely) == 0 || pairs < 8 {
		t.Errorf("%d rows, of which %d are likely faster: nothing is tested", pairs, len(likely))
	}
}
