package score

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// Six steps of fully_shard on two H200, each with NCCL's and with copy-engine gathers in two processes: each capture predicts the
// step with the other gathers, half of them within a point, and no changes but those that the two processes leave open have the
// wrong sign.
func TestCarriersOfSteps(t *testing.T) {
	if !longtest.Asked() {
		t.Skip("many replays")
	}
	folder := "../../../shared/data/real/h200x2-copies"
	type variant struct {
		Gather  string
		Reshard bool
	}
	type step struct {
		Workload string
		Variant  variant
	}
	took, traces := map[step][]float64{}, map[step]string{}
	for _, name := range []string{"rows.jsonl", "again.jsonl"} {
		f, err := os.Open(filepath.Join(folder, name))
		if err != nil {
			t.Skip("needs the captures of copy-engine gathers alongside the checkout")
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var row struct {
				step
				Us    float64
				Trace string
			}
			must.Do(t, json.Unmarshal(lines.Bytes(), &row))
			took[row.step] = append(took[row.step], row.Us)
			if row.Trace != "" {
				traces[row.step] = row.Trace
			}
		}
	}
	m := must.Have(machine.Load("h200"))(t)
	var off []float64
	for from, us := range took {
		to := from
		to.Variant.Gather = map[string]string{"nccl": "copies", "copies": "nccl"}[from.Variant.Gather]
		row := dataset.Row{
			Machine: "h200x2", World: 2, Workload: dataset.Workload{Name: from.Workload, Kind: "step", Framework: "fsdp"},
			Strategy: "captured", Us: us[0], Trace: traces[from],
		}
		changed := row
		changed.Strategy, changed.Us = "multistream", took[to][0]
		changed.Params.KeepGathered = !from.Variant.Reshard
		changed.Params.Carrier = map[string]string{"nccl": "dma", "copies": "cu"}[from.Variant.Gather]
		kept := row // what backward gathers again is left out, with all parts of it and the copies in front
		kept.Strategy, kept.Params.KeepGathered = "multistream", true
		checks, err := predictRows([]dataset.Row{row, changed, kept}, Inputs{
			Machine: func(dataset.Row) (machine.Machine, error) { return m.Resize(2), nil },
			Trace: func(dataset.Row) (*trace.Run, error) {
				return format.Open(filepath.Join(folder, "traces", row.Trace), format.Options{})
			},
		})
		if err != nil || len(checks) != 3 || checks[1].Why != "" {
			t.Fatalf("%+v: %v", from, err)
		}
		once, again := took[to][0]/us[0]-1, took[to][1]/us[1]-1
		measured := (took[to][0]+took[to][1])/(us[0]+us[1]) - 1
		got := checks[1].Predicted/checks[0].Predicted - 1
		off = append(off, math.Abs(got-measured))
		if without := (step{from.Workload, variant{from.Variant.Gather, false}}); from.Variant == (variant{"copies", true}) {
			saves := (took[without][0]+took[without][1])/(us[0]+us[1]) - 1
			if got := checks[2].Predicted/checks[0].Predicted - 1; checks[2].Why != "" || math.Abs(got-saves) > 0.02 {
				t.Errorf("%s, kept gathered: %+.1f %%, measured %+.1f %%: %s", from.Workload, 100*got, 100*saves, checks[2].Why)
			}
		}
		t.Logf("%s from %v: %+.1f %%, measured %+.1f and %+.1f %%", from.Workload, from.Variant, 100*got, 100*once, 100*again)
		if open := once*again < 0 || math.Abs(measured) < 0.01 || math.Abs(once-again) > 0.03; !open && got*measured < 0 {
			t.Errorf("%s from %v: %+.1f %%, measured %+.1f %%", from.Workload, from.Variant, 100*got, 100*measured)
		}
	}
	slices.Sort(off)
	if median := (off[5] + off[6]) / 2; len(off) != 12 || median > 0.01 || off[11] > 0.03 {
		t.Errorf("off by %.2f points in the median of %d, at most %.2f", 100*median, len(off), 100*off[len(off)-1])
	}
}
