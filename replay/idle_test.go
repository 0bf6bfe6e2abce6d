package replay

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/rapidtest"
)

// The kernels and copies of a stream and its idle intervals cover the time
// until the makespan without gap or overlap, and every interval has a cause that
// was there: whoever held the slots did, who posted late is of the rank it says.
func TestEveryIdleIntervalHasACause(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		p, _, r := drawRun(t, Options{})
		type interval struct{ start, end program.Time }
		for g := range p.GPUs {
			for i := range p.GPUs[g].Streams {
				at := map[program.Time]interval{}
				for _, idle := range r.Idle() {
					if idle.Rank == g && idle.Stream == i {
						checkCause(t, p, r.Run, &idle)
						at[idle.Start] = interval{idle.Start, idle.End}
					}
				}
				if p.GPUs[g].Streams[i].Host {
					if len(at) > 0 {
						t.Fatalf("a host stream is idle: %v", at)
					}
					continue
				}
				for _, s := range r.Run.Spans {
					lane := r.Run.Lanes[s.Lane]
					if s.Kind.OnDevice() && s.End > s.Start && int(lane.Rank) == g && lane.ID == p.GPUs[g].Streams[i].Queue {
						if _, taken := at[s.Start]; taken {
							t.Fatalf("GPU %d stream %d: busy and idle from %d", g, i, s.Start)
						}
						at[s.Start] = interval{s.Start, s.End}
					}
				}
				now := program.Time(0)
				for range at {
					next, ok := at[now]
					if !ok {
						t.Fatalf("GPU %d stream %d: neither busy nor idle from %d: %v", g, i, now, at)
					}
					now = next.end
				}
				if now < r.Makespan {
					t.Fatalf("GPU %d stream %d: nothing known from %d to %d", g, i, now, r.Makespan)
				}
			}
		}
	})
}

func checkCause(t *rapid.T, p *program.Program, run *trace.Run, idle *Idle) {
	var rank int
	var name string
	posted := func() bool {
		n, _ := fmt.Sscanf(idle.Note, "posted by GPU %d stream %q", &rank, &name)
		if n < 2 {
			n, _ = fmt.Sscanf(idle.Note, "posted by GPU %d %q", &rank, &name)
		}
		return n == 2
	}
	ok := false
	switch idle.Cause {
	case program.NoSlot:
		_, _ = fmt.Sscanf(idle.Note, "held by %q", &name)
		ok = idle.Note == "copy engines taken" || slices.ContainsFunc(run.Spans, func(s trace.Span) bool {
			return run.NameOf(s) == name && run.RankOf(s) == idle.Rank && s.Start <= idle.Start && s.End >= idle.Start
		})
	case program.FlagWait:
		ok = posted() && rank == idle.Rank && idle.Flag != program.NoFlag
	case program.PeerSkew:
		ok = posted() && rank != idle.Rank && idle.Flag != program.NoFlag
	case program.HostIssue:
		streams := p.GPUs[0].Streams // the last is the host's
		ok = posted() && rank == 0 && name == streams[len(streams)-1].Name && idle.Flag != program.NoFlag
	case program.LaunchGap, program.NoWork: // of a Delay, a gap, the end
		ok = idle.Note == "" && idle.Flag == program.NoFlag
	}
	if !ok {
		t.Fatalf("GPU %d stream %d is idle from %d to %d: %s %q", idle.Rank, idle.Stream, idle.Start, idle.End, idle.Cause, idle.Note)
	}
}
