package edit_test

import (
	"cmp"
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/replay/edit"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// What bounds a kernel of a captured graph, whose sizes no trace has, follows from its tile: GEMMs of few rows read
// their weights at the memory's rate.
func TestGraphsOfAnotherGPU(t *testing.T) {
	for _, c := range [][2]string{{"h100", "h200"}, {"h200", "h100"}} {
		w, from := recorded(t, c[0])
		truth, to := recorded(t, c[1])
		scaled := edit.To(w, machineOf(t, c[0], 1), machineOf(t, c[1], 1))
		n := 0
		for key, ops := range from {
			// Kernels that are split along K serve GEMMs of several sizes, and small weights stay in the cache.
			if took := median(w, ops); strings.HasPrefix(key[0], "case graph") && strings.HasPrefix(key[1], "nvjet") && len(to[key]) == len(ops) && took > 25e3 && !strings.Contains(key[1], "splitK") {
				n++
				if got, want := median(scaled, ops), median(truth, to[key]); math.Abs(got/want-1) > 0.06 {
					t.Errorf("%s: %s takes %.1f us, want %.1f", key[0], key[1], got/1e3, want/1e3)
				}
			}
		}
		if n < 2 {
			t.Errorf("%d GEMMs of over 25 us in graphs", n)
		}
	}
}

// recorded is the profile of testdata/kernels.py on one GPU (PyTorch 2.11, CUDA 13.0, 2026-11-24), and the
// median duration of each kernel of each case.
func recorded(t *testing.T, gpu string) (*workload.Workload, map[[2]string][]int32) {
	t.Helper()
	run := must.Have(format.Open(filepath.Join("testdata", "kernels-"+gpu+".json.gz"), format.Options{Context: context.Background()}))(t)
	w := must.Have(lift.Workload(run, lift.Options{}))(t)
	var ranges []trace.Span
	for _, s := range run.Spans {
		if s.Kind == trace.Marker && run.Lanes[s.Lane].Kind == trace.HostThread && strings.HasPrefix(run.NameOf(s), "case ") {
			ranges = append(ranges, s)
		}
	}
	ops := map[[2]string][]int32{}
	for i := range w.Ops {
		launch := run.LaunchOf(run.Spans[w.Ops[i].Span])
		if launch == trace.None {
			continue
		}
		at := run.Spans[launch].Start
		k, found := slices.BinarySearchFunc(ranges, at, func(s trace.Span, at trace.Time) int { return cmp.Compare(s.Start, at) })
		if !found {
			k--
		}
		if k >= 0 && at <= ranges[k].End {
			key := [2]string{run.NameOf(ranges[k]), w.Ops[i].Name}
			ops[key] = append(ops[key], int32(i))
		}
	}
	return w, ops
}

func median(w *workload.Workload, ops []int32) float64 {
	times := make([]trace.Time, len(ops))
	for i, id := range ops {
		times[i] = w.Ops[id].DurAlone()
	}
	slices.Sort(times)
	return float64(times[len(times)/2])
}

// Kernels of one GPU predict those of another: 190 cases of GEMMs, lookups, elementwise kernels, reductions, sorts,
// attention, optimizers and decode layers in a graph, each kernel alike, whether it takes one or a thousand
// microseconds. Assuming that nothing changes is off by 0.09 in the median and 0.38 at the 90th percentile.
func TestKernelsOfAnotherGPU(t *testing.T) {
	for _, c := range [][2]string{{"h100", "h200"}, {"h200", "h100"}} {
		w, from := recorded(t, c[0])
		truth, to := recorded(t, c[1])
		scaled := edit.To(w, machineOf(t, c[0], 1), machineOf(t, c[1], 1))
		var off, still []float64
		for key, ops := range from {
			if len(to[key]) != len(ops) {
				continue // the library chose another kernel
			}
			want := median(truth, to[key])
			off = append(off, math.Abs(median(scaled, ops)/want-1))
			still = append(still, math.Abs(median(w, ops)/want-1))
			if testing.Verbose() {
				t.Logf("%s %-40s %-50.50s %8.1f us, factor %.3f, measured %.3f", c[0], key[0], key[1], median(w, ops)/1e3, median(scaled, ops)/median(w, ops), want/median(w, ops))
			}
		}
		slices.Sort(off)
		slices.Sort(still)
		n := len(off)
		if off[n/2] > 0.05 || off[n*9/10] > 0.25 {
			t.Errorf("%s to %s: off by %.3f in the median, %.3f at the 90th percentile", c[0], c[1], off[n/2], off[n*9/10])
		}
		t.Logf("%s to %s: %d kernels off by %.3f in the median, %.3f at the 90th percentile; unchanged %.3f, %.3f", c[0], c[1], n, off[n/2], off[n*9/10], still[n/2], still[n*9/10])
	}
}
