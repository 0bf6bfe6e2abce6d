package rocprof

import (
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

const wgHeader = "Rank,Kernel_Name,Workgroup_Id,Persistent_Workgroup_Id,CU_Id,Destination_Rank,Start_Timestamp,Compute_End_Timestamp,End_Timestamp\n"

func readWG(t *testing.T, text string) *trace.Run {
	t.Helper()
	return must.Have(ReadWG(strings.NewReader(text), "wg.csv"))(t)
}

// draw renders the spans, one a line, in their order.
func draw(run *trace.Run) string {
	var b strings.Builder
	for _, s := range run.Spans {
		l := run.Lanes[s.Lane]
		b.WriteString(strings.Join([]string{
			l.Kind.String(), itoa(l.ID) + "." + itoa(int64(l.Sub)), s.Kind.String(), itoa(int64(s.Start)) + "-" + itoa(int64(s.End)),
		}, " "))
		if w := run.Workgroup(s); w != nil {
			b.WriteString(" #" + itoa(int64(w.ID)) + " to " + itoa(int64(w.Peer)))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestReadWGPersistent(t *testing.T) {
	run := readWG(t, wgHeader+
		`0,"k",0,0,7,1,100,160,180`+"\n"+
		`0,"k",1,1,8,0,100,200,200`+"\n"+
		`0,"k",2,0,7,0,190,250,260`+"\n")
	want := `queue 0.0 compute 0-160
workgroup 0.0 workgroup 0-80 #0 to 1
workgroup 1.0 workgroup 0-100 #1 to 0
workgroup 1.0 compute phase 0-100 #1 to 0
workgroup 0.0 compute phase 0-60 #0 to 1
workgroup 0.0 store 60-80 #0 to 1
workgroup 0.0 wait 80-90
workgroup 1.0 wait 100-160
workgroup 0.0 workgroup 90-160 #2 to 0
workgroup 0.0 compute phase 90-150 #2 to 0
workgroup 0.0 store 150-160 #2 to 0
`
	if got := draw(run); sorted(got) != sorted(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	var vacant []string
	for _, s := range run.Spans {
		if s.Vacant() {
			vacant = append(vacant, run.NameOf(s))
		}
	}
	if got, want := strings.Join(vacant, "; "), "between tiles; tail of k"; got != want {
		t.Errorf("vacant: %s, want %s", got, want)
	}
	if k := run.Setup(run.Kernel(run.Spans[0])); k.WGs() != 2 {
		t.Errorf("kernel of two persistent workgroups has %d", k.WGs())
	}
}

func TestReadWGSlots(t *testing.T) {
	run := readWG(t, "kernel_name,WORKGROUP_ID,cu_id,Tile_Row,Tile_Column,Start_Timestamp,Wait_End_Timestamp,End_Timestamp\r\n"+
		"k,1,4,0,1,10,30,40\r\n"+
		"k,0,4,0,0,10,10,20\r\n"+
		"k,2,4,1,0,20,20,50\r\n")
	want := `queue 0.0 compute 0-40
slot 4.0 workgroup 0-30 #1 to -1
slot 4.0 wait 0-20 #1 to -1
slot 4.0 compute phase 20-30 #1 to -1
slot 4.1 workgroup 0-10 #0 to -1
slot 4.1 compute phase 0-10 #0 to -1
slot 4.1 workgroup 10-40 #2 to -1
slot 4.1 compute phase 10-40 #2 to -1
`
	if got := draw(run); sorted(got) != sorted(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if n := len(run.Ledger.Entries); n != 0 {
		t.Errorf("several workgroups on a CU are not remarkable, but noted: %v", run.Ledger.Entries)
	}
}

func TestReadWGLaunches(t *testing.T) {
	run := readWG(t, wgHeader+"0,k,0,0,0,0,50,60,60\n0,k,0,0,0,0,10,20,20\n0,k,1,1,1,0,12,20,22\n")
	var kernels []trace.Time
	for _, s := range run.Spans {
		if s.Kind == trace.Compute {
			kernels = append(kernels, s.Start, s.End)
		}
	}
	if want := []trace.Time{0, 12, 40, 50}; !slices.Equal(kernels, want) {
		t.Errorf("launches at %v, want %v", kernels, want)
	}
}

// The order of lines changes nothing.
func TestReadWGOrder(t *testing.T) {
	lines := []string{"0,a,0,0,0,0,5,9,9", "1,b,0,0,0,0,4,9,9", "0,b,1,0,3,0,9,19,20", "0,b,0,0,3,0,5,8,9"}
	want := draw(readWG(t, wgHeader+strings.Join(lines, "\n")))
	slices.Reverse(lines)
	if got := draw(readWG(t, wgHeader+strings.Join(lines, "\n"))); got != want {
		t.Errorf("reversed lines give\n%sinstead of\n%s", got, want)
	}
}

func TestReadWGLedger(t *testing.T) {
	run := readWG(t, wgHeader+
		"0,k,0,0,0,0,10,12,20\n"+
		"0,k,1,1,0,0,20,15,10\n"+ // line 3
		"0,k,2,2,0,0,x,15,30\n"+ // line 4
		"\n"+
		"0,k,3,3,0,0,20,99,30\n"+ // line 6
		"0,k,4\n"+ // line 7
		"0,k,5,5,0,0,-1,5,9223372036854775807\n") // line 8
	got := map[string][]int64{}
	for _, e := range run.Ledger.Entries {
		got[e.Action.String()+" "+e.Reason] = e.Positions
	}
	for reason, line := range map[string]int64{
		"repaired ends before it starts: clamped to zero duration":       3,
		"skipped start, end or workgroup id is not a number":             4,
		"repaired its phase ends before or after it: shown as one phase": 6,
		"skipped row with more or fewer fields than the header":          7,
		"skipped start or end is not a time":                             8,
	} {
		if p := got[reason]; len(p) == 0 || p[len(p)-1] != line {
			t.Errorf("%s: lines %v, want %d; ledger: %v", reason, p, line, got)
		}
	}
}

func TestReadWGErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "wg.csv: no header: the file is empty"},
		{"column", "Rank,Kernel_Name,Workgroup_Id,Start_Timestamp\n", `wg.csv:line 1: no column end_timestamp; the header is "Rank,Kernel_Name,Workgroup_Id,Start_Timestamp" (a workgroup trace has Kernel_Name, Workgroup_Id, Start_Timestamp and End_Timestamp)`},
		{"no rows", wgHeader, "wg.csv: no row holds a workgroup: nothing with a time"},
		{"quote", wgHeader + "0,\"k,0,0,0,0,10,12,20\n", `wg.csv:line 2: quote never closed: "\"k,0,0,0,0,10,12,20\n" (the file may be cut short)`},
	} {
		_, err := ReadWG(strings.NewReader(c.text), "wg.csv")
		var syntax *trace.SyntaxError
		if !errors.As(err, &syntax) || err.Error() != c.want {
			t.Errorf("%s: error %v, want %s", c.name, err, c.want)
		}
	}
}

// shared is the folder with captured traces beside the checkout.
func shared(t testing.TB, elem ...string) string {
	path := filepath.Join(append([]string{"..", "..", "..", "shared", "data"}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%v: needs the captured traces beside the checkout", err)
	}
	return path
}

func TestReadWGCaptured(t *testing.T) {
	for _, c := range []struct {
		file                  string
		rows, lanes, computes int
		kind                  trace.LaneKind
		second                trace.Kind
	}{
		{"gemm_moe_down_fused_aware_rank0", 1024, 132, 1024, trace.Persistent, trace.PhaseStore},
		{"gemm_moe_down_plain_grid_rank0", 1024, 132, 1024, trace.Slot, trace.PhaseStore},
		{"mlp_b512_row_consumer_rank0", 384, 384, 384, trace.Slot, trace.PhaseWait},
	} {
		f := must.Have(os.Open(shared(t, "h200", "wg", c.file+"_wg_trace.csv.gz")))(t)
		defer f.Close()
		z := must.Have(gzip.NewReader(f))(t)
		run := must.Have(ReadWG(z, c.file))(t)
		count := map[trace.Kind]int{}
		lanes := map[trace.LaneID]bool{}
		for _, s := range run.Spans {
			count[s.Kind]++
			if s.Kind == trace.Workgroup {
				lanes[s.Lane] = true
				if k := run.Lanes[s.Lane].Kind; k != c.kind {
					t.Fatalf("%s: a workgroup on a lane of kind %s", c.file, k)
				}
				if p := run.Spans[s.Parent]; p.Kind != trace.Compute || p.Start > s.Start || p.End < s.End {
					t.Fatalf("%s: workgroup outside its kernel", c.file)
				}
			}
		}
		if count[trace.Workgroup] != c.rows || count[trace.Compute] != 1 || count[c.second] == 0 || len(lanes) > c.lanes {
			t.Errorf("%s: %v on %d lanes", c.file, count, len(lanes))
		}
		if len(run.Ledger.Entries) != 0 {
			t.Errorf("%s: ledger %v", c.file, run.Ledger.Entries)
		}
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func sorted(lines string) string {
	s := strings.Split(lines, "\n")
	slices.Sort(s)
	return strings.Join(s, "\n")
}

// TestReadWGSameID: where all rows have one workgroup id, launches are what gaps in time
// separate, and not one launch for each row.
func TestReadWGSameID(t *testing.T) {
	var once, damaged strings.Builder
	for launch := range 2 {
		for i := range 100 {
			start := 1000*launch + i%10
			for j, b := range []*strings.Builder{&once, &damaged} {
				fmt.Fprintf(b, "0,k,%d,,%d,0,%d,%d,%d\n", i*(1-j), i, start, start+50, start+60)
			}
		}
	}
	count := func(run *trace.Run) (kernels, workgroups int) {
		for _, s := range run.Spans {
			switch s.Kind {
			case trace.Compute:
				kernels++
			case trace.Workgroup:
				workgroups++
			}
		}
		return kernels, workgroups
	}
	for text, share := range map[string]float64{once.String(): 0, damaged.String(): 1, once.String() + once.String(): 1} {
		run := readWG(t, wgHeader+text)
		if kernels, workgroups := count(run); kernels != 2 || workgroups != 200 {
			t.Errorf("%d kernels of %d workgroups", kernels, workgroups)
		}
		if got := run.Damage().Share(); got != share {
			t.Errorf("damaged: %v, want %v", got, share)
		}
	}
}
