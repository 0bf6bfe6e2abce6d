package results

import (
	"fmt"
	"path/filepath"

	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/html"
	"github.com/overlapse/overlapse/viz/layout"
)

// explainTables are the report's tables of --explain; nil without it.
func (r *Replayed) explainTables() []html.Table {
	of := "one iteration"
	if r.Window != Iteration {
		of = "the window " + r.Window
	}
	sum := html.Table{Title: "Against bulk", Columns: []html.Column{{Name: "strategy"}, {Name: "why"}}}
	path := html.Table{
		Title: "Critical paths",
		Note:  "Of " + of + ", from the causes recorded in the simulation. The times of a strategy add up to its total.",
		Columns: []html.Column{
			{Name: "strategy"}, {Name: "time", Number: true}, {Name: "ranks"}, {Name: "kernels and copies"}, {Name: "breakdown"}, {Name: "waited before for"},
		},
	}
	for i, row := range r.Rows {
		e := row.Explanation
		if e == nil {
			continue
		}
		name := r.Named(r.Outcomes[i].Result.Run.Name)
		if v := e.Versus; v != nil {
			sum.Rows = append(sum.Rows, []string{name, v.Sentence(e.Time/trace.Time(e.Rounds) - v.Change)})
		}
		for _, l := range e.Path {
			path.Rows = append(path.Rows, []string{
				name, layout.Short(l.Time), ranksOf(l.Ranks), namesOf(l), partsOf(l.Parts, l.Time, 5), l.After,
			})
		}
	}
	if len(path.Rows) == 0 {
		return nil
	}
	return []html.Table{sum, path}
}

// HTML is the data of the HTML report.
func (r *Replayed) HTML() html.Report {
	rep := html.Report{
		Title:    "overlapse: " + filepath.Base(r.Path),
		Verdict:  r.Verdict.Sentences,
		Captured: trace.Time(r.base),
		Parts:    r.Parts(),
		Facts: []html.Fact{
			{Name: "trace", Value: r.Path},
			{Name: "machine", Value: fmt.Sprintf("%s, %d ranks (%s)", r.Machine, r.Ranks, r.captured())},
			{Name: "times", Value: r.unit()},
			{Name: r.basis(), Value: text.Micros(trace.Time(r.Measured))},
			{Name: "self-check", Value: fmt.Sprintf("replay of the %s schedule differs by at most %s over %d operations", r.given(), text.Micros(r.Residual.Worst), r.Residual.Ops)},
		},
	}
	if left := r.Coarse(); left != "" {
		rep.Facts = append(rep.Facts, html.Fact{Name: "timelines", Value: left})
	}
	for _, b := range r.Verdict.Below {
		rep.Facts = append(rep.Facts, html.Fact{Name: "faster than ideal", Value: belowIdeal(b)})
	}
	if r.Estimated != "" {
		rep.Facts = append(rep.Facts, html.Fact{Name: "basis", Value: r.Estimated})
	}
	for i, row := range r.Rows {
		bar := html.Bar{Name: r.shown(row.Strategy), Params: row.Settings, Bound: r.Outcomes[i].Strategy.Bound && !r.Outcomes[i].Strategy.Exact, Note: row.Limit}
		if !row.Applies {
			bar.Note = row.reason()
			rep.Strategies = append(rep.Strategies, bar)
			continue
		}
		bar.Time = trace.Time(row.Time)
		bar.Parts = html.Parts{Compute: row.Compute - row.Hidden, Overlapped: row.Hidden, Exposed: row.Exposed(), Copies: row.Copies}
		rep.Strategies = append(rep.Strategies, bar)
		result := r.Outcomes[i].Result
		rep.Runs = append(rep.Runs, html.Named{Name: r.Named(result.Run.Name), Note: r.runNote(row), Run: result.Run, Start: StartOf(r.workload, result.Run), Gaps: Gaps(result), Use: useOf(result)})
	}
	rep.Tables = append(rep.Tables, r.explainTables()...)
	rep.Tables = append(rep.Tables, r.confidenceTable(), r.idleTable(), r.memoryTable(), r.pairTable())
	if len(r.Notes) > 0 {
		t := html.Table{Title: "Assumptions", Columns: []html.Column{{Name: "note"}}}
		for _, n := range r.Notes {
			t.Rows = append(t.Rows, []string{n})
		}
		rep.Tables = append(rep.Tables, t)
	}
	return rep
}

// runNote is printed next to the length of a whole run: the time and change of one
// iteration if the run has several.
func (r *Replayed) runNote(row replayRow) string {
	if r.Iterations > 1 {
		return fmt.Sprintf("%s per iteration, %s", text.Micros(trace.Time(row.Time)), text.Percent(row.Change))
	}
	return text.Percent(row.Change)
}

// confidenceTable has the confidence in each prediction, and its spread over random seeds.
func (r *Replayed) confidenceTable() html.Table {
	t := html.Table{
		Title:   "Confidence",
		Columns: []html.Column{{Name: "strategy"}, {Name: "parameters"}, {Name: "probability of being faster"}, {Name: "reason"}, {Name: "with other random seeds"}},
	}
	for _, row := range r.Rows {
		if !row.Applies {
			continue
		}
		spread := ""
		if s := row.Seeds; s != nil {
			spread = fmt.Sprintf("%s to %s, median %s", text.Micros(s.Fastest()), text.Micros(s.Slowest()), text.Micros(s.Median()))
			if m := modesOf(s); m != "" {
				spread += "; " + m
			}
		}
		t.Rows = append(t.Rows, []string{r.shown(row.Strategy), row.Settings, row.confidence(), row.Confidence.Why, spread})
	}
	return t
}

// idleTable has the idle time of streams by strategy and cause.
func (r *Replayed) idleTable() html.Table {
	t := html.Table{
		Title:   "Idle time of streams",
		Note:    "Summed over streams and ranks " + r.idleScope() + ". A dependency is work of another stream or of another rank.",
		Columns: []html.Column{{Name: "strategy"}, {Name: "cause"}, {Name: "time", Number: true}, {Name: "share of the streams' time", Number: true}, {Name: "longest"}},
	}
	for _, out := range r.Outcomes {
		if out.Result == nil {
			continue
		}
		all := explain.IdleByCause(&out)
		streams := streamTime(out.Result)
		for _, s := range all {
			t.Rows = append(t.Rows, []string{
				r.Named(out.Result.Run.Name), causeText(s.Cause), layout.Short(s.Time), fmt.Sprintf("%.1f %%", 100*float64(s.Time)/float64(max(1, streams))), s.Longest,
			})
		}
	}
	return t
}

// streamTime is the number of streams with idle time, times the makespan.
func streamTime(r *replay.Result) trace.Time {
	type stream struct{ rank, stream int }
	all := map[stream]bool{}
	for _, i := range r.Idle {
		all[stream{i.Rank, i.Stream}] = true
	}
	return trace.Time(len(all)) * r.Makespan
}

// pairTable has the pairs of the trace with their evidence.
func (r *Replayed) pairTable() html.Table {
	t := html.Table{
		Title:   "Pairs of computation and communication",
		Columns: []html.Column{{Name: "kind"}, {Name: "first"}, {Name: "second"}, {Name: "bytes", Number: true}, {Name: "count", Number: true}, {Name: "evidence"}},
	}
	for _, p := range r.workload.Summary().Pairs {
		evidence := ""
		for i, e := range p.Evidence {
			if i > 0 {
				evidence += "; "
			}
			evidence += e
		}
		t.Rows = append(t.Rows, []string{p.Direction, p.First, p.Second, fmt.Sprint(p.Bytes), fmt.Sprint(p.Count), evidence})
	}
	return t
}
