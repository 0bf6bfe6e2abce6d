package rocprof

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
)

var _ = flag.Bool("update", false, "rewrite the answers of scripts")

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

// shown adds collectives, waits and nodes of graphs to what describe says.
func shown(run *trace.Run) string {
	var b strings.Builder
	b.WriteString(describe(run))
	for _, r := range run.Ranks {
		if r.NodeGPUs > 0 || r.Device.CUs > 0 || r.World > 0 {
			fmt.Fprintf(&b, "rank %d of %d: %d GPUs of the node, %d CUs\n", r.ID, r.World, r.NodeGPUs, r.Device.CUs)
		}
	}
	for _, c := range run.Comms {
		fmt.Fprintf(&b, "%s #%d in %d out %d %s of %d bytes, peer %d", c.Op, c.Seq, c.In, c.Out, c.DType, c.ElemSize, c.Peer)
		if c.Group != trace.None {
			fmt.Fprintf(&b, ", %s of %d", run.Groups[c.Group].Name, run.Groups[c.Group].Size)
		}
		b.WriteString("\n")
	}
	for _, w := range run.Waits {
		fmt.Fprintf(&b, "device %d stream %d waits %d-%d for stream %d, record %d by %d, wait %d by %d\n", w.Device, w.Stream, w.Start, w.End, w.On, w.Record, w.Recorded, w.Correlation, w.Call)
	}
	for _, n := range run.Nodes {
		launch := "nobody"
		if at := run.LaunchOf(run.Spans[n.Span]); at != trace.None {
			launch = fmt.Sprintf("%s at %d", run.NameOf(run.Spans[at]), run.Spans[at].Start)
		}
		fmt.Fprintf(&b, "node %d of graph %d: %q at %d, launched by %s\n", n.Number, n.Graph, run.NameOf(run.Spans[n.Span]), run.Spans[n.Span].Start, launch)
	}
	for _, sentence := range run.Damage().Sentences {
		fmt.Fprintf(&b, "damage: %s\n", sentence)
	}
	return b.String()
}

func textFile(name, text string) File { return File{name, strings.NewReader(text)} }

// Scripts of tables of rocprof: "file" is a table by the name of its file, "read" shows what those since the last "read" hold.
func TestReadCSV(t *testing.T) {
	scripttest.Run(t, "testdata/csv.txt", func(testing.TB) scripttest.Handler {
		var files []File
		return func(t testing.TB, c scripttest.Call) string {
			if c.Name == "file" {
				files = append(files, textFile(c.Text, c.Input))
				return ""
			}
			run, err := ReadCSV("test", files...)
			if files = nil; err != nil {
				return err.Error()
			}
			checkRun(t, run)
			return shown(run)
		}
	})
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
