package assemble

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// A team is a group and the ends of its all-reduces on a rank's own clock.
type team struct {
	group trace.Group
	ends  []trace.Time
}

// teamRun is a run of one rank, whose clock reads 0 at epoch, that took part in collectives.
func teamRun(id, world int, epoch int64, teams ...team) *trace.Run {
	var b trace.Builder
	file := fmt.Sprintf("rank%d.json", id)
	row := b.AddRank(trace.Rank{ID: id, World: world, Source: file})
	b.Add(trace.Span{Start: 0, End: 1, Name: b.Intern("first"), Lane: b.Lane(trace.Lane{Rank: row, Peer: trace.None}), Parent: trace.None, Attr: trace.None})
	for stream, t := range teams {
		lane, group := b.Lane(trace.Lane{Kind: trace.Queue, Rank: row, ID: int64(stream), Peer: trace.None}), b.AddGroup(t.group)
		for i, end := range t.ends {
			c := b.AddComm(trace.Comm{Op: trace.AllReduce, Group: group, Seq: int64(i), Peer: trace.None})
			k := b.AddKernel(trace.Kernel{Comm: c, Op: trace.None, Origin: trace.None})
			b.Add(trace.Span{Start: end - 10, End: end, Name: b.Intern("nccl"), Lane: lane, Parent: trace.None, Attr: k, Kind: trace.Collective})
		}
	}
	return b.Finish(trace.Options{Name: file, Epoch: epoch})
}

// rankRun is a teamRun in one group of all ranks.
func rankRun(id, world int, epoch int64, ends ...trace.Time) *trace.Run {
	return teamRun(id, world, epoch, team{trace.Group{Name: "0", Ranks: []int{0, 1, 2}, Size: 3}, ends})
}

const us = trace.Time(time.Microsecond)

func TestMergeClocks(t *testing.T) {
	type want struct{ shift, uncertainty trace.Time }
	for _, c := range []struct {
		name string
		runs []*trace.Run
		want []want // of ranks 1, 2, ...
	}{
		{
			"one clock: what ends together differs a little",
			[]*trace.Run{rankRun(0, 2, 1e18, 1000*us, 2000*us, 3000*us), rankRun(1, 2, 1e18, 1001*us, 1998*us, 3003*us)},
			[]want{{0, 2 * us}},
		},
		{
			"one clock, files that begin at different times",
			[]*trace.Run{rankRun(0, 2, 1e18, 1000*us, 2000*us, 3000*us), rankRun(1, 2, 1e18+int64(500*us), 500*us, 1500*us, 2500*us)},
			[]want{{0, 0}},
		},
		{
			"another node's clock: off by the same amount again and again",
			[]*trace.Run{rankRun(0, 2, 1e18, 1000*us, 2000*us, 3000*us), rankRun(1, 2, 1e18, 5000*us, 6001*us, 6999*us)},
			[]want{{-4000 * us, us}},
		},
		{
			"too few to go by",
			[]*trace.Run{rankRun(0, 2, 1e18, 1000*us), rankRun(1, 2, 1e18, 1050*us)},
			[]want{{0, 50 * us}},
		},
		{
			"no clock at all: aligned on the ends",
			[]*trace.Run{rankRun(0, 2, 0, 1000*us, 2000*us, 3000*us), rankRun(1, 2, 0, 4000*us, 5000*us, 6000*us)},
			[]want{{-3000 * us, 0}},
		},
		{
			"nothing in common",
			[]*trace.Run{rankRun(0, 2, 1e18, 1000*us), rankRun(1, 2, 1e18)},
			[]want{{0, trace.None}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 {
				run := must.Have(Join(c.runs, "job"))(t)
				for i, w := range c.want {
					if got := (want{run.Ranks[i+1].Shift, run.Ranks[i+1].Uncertainty}); got != w {
						t.Errorf("rank %d: got %v, want %v", i+1, got, w)
					}
				}
				slices.Reverse(c.runs) // the input order does not matter
			}
		})
	}
}

// A message's members end together where the receiver waited for it. A send that the library holds for
// a receiver that comes later says nothing, however many there are.
func TestMergeClocksByMessages(t *testing.T) {
	type span struct{ start, end trace.Time }
	rank := func(id int, off trace.Time, sends, receives []span) *trace.Run {
		var b trace.Builder
		row := b.AddRank(trace.Rank{ID: id, World: 2, Source: fmt.Sprint(id)})
		lane, group := b.Lane(trace.Lane{Kind: trace.Queue, Rank: row, Peer: trace.None}), b.AddGroup(trace.Group{Name: "0", Ranks: []int{0, 1}, Size: 2})
		b.Add(trace.Span{Start: 0, End: 1, Name: b.Intern("first"), Lane: b.Lane(trace.Lane{Rank: row, Peer: trace.None}), Parent: trace.None, Attr: trace.None})
		add := func(list []span, in, out int64) {
			for _, s := range list {
				c := b.AddComm(trace.Comm{Op: trace.SendRecv, Group: group, In: in, Out: out, Peer: int32(1 - id)})
				k := b.AddKernel(trace.Kernel{Comm: c, Op: trace.None, Origin: trace.None})
				b.Add(trace.Span{Start: s.start*us + off, End: s.end*us + off, Name: b.Intern("nccl"), Lane: lane, Parent: trace.None, Attr: k, Kind: trace.Collective})
			}
		}
		add(sends, 64, 0)
		add(receives, 0, 64)
		return b.Finish(trace.Options{Name: fmt.Sprint(id), Epoch: 1e18})
	}
	for _, off := range []trace.Time{0, 300 * us} {
		run := must.Have(Join([]*trace.Run{
			rank(0, 0, []span{{100, 150}, {300, 350}, {500, 550}, {700, 750}, {800, 850}}, []span{{900, 1050}, {1100, 1250}, {1300, 1450}}),
			rank(1, off, []span{{1000, 1050}, {1200, 1250}, {1400, 1450}}, []span{{600, 630}, {640, 670}, {680, 710}, {2000, 2030}, {2040, 2070}}),
		}, "job"))(t)
		if got := run.Ranks[1]; got.Shift != -off || got.Uncertainty != 0 {
			t.Errorf("clock off by %d: shift %d, uncertainty %d", off, got.Shift, got.Uncertainty)
		}
	}
}

// Rank 2 shares no collective with rank 0, but one with rank 1, which shares one with
// rank 0. Groups of different ranks may have the same name, as tensor-parallel groups
// do.
func TestMergeAlignsThroughOthers(t *testing.T) {
	ends := func(offset trace.Time) []trace.Time {
		return []trace.Time{offset + 1000*us, offset + 2000*us, offset + 3000*us}
	}
	run := must.Have(Join([]*trace.Run{
		teamRun(0, 4, 1e18, team{trace.Group{Name: "tp", Ranks: []int{0, 1}}, ends(0)}),
		teamRun(1, 4, 1e18, team{trace.Group{Name: "tp", Ranks: []int{0, 1}}, ends(200 * us)}, team{trace.Group{Name: "dp", Ranks: []int{1, 2}}, ends(0)}),
		teamRun(2, 4, 1e18, team{trace.Group{Name: "tp", Ranks: []int{2, 3}}, ends(9000 * us)}, team{trace.Group{Name: "dp", Ranks: []int{1, 2}}, ends(500 * us)}),
		teamRun(3, 4, 1e18),
	}, ""))(t)
	var shifts []trace.Time
	for _, k := range run.Ranks {
		shifts = append(shifts, k.Shift)
	}
	if want := []trace.Time{0, -200 * us, -700 * us, 0}; !slices.Equal(shifts, want) {
		t.Errorf("got %v, want %v", shifts, want)
	}
	if !strings.Contains(ledger(run), "rank 3: no collective in common") {
		t.Error(ledger(run))
	}
}

// A profile that begins one collective earlier counts one more. On a common clock the
// offset is found; the numbers then agree and the clock is not shifted.
func TestMergeNumbersCollectivesAlike(t *testing.T) {
	ends := func(from, to int) (e []trace.Time) {
		for i := from; i < to; i++ {
			e = append(e, trace.Time(i)*1000*us)
		}
		return e
	}
	early, late := rankRun(0, 3, 1e18, ends(1, 20)...), rankRun(1, 3, 1e18, ends(3, 22)...)
	earliest := rankRun(2, 3, 1e18, ends(0, 19)...)
	run := must.Have(Join([]*trace.Run{late, early, earliest}, ""))(t)
	at := map[int64]trace.Time{}
	for _, s := range run.Spans {
		if c := run.Comm(s); c != nil {
			if first, ok := at[c.Seq]; ok && first != s.End {
				t.Errorf("number %d ends at %v and at %v", c.Seq, first, s.End)
			}
			at[c.Seq] = s.End
		}
	}
	if _, ok := at[0]; !ok || len(at) != 22 {
		t.Errorf("numbers %v", at)
	}
	for _, k := range run.Ranks {
		if k.Shift != 0 || k.Uncertainty != 0 {
			t.Errorf("rank %d: shift %v, uncertainty %v", k.ID, k.Shift, k.Uncertainty)
		}
	}
	if l := ledger(run); !strings.Contains(l, "rank 1: its profile starts with a different") || !strings.Contains(l, "rank 2: its profile") || strings.Contains(l, "rank 0:") {
		t.Error(l)
	}
}

func ledger(r *trace.Run) string {
	var b strings.Builder
	for _, e := range r.Ledger.Entries {
		fmt.Fprintf(&b, "%s %s: %s ×%d\n", e.Action, e.File, e.Reason, e.Count)
	}
	return b.String()
}

func TestMergeRanks(t *testing.T) {
	_, err := Join([]*trace.Run{rankRun(1, 2, 0), rankRun(0, 2, 0), rankRun(1, 2, 0)}, "")
	if want := "rank1.json: rank 1 is also in rank1.json (give one file per rank, all of the same profiled window)"; err == nil || err.Error() != want {
		t.Errorf("two of a rank: got %v, want %s", err, want)
	}
	for _, n := range []int{1, 3} {
		var runs []*trace.Run
		for id := range n {
			runs = append(runs, rankRun(id, 8, 1e18, 1000*us))
		}
		run := must.Have(Join(runs, "job"))(t)
		if want := fmt.Sprintf("noted job: the job has 8 ranks, there are files for %d ×1\n", n); !strings.Contains(ledger(run), want) || run.Name != "job" {
			t.Errorf("%d of 8: %s", n, ledger(run))
		}
	}
	var unnamed []*trace.Run
	for _, file := range []string{"trace-10.json", "trace-9.json", "trace-9b.json"} {
		r := rankRun(trace.None, 0, 1e18)
		r.Name, r.Ranks[0].Source = file, file
		unnamed = append(unnamed, r)
	}
	run := must.Have(Join(unnamed, ""))(t)
	var got []string
	for _, k := range run.Ranks {
		got = append(got, fmt.Sprint(k.ID, " ", k.Source))
	}
	if want := []string{"0 trace-9.json", "1 trace-9b.json", "2 trace-10.json"}; !slices.Equal(got, want) {
		t.Errorf("unnumbered: got %q, want %q", got, want)
	}
}

// Times outside the valid range are an error, not an overflow.
func TestMergeYearsApart(t *testing.T) {
	for _, far := range []*trace.Run{rankRun(1, 2, int64(trace.Infinity)-20), rankRun(1, 2, 1, trace.Infinity-20)} {
		_, err := Join([]*trace.Run{rankRun(0, 2, 1), far}, "")
		if err == nil || !strings.HasPrefix(err.Error(), "rank1.json: its times are up to ") {
			t.Errorf("%v", err)
		}
	}
}

// TestMergeKeepsEverything: each span of the merged run keeps its row, names and
// parent, and starts at the time of its clock.
func TestMergeKeepsEverything(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		var runs []*trace.Run
		var want []string
		for id := range rapid.IntRange(2, 4).Draw(t, "ranks") {
			epoch := rapid.Int64Range(1, int64(mostApart)/2).Draw(t, "epoch")
			r := richRun(t, id, epoch)
			runs = append(runs, r)
			want = append(want, resolved(r)...)
		}
		m := must.Have(Join(runs, ""))(t)
		got := resolved(m)
		slices.Sort(got)
		slices.Sort(want)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
		if len(runs[0].Spans) > 0 && m.Spans[0].Start != 0 {
			t.Fatal("the first span is not at 0")
		}
	})
}

// richRun draws a run with rows in every table, without collectives.
func richRun(t *rapid.T, id int, epoch int64) *trace.Run {
	var b trace.Builder
	row := b.AddRank(trace.Rank{ID: id})
	pick := rapid.SampledFrom([]string{"a", "b", "c"})
	op := b.AddOperator(trace.Operator{Name: pick.Draw(t, "op"), Dims: [][]int64{{int64(id)}}})
	group := b.AddGroup(trace.Group{Name: pick.Draw(t, "group"), Size: 2})
	lane := func(k trace.LaneKind) trace.LaneID {
		return b.Lane(trace.Lane{Kind: k, Rank: row, ID: rapid.Int64Range(0, 2).Draw(t, "lane"), Peer: trace.None, Name: pick.Draw(t, "lane")})
	}
	at := func() (start, end trace.Time) {
		start = trace.Time(rapid.Int64Range(0, 1000).Draw(t, "start"))
		return start, start + trace.Time(rapid.Int64Range(0, 100).Draw(t, "dur"))
	}
	for range rapid.IntRange(1, 8).Draw(t, "spans") {
		start, end := at()
		s := trace.Span{Start: start, End: end, Name: b.Intern(pick.Draw(t, "name")), Parent: trace.None, Attr: trace.None}
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			s.Kind, s.Lane = trace.HostCall, lane(trace.HostThread)
			s.Attr = b.AddCall(trace.Call{Correlation: int64(start), Op: op})
		case 1:
			s.Kind, s.Lane = trace.Collective, lane(trace.Queue)
			s.Attr = b.AddKernel(trace.Kernel{Op: op, Origin: trace.None, Comm: b.AddComm(trace.Comm{Op: trace.Broadcast, Group: group, Seq: int64(start)})})
		case 2:
			s.Kind, s.Lane = trace.Copy, lane(trace.Queue)
			s.Attr = b.AddCopy(trace.CopyAttr{Bytes: int64(start), Op: op})
		case 3:
			s.Kind, s.Lane = trace.Workgroup, lane(trace.Slot)
			s.Attr = b.AddWorkgroup(trace.WorkgroupAttr{ID: int32(start)})
			p := b.Add(s)
			s.Kind, s.Parent = trace.PhaseWait, p
		}
		b.Add(s)
	}
	return b.Finish(trace.Options{Epoch: epoch})
}

// resolved prints every span with the values that its indices refer to, at absolute
// times.
func resolved(r *trace.Run) []string {
	var out []string
	for _, s := range r.Spans {
		lane := r.Lanes[s.Lane]
		line := fmt.Sprint(int64(s.Start)+r.Epoch, " ", s.Dur(), " rank ", r.Ranks[lane.Rank].ID, " ", lane.Kind, lane.ID, " ", s.Kind, " ", r.NameOf(s))
		op := int32(trace.None)
		if k := r.Kernel(s); k != nil {
			c := r.Comm(s)
			line += fmt.Sprint(" ", c.Seq, r.Groups[c.Group])
			op = k.Op
		}
		if c := r.Copy(s); c != nil {
			line += fmt.Sprint(" ", c.Bytes)
			op = c.Op
		}
		if s.Kind == trace.HostCall {
			line += fmt.Sprint(" ", r.Calls[s.Attr].Correlation)
			op = r.Calls[s.Attr].Op
		}
		if w := r.Workgroup(s); w != nil {
			line += fmt.Sprint(" ", w.ID)
		}
		if op != trace.None {
			line += fmt.Sprint(" ", r.Operators[op])
		}
		if s.Parent != trace.None {
			p := r.Spans[s.Parent]
			line += fmt.Sprint(" in ", r.NameOf(p), int64(p.Start)+r.Epoch, r.Workgroup(p).ID)
		}
		out = append(out, line)
	}
	return out
}

func TestRoughly(t *testing.T) {
	for gap, want := range map[trace.Time]string{
		1_500_000_000:             "1.5s",
		36_000_790_633_355:        "10h0m1s",
		8_804_374_246_752_279_000: "101902 days",
	} {
		if got := trace.Roughly(gap); got != want {
			t.Errorf("%d: %s, want %s", gap, got, want)
		}
	}
}

// Levels of memory are shifted with the spans of their rank.
func TestMergeMemory(t *testing.T) {
	ends := func(offset trace.Time) []trace.Time {
		return []trace.Time{offset + 1000*us, offset + 2000*us, offset + 3000*us}
	}
	var runs []*trace.Run
	for rank, offset := range []trace.Time{0, 200 * us} {
		r := teamRun(rank, 2, 1e18, team{trace.Group{Name: "tp", Ranks: []int{0, 1}}, ends(offset)})
		r.Ranks[0].Memory = []trace.MemoryLevel{{At: r.Spans[0].Start, Bytes: int64(rank + 1)}, {At: r.Spans[1].End, Bytes: 7}}
		runs = append(runs, r)
	}
	run := must.Have(Join(runs, ""))(t)
	if run.Ranks[1].Shift == 0 {
		t.Fatal("nothing is shifted")
	}
	for row := range run.Ranks {
		var own []trace.Span
		for _, s := range run.Spans {
			if run.RankOf(s) == row {
				own = append(own, s)
			}
		}
		want := []trace.MemoryLevel{{At: own[0].Start, Bytes: int64(row + 1)}, {At: own[1].End, Bytes: 7}}
		if !slices.Equal(run.Ranks[row].Memory, want) {
			t.Errorf("rank %d: %v, not %v", row, run.Ranks[row].Memory, want)
		}
	}
}
