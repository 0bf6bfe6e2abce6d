package replay

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

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
		part := must.Have(Simulate(m, p, Options{Level: Phases, From: from, To: to}))(t)
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
