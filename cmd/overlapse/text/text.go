// Package text writes values as the command shows them: times, changes, shares, numbers with
// their noun, shortened names, and words in Markdown.
package text

import (
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/plain"
)

// Micros formats a time for a table: "12.3 µs", "12.34 ms" or "1.234 s".
func Micros(t trace.Time) string {
	us := float64(t) / 1e3
	switch {
	case us >= 1e6:
		return fmt.Sprintf("%.3f s", us/1e6)
	case us >= 1e4:
		return fmt.Sprintf("%.2f ms", us/1e3)
	}
	return fmt.Sprintf("%.1f µs", us)
}

// Counted formats a number with its noun: "1 pair", "2 pairs".
func Counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Percent formats a change with its sign: "+12.3 %".
func Percent(change float64) string {
	if change > -0.0005 && change < 0.0005 {
		return "0.0 %"
	}
	return fmt.Sprintf("%+.1f %%", 100*change)
}

// Shorten cuts a text to n characters, the last of which is then an ellipsis.
func Shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// Listed joins words: "a, b or c".
func Listed(words []string) string {
	words = slices.Clone(words)
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// ShareOf writes a part of a time as a percentage.
func ShareOf(part, whole trace.Time) string {
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(max(1, whole)))
}

// Markdown writes a text from a trace so that it is no markup of a table or of HTML.
func Markdown(s string) string {
	return strings.NewReplacer("\\", "\\\\", "|", "\\|", "<", "&lt;", ">", "&gt;", "&", "&amp;", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]", "@", "&#64;", "#", "\\#").Replace(plain.Line(s))
}
