package results

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// Explain adds the critical path to rows, and what of it differs from the captured schedule's, to which it adds what other hardware
// changes. Of rows that nobody chose by name, only the captured schedule and the best other one are explained. What is explained is
// replayed again, with its causes.
func Explain(ctx context.Context, con *cli.Console, r *Replayed, m machine.Machine, opts replay.Options, chosen bool) error {
	best, at := r.best(), map[int]int{} // by outcome, index of its selection
	sel := []plan.Selection{r.reference.Selection}
	for i := range r.Rows {
		switch row := &r.Rows[i]; {
		case row.Applies && row.given():
			at[row.At] = 0
		case row.Applies && (chosen || row.At == best) && at[row.At] == 0:
			at[row.At], sel = len(sel), append(sel, r.Outcomes[row.At].Selection)
		}
	}
	again := replay.Options{Causes: true, Limits: true, From: opts.From, To: opts.To, Stop: opts.Stop}
	outcomes, err := engines.Compare(r.workload, m, sel, r.scenario, again, nil)
	if err != nil {
		return Stopped(ctx, err)
	}
	captured := map[int]verdict.Explanation{} // by phase
	if base := outcomes[0]; base.Result != nil && base.Unexplained == "" {
		for _, phase := range base.Each() {
			captured[phase] = verdict.Explain(r.workload, base.Of(phase))
		}
		changes := verdict.WhatIfs(&m)
		bar := con.Progress(len(changes), "replaying what-ifs")
		found, err := verdict.Under(r.workload, m, []engines.Outcome{r.reference}, changes, opts.Stop, func() { bar.Add(1) })
		if bar.Finish(); err != nil {
			return Stopped(ctx, err)
		}
		r.Elsewhere = found[0]
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		k, ok := at[row.At]
		if !ok || outcomes[k].Result == nil {
			continue
		}
		out := outcomes[k].Of(row.phase)
		if out.Unexplained != "" {
			row.Notes = append(row.Notes, notExplained+out.Unexplained)
			continue
		}
		e := verdict.Explain(r.workload, out)
		if base, ok := captured[row.phase]; ok && !row.given() && e.Rounds > 0 && base.Rounds > 0 {
			e.Against(r.given(), base)
		}
		row.Explanation = &e
	}
	return nil
}

// notExplained begins a row's note that it has no explanation.
const notExplained = "not explained: "

// PrintExplanations prints the explanation of each strategy.
func PrintExplanations(con *cli.Console, r *Replayed) {
	for i := range r.Rows {
		row := &r.Rows[i]
		for _, note := range row.Notes {
			if strings.HasPrefix(note, notExplained) {
				fmt.Fprintf(con.Out, "\n%s: %s\n", r.phased(row), note)
			}
		}
		e := row.Explanation
		if e == nil {
			continue
		}
		fmt.Fprintf(con.Out, "\n%s", r.says(row))
		if row.Phase != "" {
			fmt.Fprintf(con.Out, ", %s", row.Phase)
		}
		fmt.Fprintf(con.Out, ", %s", trace.Micros(trace.Time(row.Time)))
		if v := e.Versus; v != nil {
			fmt.Fprintf(con.Out, ", %s: %s", trace.Percent(row.Change), v.Sentence())
		}
		unit := r.explainedUnit(e)
		if e.Time == 0 {
			fmt.Fprintf(con.Out, "\n  ends before %s\n", unit)
			continue
		}
		fmt.Fprintf(con.Out, "\n  critical path of %s: %s\n", unit, partsOf(e.Parts, e.Time, 1))
		printPath(con, e)
		if len(e.Idle) > 0 {
			fmt.Fprintf(con.Out, "  stream idle time, summed over ranks: %s\n", idleText(e.Idle))
		}
	}
	var list []string
	for _, x := range r.Elsewhere {
		list = append(list, x.Name+" "+trace.Percent(x.Change))
	}
	if list != nil {
		fmt.Fprintln(con.Out)
		con.Labelled("what if", fmt.Sprintf("the %s schedule with %s", r.given(), strings.Join(list, "; ")))
	}
}

// printPath prints the links of a critical path, after a summary if there are many.
func printPath(con *cli.Console, e *verdict.Explanation) {
	if len(e.Path) > longPath {
		fmt.Fprintf(con.Out, "  mostly: %s\n", mostOf(e.Names, e.Time))
	}
	for _, l := range e.Path {
		if l.After != "" {
			fmt.Fprintf(con.Out, "  %21s↳ %s\n", "", guard.Line(l.After))
		}
		fmt.Fprintf(con.Out, "  %11s %5.1f %%  %-10s %s: %s\n", trace.Micros(l.Time), 100*float64(l.Time)/float64(max(1, e.Time)),
			ranksOf(l.Ranks), namesOf(l), partsOf(l.Parts, l.Time, 5))
	}
}

// explainedUnit is the part of the replay that an explanation covers.
func (r *Replayed) explainedUnit(e *verdict.Explanation) string {
	switch {
	case r.Window == Iteration && e.Rounds > 1:
		return fmt.Sprintf("all %d iterations, which overlap", e.Rounds)
	case r.Window == Iteration:
		if r.Iterations > 0 {
			return "one iteration"
		}
		return "the whole trace"
	case e.Rounds > 0:
		return "the whole replay"
	}
	return r.Window
}

// causeText is a cause of idle time in a user's words.
func causeText(cause string) string {
	switch cause {
	case program.FlagWait.String():
		return "waiting for a dependency"
	case program.NoSlot.String():
		return "no free compute units"
	case program.LaunchGap.String():
		return "launch gaps"
	case program.HostIssue.String():
		return "waiting for the host"
	case program.PeerSkew.String():
		return "waiting for a slower rank"
	case program.Unseen.String():
		return "waiting for a rank that was not captured"
	}
	return cause
}

// idleText lists the causes of idle time, with what the longest interval waited for.
func idleText(idle []verdict.IdleSum) string {
	var list []string
	for _, s := range idle {
		word := trace.Micros(s.Time) + " " + causeText(s.Cause)
		if s.Longest != "" {
			word += fmt.Sprintf(" (longest: %s)", guard.Line(cli.Shorten(s.Longest, 60)))
		}
		list = append(list, word)
	}
	return strings.Join(list, ", ")
}

// longPath is the number of lines above which a critical path gets a summary.
const longPath = 8

// mostOf lists the names that took at least 5 % of the time.
func mostOf(names []verdict.Part, of trace.Time) string {
	brief := slices.Clone(names)
	for i := range brief {
		brief[i].What = guard.Line(workload.FunctionName(brief[i].What))
	}
	return partsOf(brief, of, 5)
}

// partsOf lists the parts of a time, those of at least the given percentage.
func partsOf(parts []verdict.Part, of trace.Time, least float64) string {
	var list []string
	for _, p := range parts {
		if share := 100 * float64(p.Time) / float64(max(1, of)); share >= least {
			list = append(list, fmt.Sprintf("%s %.0f %%", p.What, share))
		}
	}
	return strings.Join(list, ", ")
}

func ranksOf(ranks []int) string {
	switch n := len(ranks); {
	case n == 1:
		return fmt.Sprintf("rank %d", ranks[0])
	case n == 0:
		return ""
	case n > 2 && ranks[n-1]-ranks[0] == n-1:
		return fmt.Sprintf("ranks %d-%d", ranks[0], ranks[n-1])
	case n > 3:
		return fmt.Sprintf("%d ranks", n)
	}
	return "ranks " + strings.Trim(strings.ReplaceAll(fmt.Sprint(ranks), " ", ","), "[]")
}

func namesOf(l verdict.Link) string {
	names := guard.Line(workload.FunctionName(l.Names[0].What))
	if l.Launches > 1 {
		names += fmt.Sprintf(" ×%d", l.Launches)
	}
	switch n := len(l.Names); {
	case n == 2:
		names += " and " + guard.Line(workload.FunctionName(l.Names[1].What))
	case n > 2:
		names += fmt.Sprintf(" and %d more", n-1)
	}
	if l.Late > 0 && l.After == "" {
		names += fmt.Sprintf(" (workgroups waited up to %s for free compute units)", trace.Micros(l.Late))
	}
	return names
}
