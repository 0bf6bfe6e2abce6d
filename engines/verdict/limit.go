package verdict

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// TimesOf is what an iteration of an outcome consists of, the mean over ranks.
func TimesOf(w *workload.Workload, out engines.Outcome) overlap.Times {
	if out.Times != nil {
		return *out.Times
	}
	t := overlap.MeanOf(plan.StepsOf(w, out.Result.Run).Of(out.Phase).Times(overlap.Collect(out.Result.Run), out.Time))
	t.Waiting += out.Expected - out.Time                       // ranks whose dispatch order differs wait for each other (rule X5)
	for _, part := range []*trace.Time{&t.Idle, &t.Transfer} { // they wait less, for kernels or for bytes
		if t.Waiting < 0 {
			less := min(-t.Waiting, max(0, *part))
			*part, t.Waiting = *part-less, t.Waiting+less
		}
	}
	if w.Unseen() {
		d := min(t.Idle, trace.Time(skewed(w, out)*float64(t.Total())))
		t.Idle, t.Waiting = t.Idle-d, t.Waiting+d
	}
	return t
}

// Timed is an outcome with its times, and those of each phase, for TimesOf.
func Timed(w *workload.Workload, out engines.Outcome) engines.Outcome {
	if out.Result == nil {
		return out
	}
	out.Phases = slices.Clone(out.Phases)
	for _, phase := range out.Each() {
		if phase > 0 {
			t := TimesOf(w, out.Of(phase))
			out.Phases[phase-1].Times = &t
		}
	}
	t := TimesOf(w, out)
	out.Times = &t
	return out
}

// simulatedTimes is TimesOf before the time is scaled by the captured schedule's (rule L6).
func simulatedTimes(w *workload.Workload, out engines.Outcome) overlap.Times {
	if out.Simulated == out.Time {
		return TimesOf(w, out)
	}
	out.Times, out.Expected, out.Time = nil, out.Simulated, out.Simulated
	return TimesOf(w, out)
}

// skewed is the share of an outcome's iterations in which streams wait for ranks that nobody captured.
func skewed(w *workload.Workload, out engines.Outcome) float64 {
	var late, whole trace.Time
	for rank, in := range plan.StepsOf(w, out.Result.Run).Of(out.Phase).Steady() {
		whole += in.Length()
		for i := range idleIn(out.Result.IdleOf(rank), in) {
			if i.Cause == program.Unseen {
				late += i.End - i.Start
			}
		}
	}
	return float64(late) / float64(max(1, whole))
}

// LimitOf describes what limits an outcome of these times: the largest shares, and what compute
// waited for beyond its dependencies.
func LimitOf(w *workload.Workload, out engines.Outcome, t overlap.Times) string {
	if t.Total() == 0 {
		return "nothing ran"
	}
	s := strings.Join(Shares(t), ", ")
	in := plan.StepsOf(w, out.Result.Run).Of(out.Phase).Steady()
	if why := waitsIn(out.Result, in, t.Idle*50 >= t.Total()); why != "" {
		s += "; " + why
	}
	return s
}

// sharesOf are the parts that a time consists of.
func sharesOf(t overlap.Times) []Part {
	return []Part{{"compute", t.Compute}, {"transfer", t.Transfer}, {"waiting", t.Waiting}, {"copies", t.Copies}, {"idle", t.Idle}}
}

// Shares are the parts of a time of at least 1 %, largest first: "compute 85 %".
func Shares(t overlap.Times) (words []string) {
	parts := sharesOf(t)
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(b.Time, a.Time) })
	for _, p := range parts {
		if share := 100 * float64(p.Time) / float64(max(1, t.Total())); share >= 1 {
			words = append(words, fmt.Sprintf("%s %.0f %%", p.What, share))
		}
	}
	return words
}

// An IdleSum is the idle time of streams for one cause.
type IdleSum struct {
	Cause   string       `json:"cause"`
	Time    program.Time `json:"time_ns"`           // summed over streams and ranks
	Longest string       `json:"longest,omitempty"` // cause of the longest interval
}

// idleByCause sums the idle time of streams by cause, longest first. NoWork is excluded.
func idleByCause(idle iter.Seq[replay.Idle]) []IdleSum {
	var sums []IdleSum
	var longest []program.Time
	for i := range idle {
		if i.Cause == program.NoWork {
			continue
		}
		k := slices.IndexFunc(sums, func(s IdleSum) bool { return s.Cause == i.Cause.String() })
		if k < 0 {
			k = len(sums)
			sums, longest = append(sums, IdleSum{Cause: i.Cause.String()}), append(longest, -1)
		}
		d := i.End - i.Start
		sums[k].Time += d
		if d > longest[k] {
			longest[k], sums[k].Longest = d, i.Note
		}
	}
	slices.SortStableFunc(sums, func(a, b IdleSum) int { return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.Cause, b.Cause)) })
	return sums
}

// waitsIn lists the main causes of idle time other than dependencies between streams;
// nothing below 2 % of the time. Waiting for the host counts only if devices are idle.
func waitsIn(r *replay.Result, in []plan.Interval, idle bool) string {
	var whole program.Time
	for _, x := range in {
		whole += x.Length()
	}
	late := func(yield func(replay.Idle) bool) {
		for rank, x := range in {
			for i := range idleIn(r.IdleOf(rank), x) {
				if !yield(i) {
					return
				}
			}
		}
	}
	for _, s := range idleByCause(late) {
		switch {
		case s.Time*50 < whole:
		case s.Cause == program.NoSlot.String():
			return "streams wait for free compute units"
		case s.Cause == program.HostIssue.String() && idle:
			return "streams wait for the host"
		}
	}
	return ""
}
