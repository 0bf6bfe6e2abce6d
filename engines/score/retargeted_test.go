package score

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// sameProgram has the names of the step's programs on two H100 and on two H200.
var sameProgram = map[string]string{
	"tp_sp_llama_s4096": "tp_sp_s4096", "moe_ep_t8192": "moe_ep_h4096_t8192", "moe_ep_t24576": "moe_ep_h4096_t24576",
	"dlrm_fwd": "dlrm_d128_b16384", "decode_tp_b1": "decode_tp_b1", "decode_tp_b32": "decode_tp_b32", "ddp_gpt12_b4": "ddp_h2048",
	"fsdp_h4096_b1": "fsdp_h4096", "fsdp_h2048_b4": "fsdp_h2048", "pipeline2": "pipeline2",
}

// retargeted predicts rows on a GPU from traces in a folder that were captured on another one.
func retargeted(t *testing.T, rows []dataset.Row, folder, from, to string) []Check {
	on, err := machine.Load(from)
	other, err2 := machine.Load(to)
	must.Do(t, errors.Join(err, err2))
	checks := make([]Check, len(rows))
	groups := groupRows(rows)
	must.Do(t, guard.Each(len(groups), func(at int) error {
		g := rowGroup{lifted: map[string]*workload.Workload{}}
		for _, i := range groups[at] {
			r := &rows[i]
			captured, m := on.Resize(r.World), other.Resize(r.World)
			if g.run == nil {
				run, err := format.Open(filepath.Join(folder, r.Trace), format.Options{})
				if err != nil {
					return err
				}
				g.run = run
			}
			given := given(r, g.run)
			if key := known(r, given); g.lifted[key] == nil {
				w, err := lift.Workload(g.run, given)
				if err != nil {
					return err
				}
				lift.GuessSizes(w, &captured)
				if w, err = engines.Isolate(w, captured, nil); err != nil {
					return err
				}
				g.lifted[key] = edit.To(w, captured, m)
			}
			checks[i] = g.check(*r, m)
		}
		return nil
	}))
	compareRows(checks)
	return checks
}

// Steps of one GPU are predicted from captures of the same programs on the other, both ways: as captured, and under
// from the older GPU to the newer one, each strategy that was measured there. The golden has the measured change of the time from one machine to the
// other, the predicted one, and the error of the time; of strategies the change against the captured variant.
func TestStepsOfAnotherGPU(t *testing.T) {
	if !longtest.Asked() {
		t.Skip("long")
	}
	const steps = "../../../shared/data/steps"
	rows := map[string][]dataset.Row{}
	for _, gpu := range []string{"h100", "h200"} {
		if rows[gpu] = rowsOf(t, filepath.Join(steps, gpu+"x2", "steps.jsonl")); rows[gpu] == nil {
			t.Skip("the steps of shared/data are absent")
		}
	}
	variant := func(r dataset.Row) string {
		name := r.Workload.Name
		if as := sameProgram[name]; as != "" && r.Machine == "h100x2" {
			name = as
		}
		return fmt.Sprint(name, r.CapturedVariant)
	}
	var got strings.Builder
	var times, still, changes []float64
	signs, signed := 0, 0
	for _, way := range [][2]string{{"h100", "h200"}, {"h200", "h100"}} {
		captured := map[string]dataset.Row{}
		for _, r := range rows[way[0]] {
			if r.Strategy == "captured" {
				captured[variant(r)] = r
			}
		}
		var asked []dataset.Row
		for _, r := range rows[way[1]] {
			if of, ok := captured[variant(r)]; ok && (r.Strategy == "captured" || way[1] == "h200" && os.Getenv("CAPTURED") == "") {
				r.Trace = of.Trace
				r.Noisy = r.Noisy || of.Noisy
				asked = append(asked, r)
			}
		}
		checks := retargeted(t, asked, filepath.Join(steps, way[0]+"x2"), way[0], way[1])
		predicted := map[string]float64{}
		for _, c := range checks {
			if c.Row.Strategy == "captured" {
				predicted[c.Row.Trace] = c.Predicted
			}
		}
		for _, c := range checks {
			r := c.Row
			if c.Why != "" {
				fmt.Fprintf(&got, "%s to %s %-6s %-40s %s: %s\n", way[0], way[1], r.ID, RowName(r), filepath.Base(r.Trace), c.Why)
				continue
			}
			was := captured[variant(r)].Us
			change, measured := c.Predicted/was-1, r.Us/was-1
			if r.Strategy != "captured" {
				change, measured = c.Predicted/predicted[r.Trace]-1, r.Us/r.CapturedUs-1
			}
			mark := ""
			switch {
			case r.Noisy:
				mark = " noisy"
			case r.Strategy != "captured":
				changes = append(changes, math.Abs(change-measured))
			default:
				times, still = append(times, math.Abs(c.Error())), append(still, math.Abs(was/r.Us-1))
				if math.Abs(measured) > 0.03 {
					signed++
					if (change > 0) == (measured > 0) {
						signs++
					}
				}
			}
			fmt.Fprintf(&got, "%s to %s %-6s %-40s %9.1f µs %+6.1f%% %+6.1f%% %+6.1f%% %s%s\n", way[0], way[1], r.ID, RowName(r), r.Us, 100*measured, 100*change, 100*c.Error(), filepath.Base(r.Trace), mark)
		}
	}
	for _, e := range [][]float64{times, still, changes} {
		slices.Sort(e)
	}
	fmt.Fprintf(&got, "%d steps; median error %.1f %%, 90th percentile %.1f %%; unchanged %.1f and %.1f %%; %d of %d signs of changes over 3 %%\n",
		len(times), 100*quantile(times, .5), 100*quantile(times, .9), 100*quantile(still, .5), 100*quantile(still, .9), signs, signed)
	if len(changes) > 0 {
		fmt.Fprintf(&got, "%d strategies; changes off by %.1f points in the median, %.1f at the 90th percentile\n", len(changes), 100*quantile(changes, .5), 100*quantile(changes, .9))
	}
	if os.Getenv("CAPTURED") != "" {
		t.Log("\n" + got.String())
		return
	}
	golden(t, "testdata/retargeted.golden", got.String())
}
