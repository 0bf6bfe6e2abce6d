package format

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/scripttest"
)

var _ = flag.Bool("update", false, "rewrite the answers of scripts")

func lift(t testing.TB, json string) *trace.Run {
	t.Helper()
	run := must.Have(chrome.Read(strings.NewReader(json), chrome.Options{File: "t.json"}))(t)
	return liftStamps(run)
}

func describe(run *trace.Run) string {
	var b strings.Builder
	for _, s := range run.Spans {
		l := run.Lanes[s.Lane]
		fmt.Fprintf(&b, "%d %s %d.%d %s %q %d-%d", run.Ranks[l.Rank].ID, l.Kind, l.ID, l.Sub, s.Kind, run.NameOf(s), s.Start, s.End)
		if k := run.Kernel(s); k != nil {
			fmt.Fprintf(&b, " of %d", run.Setup(k).WGs())
		}
		if c := run.Comm(s); c != nil {
			fmt.Fprintf(&b, " %s", c.Op)
		}
		if w := run.Workgroup(s); w != nil {
			fmt.Fprintf(&b, " #%d on %d", w.ID, w.CU)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Scripts of what profilers record inside of kernels: "lift" reads a trace and shows its spans.
func TestLiftScripts(t *testing.T) {
	scripttest.Run(t, "testdata/intra.txt", func(testing.TB) scripttest.Handler {
		return func(t testing.TB, c scripttest.Call) string { return describe(lift(t, c.Input)) }
	})
}

// 12,352 slices on 32 warps of four blocks.
func TestLiftCaptured(t *testing.T) {
	path := filepath.Join("..", "..", "..", "shared", "data", "traces", "intra-kernel-profiler", "gemm_trace.json")
	f, err := os.Open(path)
	if err != nil {
		t.Skipf("%v: needs the captured traces beside the checkout", err)
	}
	defer f.Close()
	read := must.Have(chrome.Read(f, chrome.Options{File: path}))(t)
	run := liftStamps(read)
	n := map[trace.Kind]int{}
	for _, s := range run.Spans {
		n[s.Kind]++
		if s.Parent != trace.None && (run.Spans[s.Parent].Start > s.Start || run.Spans[s.Parent].End < s.End) {
			t.Fatalf("%v is outside of its parent", s)
		}
	}
	if len(run.Spans) != 12352+1 || n[trace.Workgroup] != 32 || n[trace.Compute] != 1 || n[trace.Marker] != 0 {
		t.Errorf("%d spans: %v", len(run.Spans), n)
	}
	if run.End != read.End/1000 || run.Setups[0].WGs() != 4 {
		t.Errorf("%d ns, %d workgroups", run.End, run.Setups[0].WGs())
	}
}

// Whatever tracks are called, nothing is lost: slices are spans, and workgroups hold theirs.
func FuzzLift(f *testing.F) {
	f.Add("sm 1 · block 2 warp 3", "total", int64(1000), int64(2000), int64(1500), int64(1600))
	f.Add("k Core1 CTA99999999999 · warp 2", "", int64(0), int64(0), int64(0), int64(5))
	f.Add("process 3", "NPKIT_EVENT_SEND", int64(1), int64(9), int64(3), int64(12))
	f.Add("block 7", "wait", int64(7), int64(7), int64(7), int64(7))
	f.Fuzz(func(t *testing.T, lane, name string, a, b, c, d int64) {
		if name == "kernel" || strings.HasPrefix(lane, name+" Core") {
			return // as a workgroup may be called that has no slice around it
		}
		var builder trace.Builder
		builder.AddRank(trace.Rank{ID: trace.None})
		for i, at := range [][2]int64{{a, b}, {c, d}} {
			if at[0] < 0 || at[1] < at[0] || at[1] > 1<<50 {
				return
			}
			builder.Add(trace.Span{
				Start: trace.Time(at[0]), End: trace.Time(at[1]), Name: builder.Intern(name), Parent: trace.None, Attr: trace.None,
				Lane: builder.Lane(trace.Lane{Kind: trace.HostThread, ID: int64(i), Peer: trace.None, Name: lane}),
			})
		}
		read := builder.Finish(trace.Options{})
		run := liftStamps(read)
		slices := 0
		for _, s := range run.Spans {
			if s.Kind == trace.Marker || s.Kind.InKernel() && s.Kind != trace.Workgroup {
				slices++
			}
			if p := s.Parent; p != trace.None && (run.Spans[p].Start > s.Start || run.Spans[p].End < s.End) {
				t.Fatalf("%+v is outside of its parent %+v", s, run.Spans[p])
			}
			if s.Kind == trace.Workgroup && run.NameOf(s) != run.NameOf(run.Spans[s.Parent]) {
				slices++ // the slice around all others
			}
		}
		if slices < len(read.Spans) {
			t.Fatalf("%d of %d slices", slices, len(read.Spans))
		}
	})
}

// Where a report has fewer collectives of one device, its last ones are those of the other device.
func TestCollectivesOfTwoDevices(t *testing.T) {
	run := lift(t, `{"traceEvents":[
		{"ph":"M","name":"process_name","pid":5,"args":{"name":"sm 5"}},
		{"ph":"M","name":"thread_name","pid":5,"tid":0,"args":{"name":"block 2 warp 1"}},
		{"ph":"M","name":"process_name","pid":9,"args":{"name":"[NSys] NCCL"}},
		{"ph":"M","name":"thread_name","pid":9,"tid":0,"args":{"name":"device 0"}},
		{"ph":"M","name":"thread_name","pid":9,"tid":1,"args":{"name":"device 1"}},
		{"ph":"X","name":"total","pid":5,"tid":0,"ts":3000,"dur":1000},
		{"ph":"X","name":"load","pid":5,"tid":0,"ts":3000,"dur":500},
		{"ph":"X","name":"mma","pid":5,"tid":0,"ts":3500,"dur":500},
		{"ph":"X","name":"AllGather  [1us]","pid":9,"tid":0,"ts":1000,"dur":1000,"args":{"device":0}},
		{"ph":"X","name":"AllGather  [5us]","pid":9,"tid":0,"ts":5000,"dur":5000,"args":{"device":0}},
		{"ph":"X","name":"AllGather  [2us]","pid":9,"tid":1,"ts":8000,"dur":2000,"args":{"device":1}}]}`)
	var got []string
	for _, c := range run.Collectives {
		got = append(got, fmt.Sprintf("%d members, %d ns", len(c.Members), c.Transfer))
	}
	if want := "[1 members, 1000 ns 2 members, 2000 ns]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}
