package results

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A predicted change was made between the captures A and B. All are relative to A's time.
type predicted struct {
	Strategy string  `json:"strategy"`         // with its settings
	Change   float64 `json:"predicted_change"` // -0.1 is 10 % less
	Error    float64 `json:"error"`            // half of its 80 % interval
	Measured float64 `json:"measured_change"`  // without the profiler, where that is estimated
	Noise    float64 `json:"noise"`            // two standard errors of what was measured, from the iterations of both; 0: too few
	Within   bool    `json:"within"`           // measured within the interval
}

// Verify compares what was measured with a result.json, or the folder that has it: with what it recommends, or with a strategy and
// its settings by name. took are the times of a step of A and B by phase, without the profiler; without a file these are compared.
func (d *Difference) Verify(file, strategy string, took [2]map[string]trace.Time) error {
	if file == "" {
		d.withoutProfiler(took)
		return nil
	}
	if IsResult(file) {
		file = filepath.Join(file, resultFile)
	}
	r, err := Read(file)
	if err != nil {
		return err
	}
	for _, p := range d.Each() {
		at := slices.IndexFunc(r.Rows, func(row Row) bool {
			is := strategy == row.name()
			if strategy == "" {
				is = r.recommended(&row) && row.Strategy != "captured"
			}
			return is && row.Applies && row.Phase == p.Phase
		})
		switch {
		case at < 0 && strategy == "":
			return fmt.Errorf("%s recommends no change: name the one that was made, such as --strategy multistream:keep_gathered=on", file)
		case at < 0:
			return fmt.Errorf("%s has no prediction of %s", file, strategy)
		}
		p.verify(&r.Rows[at], took)
	}
	if d.Phases != nil {
		*d = apart(d.Phases)
	}
	return nil
}

// verify puts the comparison with a row before the explanation.
func (d *Difference) verify(row *Row, took [2]map[string]trace.Time) {
	x := &predicted{Strategy: row.name(), Change: row.Change, Error: row.Error, Measured: d.Change}
	with := ""
	if a, b := took[0][d.Phase], took[1][d.Phase]; a > 0 && b > 0 {
		if x.Measured = float64(b)/float64(a) - 1; trace.Percent(x.Measured) != trace.Percent(d.Change) {
			with = fmt.Sprintf(" without the profiler (%s with it)", trace.Percent(d.Change))
		}
	}
	if len(d.A.samples) > 0 && len(d.B.samples) > 0 {
		x.Noise = 2 * math.Sqrt(squaredError(d.A.samples, 0)+squaredError(d.B.samples, 0)) / float64(max(1, d.A.Time))
	}
	off := math.Abs(x.Measured - x.Change)
	is := "outside"
	switch x.Within = off <= x.Error; {
	case x.Within:
		is = "within the interval"
	case off <= x.Error+x.Noise:
		is = fmt.Sprintf("outside, by less than the noise of the captures (± %.1f %%)", 100*x.Noise)
	}
	said := fmt.Sprintf("%spredicted %s ± %.1f %%, measured %s%s: %s", d.title(),
		strings.TrimSuffix(trace.Percent(x.Change), " %"), 100*x.Error, trace.Percent(x.Measured), with, is)
	if other := d.others(); !x.Within && other != "" {
		said += "; these kernels run as often in both and differ: " + other
	}
	d.Predicted, d.Explanation = x, said+". "+d.Explanation
}

// others names the kernels and copies that run as often in A as in B, of which a prediction keeps the times, and differ most.
func (d *Difference) others() string {
	rows := slices.DeleteFunc(slices.Clone(d.Rows), func(r overlap.Change) bool { // the largest difference first
		return r.Group != overlap.ByKernel || r.CountA != r.CountB || math.Abs(float64(r.Diff)) <= leastChange*float64(d.A.Time)
	})
	rows = rows[:min(len(rows), mostCauses)]
	unit, list := cli.UnitOf(d.A.Time), []string(nil)
	for _, r := range rows {
		list = append(list, fmt.Sprintf("%s %s %s", cli.Middle(trace.Short(r.Name), 44), unit.Signed(r.Diff), unit.Name))
	}
	return strings.Join(list, ", ")
}
