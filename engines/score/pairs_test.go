package score

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// Captures of one job do not contradict each other: of two, each under a schedule that the other predicts, at most one calls the
// other's likely faster; and what one calls likely faster than its own schedule the other does not call likely slower than that.
func TestCapturesOfOneJobAgree(t *testing.T) {
	folder := "../../../shared/data/real/h200x2"
	rows := rowsOf(t, filepath.Join(folder, "steps.jsonl"))
	if !longtest.Asked() || rows == nil {
		t.Skip("needs the programs of others alongside the checkout")
	}
	type way struct{ job, from, to string }
	wayOf := func(r *dataset.Row) way {
		return way{r.Workload.Name, fmt.Sprint(r.CapturedVariant), fmt.Sprint(r.MeasuredVariant)}
	}
	captured := map[way]bool{}
	for i := range rows {
		w := wayOf(&rows[i])
		captured[way{job: w.job, from: w.from}] = true
	}
	// Jobs of which one loses by overlap, one gains, and one gathers.
	jobs := []string{"ddp_hf_llama", "ddp_tv_resnet50", "fsdp1_hf_llama"}
	rows = slices.DeleteFunc(rows, func(r dataset.Row) bool { return !slices.Contains(jobs, r.Workload.Name) })
	m := must.Have(machine.Load("h200"))(t)
	checks := must.Have(predictRows(rows, Inputs{
		Machine: func(r dataset.Row) (machine.Machine, error) { return m.Resize(r.World), nil },
		Trace: func(r dataset.Row) (*trace.Run, error) {
			return format.Open(filepath.Join(folder, r.Trace), format.Options{})
		},
	}))(t)
	found := map[way]*Check{}
	for i := range checks {
		if c := &checks[i]; c.Why == "" {
			found[wayOf(&c.Row)] = c
		} else {
			t.Errorf("%s: %s", c.Row.ID, c.Why)
		}
	}
	likely := func(c *Check) bool { return c != nil && c.Confidence.Chance.PFaster >= verdict.Likely }
	faster, both, compared := 0, 0, 0
	for w, c := range found {
		if w.from == w.to || !likely(c) {
			continue
		}
		faster++
		if back := found[way{w.job, w.to, w.from}]; back != nil {
			if both++; likely(back) {
				t.Errorf("rows %s and %s: each of two captures calls the other's schedule likely faster", c.Row.ID, back.Row.ID)
			}
		}
		for other := range captured {
			own, theirs := found[way{w.job, other.from, w.from}], found[way{w.job, other.from, w.to}]
			if other.job != w.job || other.from == w.from || own == nil || theirs == nil {
				continue
			}
			compared++
			back := (1+own.Change)/(1+theirs.Change) - 1
			if p := own.Evidence.Confidence(back).Chance.PFaster; p >= verdict.Likely {
				t.Errorf("row %s is likely faster, and on another capture of the job (rows %s and %s) likely slower: %+.1f %% the other way, %.2f", c.Row.ID, theirs.Row.ID, own.Row.ID, 100*back, p)
			}
		}
	}
	t.Logf("%d changes are likely faster, %d of them have a way back and %d another capture", faster, both, compared)
	if faster < 5 || both < 2 || compared < 4 {
		t.Errorf("%d changes are likely faster, %d of them have a way back and %d another capture: little is tested", faster, both, compared)
	}
}
