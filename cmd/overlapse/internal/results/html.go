package results

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/console"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/words"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/summary"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/names"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/html"
)

// explainTables are the report's tables of --explain; nil without it.
func (r *Replayed) explainTables() []html.Table {
	of := "one iteration"
	if r.Window != Iteration {
		of = "the window " + r.Window
	}
	sum := console.Table{Title: "Against bulk", Columns: []string{"strategy", "why"}}
	path := console.Table{
		Title:   "Critical paths",
		Note:    "Of " + of + ", from the causes recorded in the simulation. The times of a strategy add up to its total.",
		Columns: []string{"strategy", "time", "ranks", "kernels and copies", "breakdown", "waited before for"},
	}
	for i, row := range r.Rows {
		e := row.Explanation
		if e == nil {
			continue
		}
		name := r.Named(r.Outcomes[i].Result.Run.Name)
		if v := e.Versus; v != nil {
			sum.Add(name, v.Sentence(e.Time/trace.Time(e.Rounds)-v.Change))
		}
		for _, l := range e.Path {
			path.Add(name, l.Time, ranksOf(l.Ranks), namesOf(l), partsOf(l.Parts, l.Time, 5), l.After)
		}
	}
	if len(path.Rows) == 0 {
		return nil
	}
	return []html.Table{sum.HTML(), path.HTML()}
}

// HTML is the data of the HTML report.
func (r *Replayed) HTML() html.Report {
	rep := html.Report{
		Title:    "overlapse: " + filepath.Base(r.Path),
		Verdict:  r.Verdict.Sentences,
		Captured: trace.Time(r.base),
		Heading:  "Time, mean of all ranks",
		About:    "Time, change ± error in points (80 %, drawn as a line), probability of a gain of at least 1 %. Point at a bar for each rank.",
		Parts:    r.Parts(),
		Facts: []html.Fact{
			{Name: "trace", Value: r.Path},
			{Name: "machine", Value: fmt.Sprintf("%s, %s (%s)", words.MachineText(r.Machine, r.Guess), words.Counted(r.Ranks, "rank"), r.captured())},
			{Name: "times", Value: r.unit()},
			{Name: r.basis(), Value: words.Micros(trace.Time(r.Measured))},
		},
	}
	if left := r.Coarse(); left != "" {
		rep.Facts = append(rep.Facts, html.Fact{Name: "timelines", Value: left})
	}
	if r.Estimated != "" {
		rep.Facts = append(rep.Facts, html.Fact{Name: "basis", Value: r.Estimated})
	}
	best := r.best()
	var shown []*replayRow
	for i, row := range r.Rows {
		out := r.Outcomes[i]
		bar := html.Bar{Name: r.Named(row.Strategy), Params: row.Settings, Bound: out.Strategy.Bound && !out.Strategy.Exact}
		shown = append(shown, &r.Rows[i])
		if !row.Applies {
			continue
		}
		bar.Time, bar.Times, bar.Error = trace.Time(row.Time), row.Times, row.Error
		if bar.Ranks = plan.StepsOf(r.workload, out.Result.Run).Times(overlap.Collect(out.Result.Run), out.Time); row.PFaster > 0 {
			bar.Chance = verdict.PercentOf(row.PFaster)
		}
		if i == best || row.Strategy == r.reference.Strategy.Name && row.Settings == "" {
			rep.Shown = append(rep.Shown, len(rep.Runs))
		}
		rep.Strategies = append(rep.Strategies, bar)
		rep.Runs = append(rep.Runs, html.Named{
			Name: r.Named(out.Result.Run.Name), Note: r.runNote(row), Run: out.Result.Run, Start: StartOf(r.workload, out.Result.Run), Gaps: ReasonsOf(out.Result, 0, 0), Use: useOf(out.Result),
		})
	}
	if late := r.WaitedFor; late != nil {
		rep.Rank = late.Rank
	}
	r.how(&rep, best)
	numbers := tableOf(r.columns(true), shown, 0).HTML()
	rep.Numbers = &numbers
	reasons, notes := console.Table{Title: "Reasons", Columns: []string{"reason"}}, console.Table{Title: "Assumptions", Columns: []string{"note"}}
	for _, line := range r.why() {
		reasons.Add(line)
	}
	for _, n := range r.Notes {
		notes.Add(n)
	}
	rep.Tables = append(r.explainTables(), reasons.HTML(), r.idleTable().HTML(), r.memoryTable(), r.pairTable().HTML(), notes.HTML())
	return rep
}

// best is the row that the verdict recommends or, if that is the captured schedule, the
// fastest other schedule; -1: none.
func (r *Replayed) best() int {
	best := -1
	for i, row := range r.Rows {
		s := r.Outcomes[i].Strategy
		switch {
		case !row.Applies || s.Bound && !s.Exact || s.Exact && row.Settings == "":
		case r.Verdict.Advice != nil && row.Strategy == r.Verdict.Strategy && maps.Equal(row.Parameters, r.Verdict.Parameters):
			return i
		case !s.Future && !row.Experimental && (best < 0 || row.Time < r.Rows[best].Time):
			best = i
		}
	}
	return best
}

// how adds how to get what is recommended or, if nothing is likely to gain, the fastest of what may.
func (r *Replayed) how(rep *html.Report, best int) {
	advice, verb := r.Verdict.Advice, "get"
	if advice == nil && best >= 0 && r.Verdict.Kind == verdict.NoClearWinner {
		a := verdict.AdviceOn(r.workload, r.reference, r.Outcomes[best])
		advice, verb = &a, "try"
	}
	if advice == nil {
		return
	}
	rep.HowTitle = fmt.Sprintf("How to %s %s", verb, r.Outcomes[best].Selection)
	if len(advice.Where) > 0 {
		rep.How = append(rep.How, html.Step{Text: "where: " + strings.Join(advice.Where, "; ")})
	}
	for i, w := range advice.Ways {
		step := html.Step{Text: w.Lead(i > 0 && w.For == advice.Ways[i-1].For), Code: w.Line}
		for _, part := range []string{strings.TrimSpace(w.Library + " " + w.Version), w.Note} {
			if part != "" {
				step.Text += part + "; "
			}
		}
		step.Text = strings.TrimSuffix(step.Text, "; ")
		rep.How = append(rep.How, step)
	}
}

// runNote is printed next to the length of a whole run: the time and change of one
// iteration if the run has several.
func (r *Replayed) runNote(row replayRow) string {
	if r.Iterations > 1 {
		return fmt.Sprintf("%s per iteration, %s", words.Micros(trace.Time(row.Time)), words.Percent(row.Change))
	}
	return words.Percent(row.Change)
}

// idleTable has the idle time of streams by strategy and cause.
func (r *Replayed) idleTable() *console.Table {
	t := &console.Table{
		Title:   "Idle time of streams",
		Note:    "Summed over streams and ranks " + r.idleScope() + ". A dependency is work of another stream or of another rank.",
		Columns: []string{"strategy", "cause", "time", "share of the streams' time", "longest"},
	}
	for _, out := range r.ran() {
		streams := streamTime(out.Result)
		for _, s := range explain.IdleByCause(&out) {
			t.Add(r.Named(out.Result.Run.Name), causeText(s.Cause), s.Time, words.ShareOf(s.Time, streams), s.Longest)
		}
	}
	return t
}

// streamTime is the number of streams with idle time, times the makespan.
func streamTime(r *replay.Result) trace.Time {
	type stream struct{ rank, stream int }
	all := map[stream]bool{}
	for _, i := range r.Idle() {
		all[stream{i.Rank, i.Stream}] = true
	}
	return trace.Time(len(all)) * r.Makespan
}

// pairTable has the pairs of the trace with their evidence.
func (r *Replayed) pairTable() *console.Table {
	t := &console.Table{Title: "Pairs of computation and communication", Columns: []string{"kind", "first", "second", "bytes", "count", "evidence"}}
	short := func(name string) string { return words.Middle(names.Short(name), 40) } // such that the evidence has room
	for _, p := range summary.Pairs(r.workload) {
		t.Add(p.Direction, short(p.First), short(p.Second), p.Bytes, p.Count, strings.Join(p.Evidence, "; "))
	}
	return t
}
