package results

import (
	"slices"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// Kernels that would look alike show what tells them apart; those of the same name and shape
// are one row.
func TestKernelNames(t *testing.T) {
	ks := []workload.KernelSummary{
		{Name: `"void par_ranged2d_kernel<policy, lambda_1>(int)`, Count: 1, TotalNs: 10},
		{Name: `"void par_ranged2d_kernel<policy, lambda_2>(int)`, Count: 1, TotalNs: 20},
		{Name: "_ZN2ck27kernel_gemm_xdl_cshuffle_v3INS_28GridwiseA_ArgumentE", Count: 1, TotalNs: 30},
		{Name: "_ZN2ck27kernel_gemm_xdl_cshuffle_v3INS_28GridwiseB_ArgumentE", Count: 2, TotalNs: 30},
		{Name: "gemm", Shape: "gemm 1x2x3", Workgroups: 1, Count: 1, TotalNs: 1},
		{Name: "gemm", Shape: "gemm 1x2x3", Workgroups: 2, Count: 3, TotalNs: 50},
		{Name: "gemm", Shape: "gemm 1x2x4", Count: 1, TotalNs: 2},
	}
	joined := merged(ks)
	if len(joined) != 6 || joined[0].Name != "gemm" || joined[0].Count != 4 || joined[0].TotalNs != 51 {
		t.Errorf("merged: %+v", joined)
	}
	names := kernelNames(ks[:4])
	for i, want := range []string{"par_ranged2d…", "par_ranged2d…", "_ZN2ck27", "_ZN2ck27"} {
		if !strings.HasPrefix(names[i], want[:8]) || len([]rune(names[i])) > nameWidth || strings.Contains(names[i], `"`) {
			t.Errorf("%q", names[i])
		}
	}
	for _, part := range []string{"1>(int)", "2>(int)", "A_ArgumentE", "B_ArgumentE"} {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, "…"+part) }) {
			t.Errorf("no name ends in %q: %q", part, names)
		}
	}
}

// Lists in inspect's JSON that grow with the trace are cut, and the rest is counted.
func TestBoundedLists(t *testing.T) {
	short, long := make([]int, 3), make([]int, maxListed+5)
	if n := truncateList(&short); n != 0 || len(short) != 3 {
		t.Errorf("%d of 3 left out", n)
	}
	if n := truncateList(&long); n != 5 || len(long) != maxListed {
		t.Errorf("%d left out, %d listed", n, len(long))
	}
}

// Texts from traces and plans are no formulas; numbers stay numbers.
func TestWriteCSV(t *testing.T) {
	var b strings.Builder
	row := []any{"=1+1", "+x", "-x", "@x", "\tx", "\rx", "-0.5", "+1e3", "", "x=1", "ü="}
	must.Do(t, WriteCSV(&b, slices.Values([][]any{{"a"}, row})))
	if want := "a\n'=1+1,'+x,'-x,'@x,'\tx,\"'·x\",-0.5,+1e3,,x=1,ü=\n"; b.String() != want {
		t.Errorf("got  %q\nwant %q", b.String(), want)
	}
}

// The columns of CSV are the fields of JSON; what has no value is empty, formulas are text.
func TestWriteTableCSV(t *testing.T) {
	type row struct {
		Name  string  `json:"name"`
		Share float64 `json:"share"`
		Time  int64   `json:"time_ns,omitempty"`
	}
	var b strings.Builder
	must.Do(t, WriteTableCSV(&b, slices.Values([]row{{"=1+1", 1.0 / 3, 0}, {"a,b", -0.5, 12}})))
	if want := "name,share,time_ns\n'=1+1,0.333333,\n\"a,b\",-0.5,12\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// A prediction is of a step without the profiler. Where the captures and their estimate without it do not agree on whether it came
// true, that is said.
func TestPredictedAgainstMeasured(t *testing.T) {
	for _, c := range []struct {
		predicted, with, without float64
		want                     string
	}{
		{-0.10, -0.10, -0.11, "measured -11.0 % by estimate without the profiler (-10.0 % with it): within the interval. With it: B is"},
		{-0.10, -0.10, -0.10, "measured -10.0 %: within the interval. B is"},
		{-0.05, -0.032, -0.027, "undecided, as these differ"}, // within with it
		{0.049, 0.082, 0.023, "undecided, as these differ"},   // on both sides
		{0.05, -0.03, -0.02, "(-3.0 % with it): outside. With it: B is"},
	} {
		d := &Difference{Change: c.with, Explanation: "B is faster.", A: side{Time: 1e6}}
		took := [2]map[string]trace.Time{{"": 1e6}, {"": trace.Time(1e6 * (1 + c.without))}}
		d.verify(&Row{answer: answer{Strategy: "multistream", Change: c.predicted, Chance: verdict.Chance{Error: 0.02}}}, took)
		if !strings.Contains(d.Explanation, c.want) {
			t.Errorf("%+v: %s, want %q", c, d.Explanation, c.want)
		}
	}
}
