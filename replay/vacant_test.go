package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// Every way for a slot to be vacant, on a GPU of two CUs that hold one
// workgroup of A, B, C or E each.
func TestWhySlotsAreVacant(t *testing.T) {
	p := &program.Program{}
	issued, remote := p.NewFlag("issued"), p.NewFlag("remote")
	uneven := kernel("A", 2, nil)
	uneven.Kernel.Recipe = func(wg int, buf []program.Phase) []program.Phase {
		return append(buf, program.Phase{Op: program.Work, Time: program.Time(10 + 20*wg)})
	}
	b := kernel("B", 2, work(10))
	b.Delay = 5
	small2 := kernel("C", 1, work(20), threads(4))
	whole := kernel("E", 2, work(10))
	p.GPUs = []program.GPU{
		{Streams: []program.Stream{
			{Name: "main", Commands: []program.Command{
				{Op: program.Wait, Flag: issued, Count: 1}, // 0-3
				uneven, // 3-13, 3-33
				b,      // 38-48
				{Op: program.Start, Copy: &program.Copy{Name: "fill", Time: 7, Free: true}}, // 48-55
				{Op: program.Wait, Flag: remote, Count: 1},                                  // 55-60
				small2, // CU 0, 60-80
			}},
			{Name: "side", Queue: 1, Commands: []program.Command{
				{Op: program.Wait, Flag: remote, Count: 1},
				{Op: program.Delay, Delay: 1, Why: program.LaunchGap},
				whole, // CU 1 from 61 to 71 and from 71 to 81
			}},
			{Name: "host", Host: true, Queue: 2, Commands: []program.Command{{Op: program.Delay, Delay: 3, Why: program.HostIssue}, {Op: program.Post, Flag: issued, Count: 1}}},
		}},
		{Streams: []program.Stream{{Name: "far", Commands: []program.Command{kernel("D", 1, work(60)), {Op: program.Post, Flag: remote, Count: 1}, kernel("D", 1, work(40))}}}},
	}
	const want = `
		CU 0.0 0-3 host: issued, posted by GPU 0 stream "host"
		CU 0.0 3-13 A
		CU 0.0 13-33 tail of A
		CU 0.0 33-38 launch before B
		CU 0.0 38-48 B
		CU 0.0 48-55 copy before C
		CU 0.0 55-60 peer skew: remote, posted by GPU 1 stream "far"
		CU 0.0 60-80 C
		CU 0.0 80-81 tail of E
		CU 0.0 81-100 no work
		CU 1.0 0-3 host: issued, posted by GPU 0 stream "host"
		CU 1.0 3-33 A
		CU 1.0 33-38 launch before B
		CU 1.0 38-48 B
		CU 1.0 48-55 copy before C
		CU 1.0 55-60 peer skew: remote, posted by GPU 1 stream "far"
		CU 1.0 60-61 tail of C
		CU 1.0 61-71 E
		CU 1.0 71-81 E
		CU 1.0 81-100 no work`
	r := mustSimulate(t, small(2, 2), p, Options{Level: Workgroups, Ranks: []int{0}})
	checkSlots(t, r, want)
}

// Halves of a CU: what half of it A leaves does not hold B.
func TestRoomIsNoSlot(t *testing.T) {
	a := kernel("A", 2, nil, threads(4), pipe(.5))
	a.Kernel.Recipe = func(wg int, buf []program.Phase) []program.Phase {
		return append(buf, program.Phase{Op: program.Work, Time: program.Time(10 + 20*wg)})
	}
	p := prog([]program.Stream{{Commands: []program.Command{a}}, {Commands: []program.Command{kernel("B", 1, work(10))}}})
	checkSlots(t, mustSimulate(t, small(1, 1), p, Options{Level: Workgroups}), `
		CU 0.0 0-10 A
		CU 0.0 10-30 no slot for B
		CU 0.0 30-40 B
		CU 0.1 0-30 A
		CU 0.1 30-40 tail of B`)
}

func checkSlots(t *testing.T, r *Result, want string) {
	t.Helper()
	var got []string
	for _, s := range r.Run.Spans {
		if l := r.Run.Lanes[s.Lane]; l.Kind == trace.Slot {
			got = append(got, fmt.Sprintf("CU %d.%d %d-%d %s", l.ID, l.Sub, s.Start, s.End, r.Run.NameOf(s)))
		}
	}
	slices.SortStableFunc(got, func(a, b string) int { return cmp.Compare(a[:6], b[:6]) })
	if diff := gocmp.Diff(trim(want), strings.Join(got, "\n")); diff != "" {
		t.Error(diff)
	}
}

// lanesOf lists the workgroup and vacant spans of each slot and persistent
// workgroup, but for tiles that take no time: they may lie on sub-lanes.
func lanesOf(r *trace.Run) map[trace.Lane][]trace.Span {
	lanes := map[trace.Lane][]trace.Span{}
	for _, s := range r.Spans {
		if l := r.Lanes[s.Lane]; (l.Kind == trace.Slot || l.Kind == trace.Persistent) && (s.Kind == trace.Workgroup && s.Start < s.End || s.Vacant()) {
			lanes[l] = append(lanes[l], s)
		}
	}
	return lanes
}

// Workgroups and vacant intervals cover the time of every recorded slot and
// persistent workgroup exactly; a slot may also be held by a persistent one.
func TestSlotsAreHeldOrVacant(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		_, _, r := drawRun(t, Options{Level: Workgroups})
		lanes := lanesOf(r.Run)
		for lane, spans := range lanes {
			for l, others := range lanes {
				if lane.Kind == trace.Slot && l.Kind == trace.Persistent && l.Rank == lane.Rank {
					for _, s := range others {
						if w := r.Run.Workgroup(s); w != nil && int64(w.CU) == lane.ID {
							spans = append(spans, s)
						}
					}
				}
			}
			slices.SortFunc(spans, func(a, b trace.Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
			var until, vacant program.Time
			for _, s := range spans {
				name := r.Run.NameOf(s)
				if s.Start > until {
					t.Fatalf("%s %d.%d: nothing known from %d to %d", lane.Kind, lane.ID, lane.Sub, until, s.Start)
				}
				if s.Vacant() && (s.Start < until && s.Start < vacant || s.Start == s.End || name == "") {
					t.Fatalf("%s %d.%d: %q from %d to %d, and known until %d", lane.Kind, lane.ID, lane.Sub, name, s.Start, s.End, until)
				}
				if s.Vacant() {
					vacant = s.End
				}
				until = max(until, s.End)
			}
			if until != r.Makespan {
				t.Fatalf("%s %d.%d: nothing known from %d to %d", lane.Kind, lane.ID, lane.Sub, until, r.Makespan)
			}
		}
	})
}

// A window records what begins in it, as the whole recording has it, and
// vacant intervals cut to it.
func TestWindow(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p, m, whole := drawRun(t, Options{Level: Phases})
		from := program.Time(rapid.IntRange(0, int(whole.Makespan)).Draw(t, "from"))
		to := from + program.Time(rapid.IntRange(1, int(whole.Makespan)+1).Draw(t, "length"))
		part, err := Simulate(m, p, Options{Level: Phases, From: from, To: to})
		if err != nil {
			t.Fatal(err)
		}
		text := func(r *trace.Run, s trace.Span) string {
			l := r.Lanes[s.Lane]
			return fmt.Sprintf("%s %q on rank %d %s %d.%d %d-%d", s.Kind, r.NameOf(s), l.Rank, l.Kind, l.ID, l.Sub, s.Start, s.End)
		}
		known := map[trace.Lane]bool{}
		for lane := range lanesOf(part.Run) {
			known[lane] = true
		}
		var got, want []string
		for _, s := range part.Run.Spans {
			if s.Kind == trace.Workgroup && s.Start < s.End || s.Vacant() {
				got = append(got, text(part.Run, s))
			}
		}
		for _, s := range whole.Run.Spans {
			switch {
			case s.Kind == trace.Workgroup && s.Start < s.End && s.Start >= from && s.Start < to:
				want = append(want, text(whole.Run, s))
			case s.Vacant() && known[whole.Run.Lanes[s.Lane]]:
				if s.Start, s.End = max(s.Start, from), min(s.End, to); s.Start < s.End {
					want = append(want, text(whole.Run, s))
				}
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("window %d to %d\n%s", from, to, differences(got, want))
		}
	})
}
