package difference

import (
	"fmt"
	"io"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/viz/layout"
)

// WriteMarkdown writes a difference as a comment on a pull request, at most top rows of each group; 0: all.
func (d *Difference) WriteMarkdown(w io.Writer, top int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### overlapse: %s and %s\n\n**%s**\n", text.Markdown(d.A.Name), text.Markdown(d.B.Name), text.Markdown(d.Explanation))
	for group := range d.groups() {
		u := unitOf(group)
		fmt.Fprintf(&b, "\n| by %s | A, %s | B, %s | B − A | share of A |\n|---|--:|--:|--:|--:|\n", text.Markdown(group[0].Group), u.Name, u.Name)
		for i, c := range group {
			if top > 0 && i == top {
				fmt.Fprintf(&b, "\nand %d more\n", len(group)-top)
				break
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", text.Markdown(text.Shorten(layout.ShortName(c.Name), 60)), u.Number(c.A), u.Number(c.B), u.Signed(c.Diff), text.Percent(float64(c.Diff)/float64(max(1, d.A.Time))))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
