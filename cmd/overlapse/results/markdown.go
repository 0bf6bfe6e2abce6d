package results

import (
	"fmt"
	"io"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/console"
	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/engines/explain"
)

// WriteMarkdown writes the result as a comment on a pull request: the verdict and the table.
func WriteMarkdown(w io.Writer, r *Replayed) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### overlapse: %s\n\n", text.Markdown(r.title()))
	for i, sentence := range append(r.Verdict.Sentences, r.answers()...) {
		form := "- %s\n"
		if i == 0 {
			form = "**%s**\n\n"
		}
		fmt.Fprintf(&b, form, text.Markdown(sentence))
	}
	rows, _, refused := r.sorted(false)
	fmt.Fprintf(&b, "\n%s\n\n", r.table(&console.Console{Out: io.Discard}, rows).RenderMarkdown())
	for _, row := range refused {
		fmt.Fprintf(&b, "- %s\n", text.Markdown(r.named(row)+" "+row.reason()))
	}
	var idle, how []string
	for i := range r.Rows {
		var causes []string
		if r.Rows[i].Applies {
			for _, s := range explain.IdleByCause(&r.Outcomes[i]) {
				causes = append(causes, fmt.Sprintf("%s %s", causeText(s.Cause), text.Micros(s.Time)))
			}
		}
		if len(causes) > 0 {
			idle = append(idle, r.named(&r.Rows[i])+": "+strings.Join(causes, ", "))
		}
	}
	if a := r.Verdict.Advice; a != nil {
		how = append(how, "where: "+strings.Join(a.Where, "; "))
		for _, w := range a.Ways {
			how = append(how, w.For+": "+w.String())
		}
	}
	for _, part := range []struct {
		title string
		lines []string
	}{
		{"how to get it", how},
		{"reasons", r.why()},
		{"idle time of streams " + r.idleScope() + ", summed over streams and ranks", idle},
		{"assumptions", r.Notes},
	} {
		if len(part.lines) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n<details><summary>%s</summary>\n\n", part.title)
		for _, line := range part.lines {
			fmt.Fprintf(&b, "- %s\n", text.Markdown(line))
		}
		b.WriteString("\n</details>\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
