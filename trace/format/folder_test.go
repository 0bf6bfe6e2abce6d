package format

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
)

const (
	kernelHeader = "Kind,Agent_Id,Queue_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\n"
	copyHeader   = "Kind,Direction,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n"
	apiHeader    = "Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\n"
)

func kernelAt(start int) string {
	return kernelHeader + fmt.Sprintf("KERNEL_DISPATCH,Agent 2,1,k,5,%d,%d\n", start, start+100)
}

func copyAt(start int) string {
	return copyHeader + fmt.Sprintf("MEMORY_COPY,MEMORY_COPY_HOST_TO_DEVICE,Agent 0,Agent 2,6,%d,%d\n", start, start+50)
}

func apiAt(start, end, correlation int) string {
	return apiHeader + fmt.Sprintf("HIP_RUNTIME_API,hipLaunchKernel,11,11,%d,%d,%d\n", correlation, start, end)
}

// lines lists the spans of a run: rank, start, kind and name.
func lines(run *trace.Run) (all []string) {
	for _, s := range run.Spans {
		all = append(all, fmt.Sprintf("rank %d at %d: %s %s", run.Ranks[run.RankOf(s)].ID, s.Start, s.Kind, run.NameOf(s)))
	}
	return all
}

// What one run left in several files or folders is joined; what is of several runs is not.
func TestOpenFolder(t *testing.T) {
	const hour = 3600_000_000_000
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string
		note  string
		err   string
	}{
		{name: "folders of machine and process", files: map[string]string{
			"node1/11_kernel_trace.csv": kernelAt(2000), "node1/11_hip_api_trace.csv": apiAt(1900, 1950, 5), "node1/12_kernel_trace.csv": kernelAt(2050),
		}, want: []string{"rank 0 at 0: launch hipLaunchKernel", "rank 0 at 100: compute k", "rank 1 at 150: compute k"}},
		{name: "folders of machines, whose clocks are not one", files: map[string]string{
			"node1/11/a_kernel_trace.csv": kernelAt(2000), "node2/11/a_kernel_trace.csv": kernelAt(2000 + 9*hour),
		}, want: []string{"rank 0 at 0: compute k", "rank 1 at 0: compute k"}, note: "no clock"},
		{name: "folders of processes", files: map[string]string{
			"11/a_kernel_trace.csv": kernelAt(2000), "12/a_kernel_trace.csv": kernelAt(2030),
		}, want: []string{"rank 0 at 0: compute k", "rank 1 at 30: compute k"}},
		{name: "folders of ranks", files: map[string]string{
			"rank0/trace.json": strings.Replace(kineto(0), `"rank"`, `"r"`, 1), "rank_3/trace.json": strings.Replace(kineto(0), `"rank"`, `"r"`, 1),
		}, want: []string{"rank 0", "rank 3"}},
		{name: "folders of several runs", files: map[string]string{
			"a/trace.json": kineto(0), "b/11_kernel_trace.csv": kernelAt(2000),
		}, err: "no trace in this folder, but folders: a, b (give one of them)"},
		{name: "thread traces beside", files: map[string]string{
			"node/11_kernel_trace.csv": kernelAt(2000), "ui_output_agent_1_dispatch_1/occupancy.json": `{}`, "stats_ui.csv": "Codeobj,Hitcount\n1,2\n",
		}, want: []string{"rank 0 at 0: compute k"}, note: "thread trace ignored: open its folder separately"},
		{name: "a folder below traces", files: map[string]string{
			"11_kernel_trace.csv": kernelAt(2000), "old/11_kernel_trace.csv": kernelAt(2000),
		}, want: []string{"rank 0 at 0: compute k"}, note: "folder ignored: open it separately"},

		{name: "parts of a rank under two names", files: map[string]string{
			"rank0_kernel_trace.csv": kernelAt(2000), "rank0-copies_memory_copy_trace.csv": copyAt(2010),
		}, want: []string{"rank 0 at 0: compute k", "rank 0 at 10: copy MEMORY_COPY_HOST_TO_DEVICE"}, note: "parts of one rank"},
		{name: "calls and kernels under two names", files: map[string]string{
			"gpu_kernel_trace.csv": kernelAt(2000), "cpu_hip_api_trace.csv": apiAt(1900, 2100, 5),
		}, want: []string{"rank 0 at 0: launch hipLaunchKernel", "rank 0 at 100: compute k"}, note: "parts of one rank"},
		{name: "calls that another tool numbered", files: map[string]string{
			"gpu_kernel_trace.csv": kernelAt(2000), "cpu_hip_api_trace.csv": apiAt(2050, 2100, 5),
		}, want: []string{"rank 0 at 0: compute k", "rank 0 at 50: host hipLaunchKernel"}, note: "its correlation numbers differ from those of"},
		{name: "kernels of a rank twice", files: map[string]string{
			"rank0_kernel_trace.csv": kernelAt(2000), "rank0-b_kernel_trace.csv": kernelAt(2010),
		}, err: "rank0_kernel_trace.csv: rank 0 is also in "},
		{name: "parts of a rank hours apart", files: map[string]string{
			"rank0_kernel_trace.csv": kernelAt(2000), "rank0-copies_memory_copy_trace.csv": copyAt(2100 + hour),
		}, err: "1h0m0s apart (give the files of one profiled window)"},
		{name: "parts of a rank by two clocks", files: map[string]string{
			"rank0_memory_copy_trace.csv": copyAt(2000), "rank0.json": `{"distributedInfo":{"rank":0},"baseTimeNanoseconds":1790857026000000000,"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}]}`,
		}, err: "the relation of their clocks is unknown"},
		{name: "unrelated files of one process' name", files: map[string]string{
			"kernel_trace.csv": kernelAt(2000), "memory_copy_trace.csv": copyAt(2100 + hour + 1),
		}, err: "memory_copy_trace.csv: its times are 1h0m0.000000001s from those of"},
		{name: "unrelated traces", files: map[string]string{
			"a.json": strings.NewReplacer(`"rank"`, `"r"`, "nccl", "n").Replace(kineto(0)),
			"b.json": strings.NewReplacer(`"rank"`, `"r"`, "nccl", "n", "1790857026", "1790857027").Replace(kineto(0)),
		}, err: "b.json: its times are "},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t, c.files)
			run, err := Open(dir, Options{})
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), dir) || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v\nwant %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := lines(run)
			if strings.Count(c.want[0], " ") == 1 { // ranks alone
				got = nil
				for _, r := range run.Ranks {
					got = append(got, fmt.Sprint("rank ", r.ID))
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if notes := fmt.Sprint(run.Ledger); !strings.Contains(notes, c.note) {
				t.Errorf("no %q in %s", c.note, notes)
			}
		})
	}
}
