package rocprof

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

const (
	occupancyJSON = `{"0":[[100,6,1,0,1,2],[100,6,3,0,1,2],[300,6,1,0,0,2],[300,6,1,0,1,1],[350,7,0,0,0,2],[400,6,1,0,0,1],[1,2]],"dispatches":{"1":"second","2":"first"},"version":"3.0.0"}`
	realtimeJSON  = `{"SE0":[[0,1000],[1000,1050]],"metadata":{"descriptor":"[gfx_clock, realtime_clock]","frequency":100000000}}`
)

// A cycle is half a nanosecond here: 1000 cycles are 50 ticks of 10 ns.
func TestReadOccupancy(t *testing.T) {
	run, err := ReadOccupancy(strings.NewReader(occupancyJSON), strings.NewReader(realtimeJSON), "o")
	if err != nil {
		t.Fatal(err)
	}
	checkRun(t, run)
	var lines []string
	for _, s := range run.Spans {
		l := run.Lanes[s.Lane]
		lines = append(lines, strings.Join([]string{l.Kind.String(), l.Name, s.Kind.String(), run.NameOf(s), itoa(int64(s.Start)) + "-" + itoa(int64(s.End))}, " "))
	}
	want := []string{
		"queue  compute first 0-150",
		"slot SE 0 CU 6 SIMD 3 slot 0 workgroup first 0-150",
		"slot SE 0 CU 6 SIMD 1 slot 0 workgroup first 0-100",
		"queue  compute second 100-150",
		"slot SE 0 CU 6 SIMD 1 slot 0 workgroup second 100-150",
	}
	if diff := cmp.Diff(sorted(strings.Join(want, "\n")), sorted(strings.Join(lines, "\n"))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if n := run.Ledger.Count(trace.Skipped); n != 2 || run.Ledger.Count(trace.Repaired) != 1 {
		t.Errorf("ledger %+v", run.Ledger.Entries)
	}
	run, err = ReadOccupancy(strings.NewReader(occupancyJSON), nil, "o")
	if err != nil || run.End != 300 {
		t.Errorf("cycles as they are: %d, %v", run.End, err)
	}
	if _, err := ReadOccupancy(strings.NewReader(`{"dispatches":{}}`), nil, "o"); !errors.Is(err, noTimes) {
		t.Errorf("error %v", err)
	}
}

func TestReadOccupancyCaptured(t *testing.T) {
	dir := shared(t, "traces", "rocprofv3-att-batched_gemm", "ui_output_agent_5600_dispatch_1")
	occupancy := must.Have(os.ReadFile(dir + "/occupancy.json"))(t)
	realtime := must.Have(os.ReadFile(dir + "/realtime.json"))(t)
	run := must.Have(ReadOccupancy(bytes.NewReader(occupancy), bytes.NewReader(realtime), dir))(t)
	checkRun(t, run)
	if len(run.Spans) != 36+1 || len(run.Ledger.Entries) != 0 {
		t.Errorf("%d spans, ledger %+v", len(run.Spans), run.Ledger.Entries)
	}
	// 19024 to 59832 cycles at 81004 cycles in 3888 ticks of 10 ns.
	if want := trace.Time(19587); run.End != want {
		t.Errorf("%d ns, want %d", run.End, want)
	}
}

func FuzzReadOccupancy(f *testing.F) {
	f.Add([]byte(occupancyJSON), []byte(realtimeJSON))
	f.Add([]byte(`{"0":[[9007199254740991,1,1,1,1,-5]]}`), []byte(`{"SE0":[[0,0],[1,9223372036854775807]],"metadata":{"frequency":-1}}`))
	f.Fuzz(func(t *testing.T, occupancy, realtime []byte) {
		if run, err := ReadOccupancy(bytes.NewReader(occupancy), bytes.NewReader(realtime), "fuzz"); err == nil {
			checkRun(t, run)
		}
	})
}
