package results

import (
	"fmt"
	"io"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/viz/html"
)

// WriteMarkdown writes the result as a comment on a pull request: the verdict and the table.
func WriteMarkdown(w io.Writer, r *Replayed) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### overlapse: %s\n\n", cli.Markdown(r.title(0)))
	for i, sentence := range append(r.Verdict.Sentences, r.answers()...) {
		form := "- %s\n"
		if i == 0 {
			form = "**%s**\n\n"
		}
		fmt.Fprintf(&b, form, cli.Markdown(sentence))
	}
	var rep html.Report
	r.how(&rep, r.best())
	for _, step := range rep.How {
		fmt.Fprintf(&b, "- %s\n", cli.Markdown(step.Text))
		if step.Code != "" { // as it is to be written
			fmt.Fprintf(&b, "  ```\n  %s\n  ```\n", strings.ReplaceAll(step.Code, "\n", "\n  "))
		}
	}
	for _, phase := range r.reference.Each() {
		if phase > 0 {
			fmt.Fprintf(&b, "\n%s\n", cli.Markdown(strings.TrimSuffix(r.ofPhase(phase), " ")))
		}
		fmt.Fprintf(&b, "\n%s\n\n", r.table(r.sorted(false, phase).rows).Markdown())
	}
	for _, row := range r.refused() {
		fmt.Fprintf(&b, "- %s\n", cli.Markdown(r.phased(row)+" "+row.reason()))
	}
	for _, part := range []struct {
		title string
		lines []string
	}{
		{"reasons", r.why()},
		{"assumptions", r.Notes},
	} {
		if len(part.lines) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n<details><summary>%s</summary>\n\n", part.title)
		for _, line := range part.lines {
			fmt.Fprintf(&b, "- %s\n", cli.Markdown(line))
		}
		b.WriteString("\n</details>\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
