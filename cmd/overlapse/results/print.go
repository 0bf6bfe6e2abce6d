package results

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/overlapse/overlapse/cmd/overlapse/console"
	"github.com/overlapse/overlapse/cmd/overlapse/schema"
	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/plain"
)

// printApproximation names the strategies whose bandwidth shares are approximate.
func printApproximation(con *console.Console, r *Replayed) {
	for _, row := range r.Rows {
		if x := row.Approximation; x != nil {
			fmt.Fprintf(con.Out, "\n%s: bandwidth shares are approximate, since up to %d transfers contend at once: each transfer ends up to %.2g %% of the total time early or late\n",
				row.Strategy, x.Paths, 100*x.Error)
		}
	}
}

// Print prints the result as tables.
func Print(con *console.Console, r *Replayed) {
	fmt.Fprintf(con.Out, "%s on %s: %d ranks, %s of %s; times %s\n", plain.Line(r.Path), plain.Line(r.Machine), r.Ranks, text.Counted(r.Pairs, "pair"), text.Counted(len(r.workload.PairKinds()), "kind"), r.unit())
	if r.Clock != "" {
		fmt.Fprintf(con.Out, "all times, including the captured schedule's, are at clock %s\n", r.Clock)
	}
	if r.Estimated != "" {
		fmt.Fprintln(con.Out, plain.Line(r.Estimated))
	}
	switch {
	case r.Unprofiled && r.Rescaled != nil: // what was captured is another job's time
		fmt.Fprintln(con.Out, "all times are without the profiler (--profiled)")
	case r.Unprofiled && text.Micros(trace.Time(r.Measured)) != text.Micros(trace.Time(r.base)):
		fmt.Fprintf(con.Out, "all times are without the profiler; with it the captured schedule took %s (--profiled)\n", text.Micros(trace.Time(r.Measured)))
	}
	fmt.Fprintln(con.Out)
	t := con.Table("strategy", "parameters", "time", "change", "exposed comm.", "faster", "time breakdown")
	for _, row := range r.Rows {
		if !row.Applies {
			t.AppendRow(table.Row{r.shown(row.Strategy), row.Settings, "-", "-", "-", "-", row.reason()})
			continue
		}
		t.AppendRow(table.Row{r.shown(row.Strategy), row.Settings, text.Micros(trace.Time(row.Time)), text.Percent(row.Change), text.Micros(row.Exposed()), row.confidence(), row.Limit})
	}
	t.Render()
	printApproximation(con, r)
	PrintRescaled(con, r.Rescaled)
	PrintVerdict(con, r.Verdict)
	printWaves(con, r)
	printPairs(con, r)
	printSpreads(con, r)
	printConfidence(con, r)
	printIsolation(con, r.Isolation)
	res := r.Residual
	fmt.Fprintf(con.Out, "\nself-check: replay of the %s schedule differs by at most %s over %d operations", r.given(), text.Micros(res.Worst), res.Ops)
	if res.Worst > 0 {
		fmt.Fprintf(con.Out, " (%s, %.2f %%)", plain.Line(text.Shorten(res.WorstOp, 40)), res.WorstPct)
	}
	fmt.Fprintf(con.Out, "; %d by more than 1 µs and 1 %%; %s %s\n", res.Outside, r.basis(), text.Micros(trace.Time(r.Measured)))
}

// confidence is the probability that a row is faster, and the error of its change in points.
func (r *replayRow) confidence() string {
	if r.Error == 0 { // the captured schedule, or a bound
		return ""
	}
	return fmt.Sprintf("%s ±%.1f", verdict.PercentOf(r.PFaster), 100*r.Error)
}

// WriteCSV writes a line for each strategy.
func WriteCSV(w io.Writer, r *Replayed) error {
	head := []string{"strategy", "parameters", "applies", "time_us", "change", "exposed_us", "limited_by", "p_faster", "change_error", "confidence", "confidence_why", "fastest_us", "median_us", "slowest_us", "basis"}
	rows := make([][]string, len(r.Rows))
	for i, row := range r.Rows {
		why := row.Limit
		if !row.Applies {
			why = row.Why
		}
		rows[i] = slices.Concat([]string{
			row.Strategy, row.Settings, fmt.Sprint(row.Applies), fmt.Sprintf("%.3f", float64(row.Time)/1e3),
			fmt.Sprintf("%.4f", row.Change), fmt.Sprintf("%.3f", float64(row.Exposed())/1e3), why,
			fmt.Sprintf("%.3f", row.PFaster), fmt.Sprintf("%.4f", row.Error), string(row.Confidence.Level), row.Confidence.Why,
		}, row.spread(), []string{r.basis()})
	}
	return schema.WriteCSV(w, head, slices.Values(rows))
}

// PrintVerdict prints the recommendation, and strategies that are faster than the bound.
func PrintVerdict(con *console.Console, v verdict.Verdict) {
	for i, sentence := range v.Sentences {
		if i == 0 {
			fmt.Fprintln(con.Out)
		}
		fmt.Fprintln(con.Out, plain.Line(sentence))
	}
	for i, b := range v.Below {
		if i == 0 {
			fmt.Fprintln(con.Out)
		}
		fmt.Fprintln(con.Out, plain.Line(belowIdeal(b)))
	}
}

// belowIdeal says why a strategy is faster than the bound.
func belowIdeal(b verdict.BelowBound) string {
	return fmt.Sprintf("%s is faster than ideal because it saves work that ideal includes: %s", b.Strategy, b.Why)
}

// printIsolation prints how much the overlap in the capture slowed kernels and collectives.
func printIsolation(con *console.Console, i *workload.Isolation) {
	switch {
	case i == nil || i.Disturbed == 0:
	case i.Why != "":
		fmt.Fprintf(con.Out, "\n%d of %d operations ran concurrently with others in the capture; their isolated times are unknown: %s\n", i.Disturbed, i.Operations, plain.Line(i.Why))
	default:
		fmt.Fprintf(con.Out, "\n%d of %d operations ran concurrently with others in the capture: isolated, their compute takes %.0f %% less time and their collectives %.0f %% less\n",
			i.Disturbed, i.Operations, 100*(1-1/max(1, i.Compute)), 100*(1-1/max(1, i.Collective)))
		if i.Checked > 0 {
			fmt.Fprintf(con.Out, "self-check: for %d of them other instances show the isolated time; simulated with interference, they differ from their captured times by %.1f %% in the median and %.1f %% at the 90th percentile\n",
				i.Checked, 100*i.Median, 100*i.P90)
		}
	}
}

// printConfidence prints why predictions are uncertain, each reason once. The
// verdict has already printed the reason of the predicted fastest strategy.
func printConfidence(con *console.Console, r *Replayed) {
	type reason struct{ level, why string }
	var order []reason
	strategies := map[reason][]string{}
	for _, row := range r.Rows {
		why := reason{string(row.Confidence.Level), row.Confidence.Why}
		if !row.Applies || row.Confidence.Sure {
			continue
		}
		if strategies[why] == nil {
			order = append(order, why)
		}
		if !slices.Contains(strategies[why], r.shown(row.Strategy)) {
			strategies[why] = append(strategies[why], r.shown(row.Strategy))
		}
	}
	stated := strings.Join(r.Verdict.Sentences, "\n")
	var text []string
	for _, why := range order {
		names, whyText := strategies[why], why.why
		if r.Verdict.Strategy != "" && strings.Contains(stated, whyText) {
			names = slices.DeleteFunc(names, func(name string) bool { return name == r.shown(r.Verdict.Strategy) })
			whyText = "as above"
		}
		if len(names) > 0 {
			text = append(text, fmt.Sprintf("confidence %s: %s: %s", why.level, strings.Join(names, ", "), plain.Line(whyText)))
		}
	}
	if slices.ContainsFunc(r.Rows, func(row replayRow) bool { return row.Error > 0 }) {
		text = append(text, fmt.Sprintf("faster: probability that it takes at least %.0f %% less time than the %s schedule; ±: 80 %% interval of the change, in points", -100*verdict.Faster, r.given()))
	}
	for i, line := range text {
		if i == 0 {
			fmt.Fprintln(con.Out)
		}
		fmt.Fprintln(con.Out, line)
	}
}

// spread is a row's fastest, median and slowest time for CSV; empty without seeds.
func (r *replayRow) spread() []string {
	if r.Seeds == nil {
		return []string{"", "", ""}
	}
	us := func(t program.Time) string { return fmt.Sprintf("%.3f", float64(t)/1e3) }
	return []string{us(r.Seeds.Fastest()), us(r.Seeds.Median()), us(r.Seeds.Slowest())}
}

// rescaledText is what was scaled, in one sentence.
func rescaledText(r *workload.Rescaling) string {
	text := "captured durations are scaled"
	if r.From != r.To {
		text += fmt.Sprintf(" from %s to %s", r.From, r.To)
	}
	if r.Ranks > 0 {
		group := "all ranks"
		if r.Group != "" {
			group = "group " + r.Group
		}
		text += fmt.Sprintf("; %s: %d ranks instead of %d, with as much work for each, as in data parallelism", group, r.Ranks, r.Was)
	}
	return text + "; the host's own times are as captured"
}

// PrintRescaled prints the laws that scale captured durations.
func PrintRescaled(con *console.Console, r *workload.Rescaling) {
	if r == nil {
		return
	}
	t := con.Section(plain.Line(rescaledText(r)), "scaled by", "operations", "captured", "scaled", "change")
	for _, p := range r.Parts {
		if r.Same && p.Is == p.Was {
			continue
		}
		law := p.Law
		if !p.Sure {
			law += " (a guess)"
		}
		t.AppendRow(table.Row{law, p.Ops, text.Micros(p.Was), text.Micros(p.Is), text.Percent(float64(p.Is)/float64(max(1, p.Was)) - 1)})
	}
	t.Render()
}
