package results

import (
	"fmt"
	"io"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/trace"
)

// WriteMarkdown writes the result as a comment on a pull request: the advice and the table.
func WriteMarkdown(w io.Writer, r *Replayed) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### overlapse: %s on %s\n\n", text.Markdown(r.Path), text.Markdown(r.Machine))
	for i, sentence := range r.Verdict.Sentences {
		if i == 0 {
			fmt.Fprintf(&b, "**%s**\n\n", text.Markdown(sentence))
			continue
		}
		fmt.Fprintf(&b, "- %s\n", text.Markdown(sentence))
	}
	fmt.Fprintf(&b, "\nTimes %s, %s %s.\n\n", r.unit(), r.basis(), text.Micros(trace.Time(r.Measured)))
	b.WriteString("| strategy | parameters | time | change | exposed | idle | faster | time breakdown |\n|---|---|--:|--:|--:|--:|---|---|\n")
	for _, row := range r.Rows {
		cells := []string{r.shown(row.Strategy), row.Settings, "-", "-", "-", "-", "-", row.reason()}
		if row.Applies {
			whole := row.Total()
			cells = []string{
				r.shown(row.Strategy), row.Settings, text.Micros(trace.Time(row.Time)), text.Percent(row.Change),
				text.ShareOf(row.Exposed(), whole), text.ShareOf(row.Idle, whole), row.confidence(), row.Limit,
			}
		}
		for _, c := range cells {
			fmt.Fprintf(&b, "| %s ", text.Markdown(c))
		}
		b.WriteString("|\n")
	}
	r.details(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// details has, folded, why predictions are uncertain, what streams waited for and what was assumed.
func (r *Replayed) details(b *strings.Builder) {
	folded := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(b, "\n<details><summary>%s</summary>\n\n", title)
		for _, line := range lines {
			fmt.Fprintf(b, "- %s\n", text.Markdown(line))
		}
		b.WriteString("\n</details>\n")
	}
	var why, idle []string
	for i, row := range r.Rows {
		if !row.Applies {
			continue
		}
		name := r.Named(r.Outcomes[i].Result.Run.Name)
		why = append(why, fmt.Sprintf("%s: %s: %s", name, row.confidence(), row.Confidence.Why))
		var causes []string
		for _, s := range explain.IdleByCause(&r.Outcomes[i]) {
			causes = append(causes, fmt.Sprintf("%s %s", causeText(s.Cause), text.Micros(s.Time)))
		}
		if len(causes) > 0 {
			idle = append(idle, name+": "+strings.Join(causes, ", "))
		}
	}
	folded("confidence", why)
	folded("idle time of streams "+r.idleScope()+", summed over streams and ranks", idle)
	folded("assumptions", r.Notes)
	check := fmt.Sprintf("self-check: replay of the %s schedule differs by at most %s over %d operations", r.given(), text.Micros(r.Residual.Worst), r.Residual.Ops)
	fmt.Fprintf(b, "\n%s\n", text.Markdown(check))
}
