package score

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// sizeOf is where the name of a workload states its size.
var sizeOf = regexp.MustCompile(`(_[a-z]\d+)+$`)

// Whole steps are predicted from profiles alone, without an execution trace beside them: what
// buckets hold and who uses gathered parameters follows from ranges and sizes (rule V8). Of programs that were captured in two
// sizes, those of the first; samples/measurements/errors.csv has the rows of both, with the execution traces.
func TestStepsWithoutExecutionTrace(t *testing.T) {
	for _, c := range []struct {
		name, profile     string
		median, p90       float64 // most, of errors of times
		change, changeP90 float64 // most, of errors of changes against the captured variant
		signs             float64 // least, of changes over 2 %
	}{
		{"h200x2", "h200", 0.018, 0.05, 0.018, 0.06, 0.88},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := filepath.Join("../../../shared/data/steps", c.name)
			rows := rowsOf(t, filepath.Join(folder, "steps.jsonl"))
			if !longtest.Asked() || rows == nil {
				t.Skipf("needs the captured steps of %s alongside the checkout, and a minute", c.name)
			}
			first := map[string]string{} // workload by program
			rows = slices.DeleteFunc(rows, func(r dataset.Row) bool {
				program := sizeOf.ReplaceAllString(r.Workload.Name, "")
				if first[program] == "" {
					first[program] = r.Workload.Name
				}
				return first[program] != r.Workload.Name
			})
			m := must.Have(machine.Load(c.profile))(t)
			checks := must.Have(predictRows(rows, Inputs{
				Machine: func(r dataset.Row) (machine.Machine, error) { return m.Resize(r.World), nil },
				Trace: func(r dataset.Row) (*trace.Run, error) {
					alone, err := bare(t, filepath.Join(folder, r.Trace))
					if err != nil {
						return nil, err
					}
					run, err := format.Open(alone, format.Options{})
					if err == nil && len(run.Uses) > 0 {
						err = errors.New("an execution trace was read")
					}
					return run, err
				},
			}))(t)
			s := stepsOf(checks)
			t.Logf("%d of %d rows; errors %.1f and %.1f %%, of changes %.1f and %.1f points; signs %d of %d",
				len(s.errs), s.rows, 100*quantile(s.errs, .5), 100*quantile(s.errs, .9), 100*quantile(s.changes, .5), 100*quantile(s.changes, .9), s.right, s.over)
			if float64(len(s.errs)) < 0.97*float64(s.rows) || quantile(s.errs, .5) > c.median || quantile(s.errs, .9) > c.p90 ||
				quantile(s.changes, .5) > c.change || quantile(s.changes, .9) > c.changeP90 || float64(s.right) < c.signs*float64(s.over) {
				t.Errorf("worse than %+v", c)
			}
		})
	}
}

// bare is a folder with links to the profiles of another one, without the folders below.
func bare(t *testing.T, from string) (dir string, err error) {
	from, err = filepath.Abs(from)
	files, bad := filepath.Glob(filepath.Join(from, "rank*.json.gz"))
	err = errors.Join(err, bad)
	dir = t.TempDir()
	for _, f := range files {
		err = errors.Join(err, os.Symlink(f, filepath.Join(dir, filepath.Base(f))))
	}
	return dir, err
}

type stepScore struct {
	errs, changes     []float64
	rows, right, over int
}

// stepsOf scores steps: changes are against the captured variant without a profiler.
func stepsOf(checks []Check) (s stepScore) {
	exact := func(row dataset.Row) bool { e, _ := engines.Named(row.Strategy); return e.Kind == plan.Exact }
	captured := map[string]float64{}
	for _, c := range checks {
		if exact(c.Row) && c.Why == "" {
			captured[c.Row.Trace] = c.Predicted
		}
	}
	for _, c := range checks {
		if c.Row.Noisy {
			continue
		}
		s.rows++
		measured, asks := c.Row.Us/c.Row.CapturedUs-1, !exact(c.Row)
		over := asks && math.Abs(measured) > 0.02
		if over {
			s.over++
		}
		if c.Why != "" {
			continue
		}
		s.errs = append(s.errs, math.Abs(c.Error()))
		if of := captured[c.Row.Trace]; asks && of > 0 {
			predicted := c.Predicted/of - 1
			s.changes = append(s.changes, math.Abs(predicted-measured))
			if over && math.Abs(predicted) > 0.002 && (predicted > 0) == (measured > 0) {
				s.right++
			}
		}
	}
	slices.Sort(s.errs)
	slices.Sort(s.changes)
	return s
}
