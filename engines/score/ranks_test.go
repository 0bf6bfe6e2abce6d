package score

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/machine/dataset"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

// Rows of four GPUs are predicted from captures of two (rule Y7): those whose kernels and
// bytes per rank are the same on both. The golden has the measured time, the error from a
// capture of two, and that from the row's own capture of four. Rows whose launches take the host as
// long as their kernels take are not counted: the two captures are of two hosts, and bulk_gemv_n8192_k8192
// takes 49.7 us on the one with four GPUs and 101.4 (g0017) on the one with two.
func TestFourFromTwo(t *testing.T) {
	d := must.Have(dataset.Open(samples + "/measurements"))(t)
	two := map[string]string{} // by workload: trace of two ranks
	for i := range d.Sets {
		s := &d.Sets[i]
		for _, r := range s.Rows {
			if key := perRank(r); r.World == 2 && Predictable(s) && !d.Absent(s, r.Trace) && r.Trace != "" && two[key] == "" {
				two[key] = d.Path(s, r.Trace)
			}
		}
	}
	var got strings.Builder
	var from2, from4 []float64
	for i := range d.Sets {
		s := &d.Sets[i]
		var rows []dataset.Row
		for _, r := range s.Rows {
			if r.World == 4 && Predictable(s) && two[perRank(r)] != "" && r.Params.Iterations == 0 && r.Trace != "" && !d.Absent(s, r.Trace) {
				rows = append(rows, r)
			}
		}
		machines := func(r dataset.Row) (machine.Machine, error) { return plantest.H200(t, r.World), nil }
		predict := func(path func(dataset.Row) string) []Check {
			checks := must.Have(predictRows(rows, Inputs{Machine: machines, Trace: func(r dataset.Row) (*trace.Run, error) { return format.Open(path(r), format.Options{}) }}))(t)
			return checks
		}
		of2, of4 := predict(func(r dataset.Row) string { return two[perRank(r)] }), predict(func(r dataset.Row) string { return d.Path(s, r.Trace) })
		for k, c := range of2 {
			if c.Why != "" || of4[k].Why != "" || launches(t, two[perRank(c.Row)]) != launches(t, d.Path(s, c.Row.Trace)) {
				continue
			}
			bound := strings.HasPrefix(of4[k].Evidence.Why, "host-bound")
			if !bound {
				from2, from4 = append(from2, math.Abs(c.Error())), append(from4, math.Abs(of4[k].Error()))
			}
			fmt.Fprintf(&got, "%-6s %-50s %8.1f µs %+6.1f%% %+6.1f%% %-6s %s%s\n", c.Row.ID, RowName(c.Row), c.Row.Us, 100*c.Error(), 100*of4[k].Error(), c.Confidence.Level,
				filepath.Base(two[perRank(c.Row)]), map[bool]string{true: " (host-bound)"}[bound])
		}
	}
	slices.Sort(from2)
	slices.Sort(from4)
	fmt.Fprintf(&got, "%d rows that the host does not bind; median error %.1f %%, 90th percentile %.1f %%; from captures of four: %.1f and %.1f %%\n",
		len(from2), 100*quantile(from2, .5), 100*quantile(from2, .9), 100*quantile(from4, .5), 100*quantile(from4, .9))
	golden(t, "testdata/ranks.golden", got.String())
}

// launches lists the compute kernels of a capture: names, grids, blocks, registers and
// shared memory. Two builds of one kernel differ in these.
func launches(t *testing.T, path string) string {
	run := must.Have(format.Open(path, format.Options{}))(t)
	var all []string
	for _, s := range run.Spans {
		if k := run.Setup(run.Kernel(s)); s.Kind == trace.Compute {
			all = append(all, fmt.Sprint(run.NameOf(s), k.Grid, k.Block, k.Registers, k.Shared))
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
}

var degree = regexp.MustCompile(`_ep[0-9]+`)

// perRank names what one rank of a row does, whatever the number of ranks. Kernels of
// another build, and models whose shapes depend on the number of ranks (tensor
// parallelism), differ.
func perRank(r dataset.Row) string {
	w := r.Workload
	name := w.Name
	w.Name = ""
	if w.Kind == "model" || w.Kind == "step" {
		if !degree.MatchString(name) {
			return fmt.Sprint(r.World, name)
		}
		w.Name, w.Pairs = degree.ReplaceAllString(name, ""), ""
	}
	return fmt.Sprintf("%+v", w)
}
