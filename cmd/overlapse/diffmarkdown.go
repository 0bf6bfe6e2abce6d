package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/overlapse/overlapse/viz/layout"
)

// writeMarkdown writes a difference as a comment on a pull request, at most top rows of each group; 0: all.
func (d *difference) writeMarkdown(w io.Writer, top int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### overlapse: %s and %s\n\n**%s**\n", inMarkdown(d.A.Name), inMarkdown(d.B.Name), inMarkdown(d.sentence()))
	for group := range d.groups() {
		fmt.Fprintf(&b, "\n| by %s | A | B | B − A | share of A |\n|---|--:|--:|--:|--:|\n", inMarkdown(group[0].Group))
		for i, c := range group {
			if top > 0 && i == top {
				fmt.Fprintf(&b, "\nand %d more\n", len(group)-top)
				break
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", inMarkdown(shorten(layout.ShortName(c.Name), 60)), micros(c.A), micros(c.B), signed(c.Diff), percent(float64(c.Diff)/float64(max(1, d.A.Time))))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
