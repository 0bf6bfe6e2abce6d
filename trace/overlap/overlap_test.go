package overlap

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// TestMain gives random tests one seed, unless the command line gives another.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.seed", "1"); err != nil {
		panic(err)
	}
	m.Run()
}

var update = flag.Bool("update", false, "rewrite the expected files")

// Rank 2 computes for two columns more than the median rank, and the others wait for it for
// two and three columns, of which rank 0 computes during one.
func TestWaitedFor(t *testing.T) {
	const drawn = `
		gpu0/compute |AAAB........|
		gpu0/comm    |...CCCCCC...|
		gpu1/compute |AAAA........|
		gpu1/comm    |....CCCCC...|
		gpu2/compute |AAAAAA......|
		gpu2/comm    |......CCC...|`
	run := timeline(t, drawn)
	each := [][]Interval{slices.Repeat([]Interval{{0, 9 * column}}, 3)}
	const cost = 4 * column / 2
	want := &LateRank{
		Rank: 2, Cost: cost, Share: float64(cost) / float64(9*column), Least: cost, Most: cost, Last: 1, Iterations: 1,
		Cause: LateKernels, Longer: []longer{{"A", 3 * column, 1}}, Excess: 3 * column,
	}
	if diff := cmp.Diff(want, Collect(run).WaitedFor(each)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	each[0][2].Start = 6 * column // the late rank's own iteration is shorter
	if late := Collect(run).WaitedFor(each); late.Share != want.Share {
		t.Errorf("share %v, want %v: others wait in their own iterations", late.Share, want.Share)
	}
	each[0][2].Start = 0
	twice := timeline(t, drawn+`
		gpu0/more    |...DDDDDD...|
		gpu1/more    |....DDDDD...|
		gpu2/more    |......DDD...|`)
	if late := Collect(twice).WaitedFor(each); late.Cost != want.Cost || late.Share != want.Share {
		t.Errorf("in two collectives at a time: %+v, want those of one", late)
	}
	for i := range run.Spans {
		if k := run.Kernel(run.Spans[i]); k != nil && run.RankOf(run.Spans[i]) == 2 {
			run.Setups = []trace.Setup{{Grid: [3]int32{2, 1, 1}}}
			k.Setup = 1
		}
	}
	if late := Collect(run).WaitedFor(each); late == nil || late.Cause != LateWork || late.Other != 3*column {
		t.Errorf("another grid: %+v", late)
	}
	run.Ranks[1].Uncertainty = trace.None
	if late := Collect(run).WaitedFor(each); late != nil {
		t.Errorf("clocks cannot be compared: %+v", late)
	}
	if got := Measure(run).Ranks[0].Waiting; got != 0 {
		t.Errorf("clocks cannot be compared: waits for %d ns", got)
	}
}

// Stage 0 of a pipeline waits for stage 1 for six columns, four more than stage 1 waits for it in turn: of those the two
// that the work of stage 1 is longer are the cause.
func TestWaitedForInAPipeline(t *testing.T) {
	run := timeline(t, `
		gpu0/compute |AA........BB|
		gpu0/comm    |..CEEEEEEE..|
		gpu1/compute |...XXXXXX...|
		gpu1/comm    |CCC......E..|`)
	late := Collect(run).WaitedFor([][]Interval{{{0, 12 * column}, {0, 12 * column}}})
	if late == nil || late.Rank != 1 || late.Cost != 6*column || late.Cause != LateWork || late.Other != 2*column {
		t.Errorf("%+v", late)
	}
}

func TestSendsMatchReceives(t *testing.T) {
	var b trace.Builder
	group := b.AddGroup(trace.Group{Name: "pipeline", Size: 3})
	for id := range 3 {
		b.AddRank(trace.Rank{ID: id})
	}
	add := func(rank, peer int32, seq int64, start, end trace.Time) {
		comm := b.AddComm(trace.Comm{Op: trace.SendRecv, Group: group, Seq: seq, Peer: peer})
		b.Add(trace.Span{
			Start: start, End: end, Kind: trace.Collective, Parent: trace.None,
			Lane: b.Lane(trace.Lane{Kind: trace.Queue, Rank: rank, Peer: trace.None}),
			Attr: b.AddKernel(trace.Kernel{Comm: comm, Op: trace.None, Origin: trace.None}),
		})
	}
	add(0, 1, 0, 0, 10)
	add(1, 0, 0, 5, 12)
	add(1, 2, 1, 20, 30) // the second of rank 1, the first of rank 2
	add(2, 1, 0, 10, 31)
	m := Measure(b.Finish(trace.Options{}))
	if len(m.Collectives) != 2 || m.Collectives[0].Transfer != 5 || m.Collectives[1].Transfer != 10 || m.Collectives[1].Size != 2 {
		t.Errorf("%+v", m.Collectives)
	}
}

func TestJSON(t *testing.T) {
	m := Measure(timeline(t, `
		gpu0/host    |ab......c|
		gpu0/compute |.A......C|
		gpu0/comm    |..BBBBBB.|
		gpu1/compute |DDDDD....|
		gpu1/comm    |.....EEE.|`))
	got := must.Have(json.MarshalIndent(m, "", "\t"))(t)
	file := filepath.Join("testdata", "metrics.json")
	if *update {
		must.Do(t, os.WriteFile(file, append(got, '\n'), 0o666))
	}
	want := must.Have(os.ReadFile(file))(t)
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// drawTimeline draws rows at random, two ranks with two queues of each kind.
func drawTimeline(t *rapid.T) string {
	drawn := ""
	for _, gpu := range []string{"gpu0", "gpu1"} {
		for _, kind := range []string{"compute", "compute", "comm", "copy", "p2p", "host"} {
			letters := "AB."
			if kind == "host" {
				letters = "abs."
			}
			cells := rapid.StringOfN(rapid.SampledFrom([]rune(letters)), 30, 30, -1).Draw(t, gpu+"/"+kind)
			drawn += gpu + "/" + kind + " |" + cells + "|\n"
		}
	}
	return drawn
}

// The breakdown is that of a twin which looks at every column by itself.
func TestBreakdownTwin(t *testing.T) {
	rapidtest.Check(t, func(rt *rapid.T) {
		run := timeline(t, drawTimeline(rt))
		m := Measure(run)
		for row, r := range m.Ranks {
			want := slowBreakdown(run, int32(row))
			if diff := cmp.Diff(want, r.Breakdown); diff != "" {
				rt.Fatalf("rank %d (-want +got):\n%s", row, diff)
			}
			c := r.IdleCauses
			if sum := c.Host + c.Sync + c.Launch + c.Queued + c.Unknown; sum != r.Idle {
				rt.Fatalf("rank %d: causes of %d of %d idle", row, sum, r.Idle)
			}
			if r.Total != r.Times.Total() {
				rt.Fatalf("rank %d does not add up: %+v", row, r.Breakdown)
			}
		}
	})
}

func slowBreakdown(run *trace.Run, row int32) Breakdown {
	var b Breakdown
	first, last := trace.Infinity, trace.Time(0)
	for at := trace.Time(0); at < run.End; at++ {
		var on [trace.NumClasses + 1]bool
		transfers := false
		for _, s := range run.Spans {
			c := run.Class(s)
			if run.Lanes[s.Lane].Rank != row || c == trace.NoClass {
				continue
			}
			first, last = min(first, s.Start), max(last, s.End)
			is := s.Start <= at && at < s.End
			on[c] = on[c] || is
			x := run.Collective(s)
			transfers = transfers || is && c == trace.ClassCommunication && (x == nil || at >= x.Arrive)
		}
		count := func(sum *trace.Time, is bool) {
			if is {
				*sum++
			}
		}
		comp, comm, cop := on[trace.ClassCompute], on[trace.ClassCommunication], on[trace.ClassCopy]
		count(&b.Compute, comp)
		count(&b.Communication, comm)
		count(&b.Overlapped, comp && comm)
		count(&b.Exposed, comm && !comp)
		count(&b.Copy, cop)
		count(&b.OverlappedCopy, cop && comp && !comm)
		count(&b.Copies, cop && !comp && !comm)
		count(&b.Hidden, comp && transfers)
		count(&b.Transfer, !comp && transfers)
		count(&b.Waiting, !comp && comm && !transfers)
		count(&b.Idle, !cop && !comp && !comm && first <= at && at < last)
	}
	if first < last {
		b.Total = last - first
	}
	return b
}

// The critical path is a chain without holes that ends with the device work,
// and each of its steps lies in its operation or just before it.
func TestCriticalPathProperties(t *testing.T) {
	rapidtest.Check(t, func(rt *rapid.T) {
		run := timeline(t, drawTimeline(rt))
		p := Measure(run).CriticalPath
		var end trace.Time
		for _, s := range run.Spans {
			if run.Class(s) != trace.NoClass {
				end = max(end, s.End)
			}
		}
		if len(p.Steps) == 0 {
			if end > 0 {
				rt.Fatal("no path")
			}
			return
		}
		at := p.Steps[0].Start
		for i, s := range p.Steps {
			op := run.Spans[s.Span]
			if s.Start != at || s.End <= s.Start {
				rt.Fatalf("step %d %+v does not follow on %d", i, s, at)
			}
			switch s.Kind {
			case stepCompute, stepCollective, stepCopy:
				if s.Start < op.Start || s.End != op.End {
					rt.Fatalf("step %d %+v is outside of its operation %+v", i, s, op)
				}
			default:
				if s.End > op.Start {
					rt.Fatalf("gap %d %+v is not before its operation %+v", i, s, op)
				}
			}
			at = s.End
		}
		if at != end || p.Total != end-p.Steps[0].Start {
			rt.Fatalf("the path of %d ends at %d, work at %d", p.Total, at, end)
		}
	})
}

// What some intervals have outside of others is what they add to their union.
func TestCovered(t *testing.T) {
	late := []Interval{{Start: 10, End: 20}, {Start: 0, End: 5}, {Start: 18, End: 40}}
	busy := []Interval{{Start: 3, End: 12}, {Start: 30, End: 35}, {Start: 50, End: 50}}
	if got, want := Covered(append(late, busy...))-Covered(busy), trace.Time(3+18+5); got != want {
		t.Errorf("%v outside of %v: %d, want %d", late, busy, got, want)
	}
}
