package rocprof

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/sqldbtest"
)

// describe renders a run: ranks, then spans with what their side rows say.
func describe(run *trace.Run) string {
	var b strings.Builder
	for _, r := range run.Ranks {
		fmt.Fprintf(&b, "rank %d", r.ID)
		for _, word := range []string{r.Host, r.Device.Name} {
			if word != "" {
				fmt.Fprintf(&b, " %s", word)
			}
		}
		b.WriteString("\n")
	}
	for _, s := range run.Spans {
		l := run.Lanes[s.Lane]
		fmt.Fprintf(&b, "%d/%d %s %d.%d %s %q %d-%d", run.Ranks[l.Rank].ID, l.Device, l.Kind, l.ID, l.Sub, s.Kind, run.NameOf(s), s.Start, s.End)
		if k := run.Kernel(s); k != nil {
			u := run.Setup(k)
			fmt.Fprintf(&b, " grid %v block %v lds %d vgprs %d stream %d corr %d", u.Grid, u.Block, u.Shared, u.Registers, u.Stream, k.Correlation)
		}
		if c := run.Comm(s); c != nil {
			fmt.Fprintf(&b, " %s #%d", c.Op, c.Seq)
		}
		if c := run.Copy(s); c != nil {
			fmt.Fprintf(&b, " %s bytes %d corr %d", c.Dir, c.Bytes, c.Correlation)
		}
		if s.Parent != trace.None {
			fmt.Fprintf(&b, " in %q", run.NameOf(run.Spans[s.Parent]))
		}
		b.WriteString("\n")
	}
	for _, e := range run.Ledger.Entries {
		fmt.Fprintf(&b, "%s %s: %s ×%d %s %v\n", e.Action, e.File, e.Reason, e.Count, e.Unit, e.Positions)
	}
	return b.String()
}

func textFile(name, text string) File { return File{name, strings.NewReader(text)} }

func TestReadCSV(t *testing.T) {
	const kernels7 = `"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
`
	for _, c := range []struct {
		name  string
		files []File
		want  string
	}{
		{
			"ROCm 6.2: bare agents, segment sizes",
			[]File{textFile("rank2_kernel_trace.csv",
				`"Kind","Agent_Id","Queue_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","Private_Segment_Size","Group_Segment_Size","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"KERNEL_DISPATCH",1,3,69,1,16,"void f<float>(float*, int)",1451,1000,1050,0,512,64,2,1,1000,4,1
`)},
			`rank 2
2/1 queue 3.0 compute "void f<float>(float*, int)" 0-50 grid [16 2 1] block [64 2 1] lds 512 vgprs 0 stream 0 corr 1451
`,
		},
		{
			"ROCm 7: kernels, copies, calls and agents of a process",
			[]File{
				textFile("a_kernel_trace.csv", kernels7+
					`"KERNEL_DISPATCH","Agent 4",1,7,83,2,11,"second",22,1200,1300,512,0,8,4,16,64,1,1,128,1,1
"KERNEL_DISPATCH","Agent 4",1,7,83,1,10,"first",21,1100,1190,0,0,8,0,16,64,1,1,64,1,1
`),
				textFile("a_memory_copy_trace.csv", `"Kind","Direction","Stream_Id","Source_Agent_Id","Destination_Agent_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE",0,"Agent 0","Agent 4",23,1310,1320
"MEMORY_COPY","MEMORY_COPY_DEVICE_TO_DEVICE",0,"Agent 5","Agent 4",24,1330,1340
`),
				textFile("a_hip_api_trace.csv", `"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"HIP_RUNTIME_API_EXT","hipLaunchKernel",80,83,21,1050,1060
"HIP_RUNTIME_API_EXT","hipGetDevice",80,83,20,1000,1010
`),
				textFile("a_marker_api_trace.csv", `"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"MARKER_CORE_API","step 1",80,83,19,1040,1080
`),
				textFile("a_memory_allocation_trace.csv", `"Kind","Operation","Agent_Id","Allocation_Size","Address","Correlation_Id","Start_Timestamp","End_Timestamp"
"MEMORY_ALLOCATION","MEMORY_ALLOCATION_ALLOCATE","Agent 0",1024,"0x7f",1,1020,1030
`),
				textFile("a_agent_info.csv", `"Node_Id","Logical_Node_Id","Agent_Type","Wave_Front_Size","Cu_Count","Lds_Size_In_Kb","Max_Waves_Per_Cu","Name","Product_Name"
0,0,"CPU",0,64,0,0,"EPYC","EPYC"
4,4,"GPU",64,304,64,32,"gfx942","MI300X"
5,5,"GPU",64,304,64,32,"gfx942","MI300X"
`),
				textFile("a_kernel_stats.csv", `"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"
"first",1,90,90.0,50.0,90,90,0.0
`),
			},
			`rank -1 MI300X
-1/0 thread 83.0 host "hipGetDevice" 0-10
-1/0 annotation 0.0 marker "MEMORY_ALLOCATION_ALLOCATE" 20-30
-1/0 thread 83.0 marker "step 1" 40-80
-1/0 thread 83.0 launch "hipLaunchKernel" 50-60 in "step 1"
-1/0 queue 1.0 compute "first" 100-190 grid [1 1 1] block [64 1 1] lds 0 vgprs 8 stream 7 corr 21
-1/0 queue 1.0 compute "second" 200-300 grid [2 1 1] block [64 1 1] lds 512 vgprs 12 stream 7 corr 22
-1/0 engine 1.0 copy "MEMORY_COPY_HOST_TO_DEVICE" 310-320 host to device bytes 0 corr 23
-1/0 engine 4.0 copy "MEMORY_COPY_DEVICE_TO_DEVICE" 330-340 peer to peer bytes 0 corr 24
noted a_kernel_stats.csv: statistics: it has no times ×1  [0]
`,
		},
		{
			"rocpd's CSV: two processes, other capitals",
			[]File{textFile("out_kernel_trace.csv",
				`"Guid","Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","Lds_Block_Size","Scratch_Size","Vgpr_Count","Accum_Vgpr_Count","Sgpr_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"
"bb","KERNEL_DISPATCH","GPU 1",1,7,83,2,11,"b",22,1200,1300,512,0,8,4,16,64,1,1,128,1,1
"aa","KERNEL_DISPATCH","GPU 0",1,7,82,2,11,"a",22,1210,1310,512,0,8,4,16,64,1,1,128,1,1
`)},
			`rank 0
rank 1
1/1 queue 1.0 compute "b" 0-100 grid [2 1 1] block [64 1 1] lds 512 vgprs 12 stream 7 corr 22
0/0 queue 1.0 compute "a" 10-110 grid [2 1 1] block [64 1 1] lds 512 vgprs 12 stream 7 corr 22
noted test: ranks are numbered by process and GPU: the files have no rank ids ×1  [0]
`,
		},
		{
			"rocprof v1: scalar grids, raw quotes, a lost counter",
			[]File{textFile("results.csv",
				`Index,KernelName,gpu-id,queue-id,queue-index,pid,tid,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,wave_size,sig,obj,SQ_WAVES,DispatchNs,BeginNs,EndNs,CompleteNs,DurationNs
0,"f("x") [clone .kd]",8,0,0,2046,2046,1000,256,0,0,16,4,32,64,"0x0","0x7f",None,100,110,140,150,30
`)},
			`rank -1
-1/8 queue 0.0 compute "f(\"x\") [clone .kd]" 0-30 grid [4 1 1] block [256 1 1] lds 0 vgprs 20 stream 0 corr 0
`,
		},
		{
			"rocprofv2: no quotes, an empty line after the header, Stop_Timestamp",
			[]File{
				textFile("results_9.csv", "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,Accum_VGPR,SGPR,Wave_Size,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID\n"+
					"1,2,3,9,9,512,256,1024,0,16,0,32,64,\"k 'q'\",1000,1100,5\n"),
				textFile("hip_api_trace_9.csv", "Domain,Function,Start_Timestamp,End_Timestamp,Correlation_ID\n\nHIP_API_DOMAIN,hipLaunchKernel,900,950,5\n"),
				textFile("async_copy_trace_9.csv", "Domain,Operation,Start_Timestamp,Stop_Timestamp,Correlation_ID\n\nHSA_OPS_DOMAIN,CopyDeviceToHost,1200,1300,6\n"),
				textFile("roctx_trace_9.csv", "Domain,ROCTX_ID,Message,Timestamp\n\nROCTX_DOMAIN,1,here,1250\n"),
			},
			`rank -1
-1/0 thread 0.0 launch "hipLaunchKernel" 0-50
-1/2 queue 3.0 compute "k 'q'" 100-200 grid [2 1 1] block [256 1 1] lds 1024 vgprs 16 stream 0 corr 5
-1/0 engine 2.0 copy "CopyDeviceToHost" 300-400 device to host bytes 0 corr 6
-1/0 thread 0.0 marker "here" 350-350
`,
		},
		{
			"counters: one row a counter",
			[]File{textFile("x_counter_collection.csv",
				`"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id","Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"
1,1,"Agent 1",1,15,15,1024,17,"k",64,0,0,8,0,16,"SQ_WAVES",16.0,500,600
1,1,"Agent 1",1,15,15,1024,17,"k",64,0,0,8,0,16,"SQ_BUSY",99.0,500,600
`)},
			`rank -1
-1/1 queue 1.0 compute "k" 0-100 grid [16 1 1] block [64 1 1] lds 0 vgprs 8 stream 0 corr 1
skipped x_counter_collection.csv: further counters of a dispatch ×1 line [3]
noted x_counter_collection.csv: kernels ran serially while counters were read: the overlap is not that of the program ×1  [0]
`,
		},
		{
			"one process, two GPUs",
			[]File{textFile("k.csv", kernels7+
				`"KERNEL_DISPATCH","Agent 5",1,7,83,2,11,"b",22,1200,1300,0,0,8,4,16,64,1,1,64,1,1
"KERNEL_DISPATCH","Agent 4",1,7,83,1,11,"a",22,1200,1300,0,0,8,4,16,64,1,1,64,1,1
`)},
			`rank 0
rank 1
0/4 queue 1.0 compute "a" 0-100 grid [1 1 1] block [64 1 1] lds 0 vgprs 12 stream 7 corr 22
1/5 queue 1.0 compute "b" 0-100 grid [1 1 1] block [64 1 1] lds 0 vgprs 12 stream 7 corr 22
noted test: ranks are numbered by process and GPU: the files have no rank ids ×1  [0]
`,
		},
		{
			"what cannot be",
			[]File{textFile("k.csv", kernels7+
				`"KERNEL_DISPATCH","Agent 4",1,7,83,2,11,"b",22,1300,1200,0,0,8,4,16,64,1,1,64,1,1
"KERNEL_DISPATCH","Agent 4",1,7,83,2,11,"b",22,-5,1200,0,0,8,4,16,64,1,1,64,1,1
"KERNEL_DISPATCH","Agent 4",1,7,83,2,11,"b",22,130
`)},
			`rank -1
-1/4 queue 1.0 compute "b" 0-0 grid [1 1 1] block [64 1 1] lds 0 vgprs 12 stream 7 corr 22
skipped k.csv: row with more or fewer fields than the header ×1 line [4]
skipped k.csv: start or end is not a time ×1 line [3]
repaired k.csv: ends before it starts: clamped to zero duration ×1 line [2]
`,
		},
	} {
		run, err := ReadCSV("test", c.files...)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		checkRun(t, run)
		if diff := cmp.Diff(c.want, describe(run)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// RCCL's kernels do not name their operation; its calls do.
func TestReadCSVCollectives(t *testing.T) {
	const kernels = `Kernel_Name,Agent_Id,Queue_Id,Correlation_Id,Start_Timestamp,End_Timestamp
ncclDevKernel_Generic_1(args),Agent 4,1,31,1500,1600
ncclDevKernel_Generic_1(args),Agent 4,1,33,1700,1800
gemm,Agent 4,2,34,1700,1800
ncclDevKernel_Generic_1(args),Agent 4,1,36,1900,2000
`
	const rccl = `Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp
RCCL_API,ncclGetVersion,1,1,1,900,901
RCCL_API,ncclAllReduce,1,1,30,1000,1100
RCCL_API,ncclGroupStart,1,1,32,1200,1201
RCCL_API,ncclSend,1,1,32,1210,1211
RCCL_API,ncclRecv,1,1,32,1220,1221
RCCL_API,ncclGroupEnd,1,1,32,1230,1300
RCCL_API,ncclReduceScatter,1,1,35,1400,1450
`
	const hip = `Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp
HIP_RUNTIME_API,hipExtLaunchKernel,1,1,31,1050,1060
HIP_RUNTIME_API,hipExtLaunchKernel,1,1,33,1250,1260
HIP_RUNTIME_API,hipExtLaunchKernel,1,1,34,1350,1360
HIP_RUNTIME_API,hipExtLaunchKernel,1,1,36,1420,1430
`
	ops := func(run *trace.Run) (names []string) {
		for _, s := range run.Spans {
			if c := run.Comm(s); c != nil {
				names = append(names, fmt.Sprintf("%s #%d", c.Op, c.Seq))
			}
		}
		return names
	}
	want := []string{"all_reduce #0", "send_recv #1", "reduce_scatter #2"}
	for _, c := range []struct {
		name  string
		files []File
		want  []string
		notes int
	}{
		{"by launch", []File{textFile("k", kernels), textFile("r", rccl), textFile("h", hip)}, want, 0},
		{"in order", []File{textFile("k", kernels), textFile("r", rccl)}, want, 1},
		{"a call too many", []File{textFile("k", kernels), textFile("r", rccl+"RCCL_API,ncclBcast,1,1,40,1460,1470\n")}, []string{"unknown #0", "unknown #1", "unknown #2"}, 0},
		{"without calls", []File{textFile("k", kernels)}, []string{"unknown #0", "unknown #1", "unknown #2"}, 0},
	} {
		run := must.Have(ReadCSV("test", c.files...))(t)
		if diff := cmp.Diff(c.want, ops(run)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if n := run.Ledger.Count(trace.Noted); n != c.notes {
			t.Errorf("%s: ledger %v", c.name, run.Ledger.Entries)
		}
	}
}

func TestReadCSVErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{
			"statistics", "\"Name\",\"Calls\",\"TotalDurationNs\",\"AverageNs\",\"Percentage\"\n\"k\",1,2,2.0,100.0\n",
			"test: no kernel, copy or call: nothing with a time (give the trace that the statistics are of: *_kernel_trace.csv, or results.csv of rocprof --timestamp on)",
		},
		{"no times", "Index,KernelName,gpu-id\n0,k,2\n", "test: no kernel, copy or call: nothing with a time (profile again with rocprof --timestamp on)"},
		{"another table", "a,b\n1,2\n", `f.csv:line 1: not a known table; the header is "a,b" (give CSV files of rocprof, rocprofv2 or rocprofv3)`},
		{"no rows", "Kernel_Name,Start_Timestamp,End_Timestamp\n", "test: no kernel, copy or call: nothing with a time (give the kernel trace of the same process)"},
	} {
		_, err := ReadCSV("test", textFile("f.csv", c.text))
		var syntax *trace.SyntaxError
		if !errors.As(err, &syntax) || err.Error() != c.want {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
}

func TestStem(t *testing.T) {
	for name, want := range map[string]string{
		"host/1234_kernel_trace.csv": "host/1234", "host/1234_memory_copy_trace.csv.gz": "host/1234", "host/1234_results.db": "host/1234",
		"out_agent_info.csv": "out", "rank3_rccl_api_trace.csv": "rank3", "kernel_trace.csv": "", "d/rccl_trace.csv": "d/",
		"results_77.csv": "77", "hcc_ops_trace_77.csv": "77", "results.csv": "", "results.hip_stats.csv": "", "d/results.json": "d/",
	} {
		if got, ok := Stem(name); got != want || !ok {
			t.Errorf("Stem(%q) = %q, %v, want %q", name, got, ok, want)
		}
	}
	for _, name := range []string{"rank0.json.gz", "x_rank0_wg_trace.csv", "results.txt", "myresults.json", "results", ".db"} {
		if got, ok := Stem(name); ok {
			t.Errorf("Stem(%q) = %q", name, got)
		}
	}
}

// Every published CSV file is read without a row lost.
func TestReadCSVCaptured(t *testing.T) {
	for file, spans := range map[string]int{
		"rocprofv3-docs-data/kernel_trace.csv":            9,
		"rocprofv3-docs-data/counter_collection.csv":      4,
		"rocprofv3-docs-data/hip_trace.csv":               17,
		"rocprofv3-docs-data/memory_copy_trace.csv":       4,
		"rocprofv3-docs-data/memory_allocation_trace.csv": 4,
		"rocprofv3-docs-data/scratch_memory_trace.csv":    2,
		"rocprofv3-docs-data/rccl_trace.csv":              21,
		"rocprofv3-docs-data/rocpd-to-csv.csv":            13,
		"rocm-blogs/HSA_trace/results.csv":                1,
	} {
		f := must.Have(os.Open(shared(t, "traces", file)))(t)
		defer f.Close()
		run, err := ReadCSV(file, File{file, f})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		checkRun(t, run)
		if len(run.Spans) != spans {
			t.Errorf("%s: %d spans, want %d; %v", file, len(run.Spans), spans, run.Ledger.Entries)
		}
		lost := map[string]int{"rocprofv3-docs-data/kernel_trace.csv": 4} // its authors left dispatches out
		if n := run.Ledger.Count(trace.Skipped) + run.Ledger.Count(trace.Repaired); n != lost[file] {
			t.Errorf("%s: ledger %v", file, run.Ledger.Entries)
		}
	}
}

// Dispatches are numbered without gaps: a file that begins late is whole, one that leaves numbers out is damaged.
func TestMissingDispatches(t *testing.T) {
	for ids, want := range map[string]string{"7 8 9": "[]", "7 9 20": "[11 kernels and copies cannot be read and are left out: dispatches whose numbers the file leaves out: times of idle are not known]"} {
		text := "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Dispatch_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n"
		for i, id := range strings.Fields(ids) {
			text += fmt.Sprintf("\"KERNEL_DISPATCH\",\"Agent 1\",\"1\",\"%s\",\"k\",\"%s\",\"%d000\",\"%d500\"\n", id, id, i+1, i+1)
		}
		run, err := ReadCSV("x", textFile("x_kernel_trace.csv", text))
		if err != nil || fmt.Sprint(run.Damage().Sentences) != want {
			t.Errorf("%s: %v, %v, want %s", ids, err, run, want)
		}
	}
	const lost = "dispatches whose numbers the file leaves out: times of idle are not known"
	text := strings.Replace(resultsJSON, `"kernel_id": 9}`, `"kernel_id": 9, "dispatch_id": 4}`, 1)
	run, err := ReadJSON(strings.NewReader(text), "x_results.json")
	if err != nil || !strings.Contains(fmt.Sprint(run.Damage().Sentences), "2 kernels and copies cannot be read and are left out: "+lost) {
		t.Errorf("JSON: %v, %v", err, run.Damage().Sentences)
	}
	path := sqldbtest.Create(t, "one.db", rocpdScript("_a", "{}", 80, 1000)+`
INSERT INTO rocpd_kernel_dispatch_a SELECT id + 9, guid, nid, pid, tid, agent_id, kernel_id, 4, queue_id, stream_id, start + 500, "end" + 500, 0, 512, 256, 1, 1, 1000, 1, 1, NULL, 2 FROM rocpd_kernel_dispatch_a;
CREATE VIEW rocpd_kernel_dispatch AS SELECT * FROM rocpd_kernel_dispatch_a;`)
	if run, err = readDB(path); err != nil || !strings.Contains(describe(run), "skipped "+path+": "+lost+" ×2") {
		t.Errorf("rocpd: %v, %v", err, describe(run))
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add(kernelCSV(2))
	f.Add([]byte("Domain,Function,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp\nRCCL_API,ncclGroupStart,1,2,3,4\nRCCL_API,ncclSend,1,2,5,4\nRCCL_API,ncclGroupEnd,1,2,9,19\n"))
	f.Add([]byte("Direction,Source_Agent_Id,Destination_Agent_Id,Start_Timestamp,End_Timestamp\nHOST_TO_DEVICE,Agent 0,4,9223372036854775807,1\nDEVICE_TO_DEVICE,,GPU 9999999999,0,5\n"))
	f.Add([]byte("Node_Id,Agent_Type,Logical_Node_Id,Cu_Count\n1,GPU,99999999999,-4\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, b, _ := bytes.Cut(text, []byte("\n\n\n"))
		files := []File{{"a_kernel_trace.csv", bytes.NewReader(a)}}
		if len(b) > 0 {
			files = append(files, File{"a_rccl_api_trace.csv", bytes.NewReader(b)})
		}
		if run, err := ReadCSV("fuzz", files...); err == nil {
			checkRun(t, run)
		}
	})
}

func BenchmarkReadCSV(b *testing.B) {
	text := kernelCSV(100000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		run, err := ReadCSV("bench", File{"k", bytes.NewReader(text)})
		if err != nil || len(run.Spans) != 100000 {
			b.Fatal(err)
		}
	}
}

func gunzip(t testing.TB, path string) io.ReadCloser {
	t.Helper()
	f := must.Have(os.Open(path))(t)
	t.Cleanup(func() { f.Close() })
	if filepath.Ext(path) != ".gz" {
		return f
	}
	return must.Have(gzip.NewReader(f))(t)
}
