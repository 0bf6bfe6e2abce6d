package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/plain"
)

// writeMarkdown writes the result as a comment on a pull request: the advice and the table.
func writeMarkdown(w io.Writer, r *replayed) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### overlapse: %s on %s\n\n", inMarkdown(r.Path), inMarkdown(r.Machine))
	for i, sentence := range r.Verdict.Sentences {
		if i == 0 {
			fmt.Fprintf(&b, "**%s**\n\n", inMarkdown(sentence))
			continue
		}
		fmt.Fprintf(&b, "- %s\n", inMarkdown(sentence))
	}
	fmt.Fprintf(&b, "\nTimes %s, %s %s.\n\n", r.unit(), r.basis(), micros(trace.Time(r.Measured)))
	b.WriteString("| strategy | parameters | time | change | exposed | idle | confidence | time breakdown |\n|---|---|--:|--:|--:|--:|---|---|\n")
	for _, row := range r.Rows {
		cells := []string{r.shown(row.Strategy), row.settings, "-", "-", "-", "-", "-", row.reason()}
		if row.Applies {
			whole := trace.Time(row.Compute + row.Exposed + row.Idle)
			cells = []string{
				r.shown(row.Strategy), row.settings, micros(trace.Time(row.Time)), percent(row.Change),
				shareOf(trace.Time(row.Exposed), whole), shareOf(trace.Time(row.Idle), whole), r.confidence(row), row.Limit,
			}
		}
		for _, c := range cells {
			fmt.Fprintf(&b, "| %s ", inMarkdown(c))
		}
		b.WriteString("|\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// inMarkdown writes a text from a trace so that it is no markup of a table or of HTML.
func inMarkdown(s string) string {
	return strings.NewReplacer("\\", "\\\\", "|", "\\|", "<", "&lt;", ">", "&gt;", "&", "&amp;", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]", "@", "&#64;", "#", "\\#").Replace(plain.Line(s))
}
