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
	fmt.Fprintf(&b, "### overlapse: %s and %s\n\n**%s**\n", text.Markdown(d.A.Name), text.Markdown(d.B.Name), text.Markdown(d.sentence()))
	for group := range d.groups() {
		fmt.Fprintf(&b, "\n| by %s | A | B | B − A | share of A |\n|---|--:|--:|--:|--:|\n", text.Markdown(group[0].Group))
		for i, c := range group {
			if top > 0 && i == top {
				fmt.Fprintf(&b, "\nand %d more\n", len(group)-top)
				break
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", text.Markdown(text.Shorten(layout.ShortName(c.Name), 60)), text.Micros(c.A), text.Micros(c.B), signed(c.Diff), text.Percent(float64(c.Diff)/float64(max(1, d.A.Time))))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
