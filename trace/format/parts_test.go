package format

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

func TestParts(t *testing.T) {
	var got []string
	for _, p := range parts([]string{
		"d/11_agent_info.csv", "d/11_kernel_trace.csv", "d/12_kernel_trace.csv", "d/12_kernel_trace.csv.gz", "d/13_kernel_trace.csv", "d/13_results.db", "d/13_results.json",
		"d/rank0.json.gz", "d/rank0_wg_trace.csv", "d/x.json", "d/x.rpd",
	}) {
		got = append(got, strings.Join(p.paths, " ")+" | "+strings.Join(p.twice, " "))
	}
	want := []string{
		"d/11_agent_info.csv d/11_kernel_trace.csv | ",
		"d/12_kernel_trace.csv d/12_kernel_trace.csv.gz | ",
		"d/13_results.db | d/13_kernel_trace.csv d/13_results.json",
		"d/rank0.json.gz | ",
		"d/rank0_wg_trace.csv | ",
		"d/x.rpd | d/x.json",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The files that rocprofv3 writes for one process are one rank, two processes are two.
func TestOpenRocprofFolder(t *testing.T) {
	const kernels = "Kind,Agent_Id,Queue_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\n"
	dir := t.TempDir()
	for name, text := range map[string]string{
		"11_kernel_trace.csv":  kernels + "KERNEL_DISPATCH,Agent 2,1,k,5,2000,2100\n",
		"11_hip_api_trace.csv": "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\nHIP_RUNTIME_API,hipLaunchKernel,11,11,5,1900,1950\n",
		"11_kernel_stats.csv":  "Name,Calls,TotalDurationNs\nk,1,100\n",
		"12_kernel_trace.csv":  kernels + "KERNEL_DISPATCH,Agent 3,1,k,5,2050,2150\n",
		"13_kernel_stats.csv":  "Name,Calls,TotalDurationNs\nk,1,100\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	run := must.Have(Open(dir, Options{}))(t)
	var got []string
	for _, s := range run.Spans {
		got = append(got, s.Kind.String()+" "+run.NameOf(s)+" "+strings.Repeat("r", run.RankOf(s)+1))
	}
	want := []string{"launch hipLaunchKernel r", "compute k r", "compute k rr"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if at := run.Spans[2].Start; at != 150 || run.Clock != 1900 {
		t.Errorf("the second process' kernel is at %d, clock %d: both are on the machine's clock", at, run.Clock)
	}
	if run.Ledger.Count(trace.Noted) == 0 {
		t.Error("statistics were passed over silently")
	}
}

// A folder with a thread trace is one, whatever else lies in it.
func TestOpenThreadTrace(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"occupancy.json": `{"0":[[100,6,1,0,1,2],[300,6,1,0,0,2]],"dispatches":{"2":"k"}}`,
		"code.json":      `{"code":[]}`,
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	run, err := Open(dir, Options{})
	if err != nil || len(run.Spans) != 2 || run.Spans[1].Kind != trace.Workgroup {
		t.Errorf("%v, %v", run, err)
	}
}
