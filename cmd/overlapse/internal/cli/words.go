package cli

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// Words
//
// words.go writes values as the command shows them: times, changes, shares, numbers with
// their noun, shortened names, and words in Markdown.

// A Unit is a unit of time, and how many decimals are shown in it.
type Unit struct {
	Name     string
	ns       float64
	decimals int
}

// UnitOf is the unit that suits the largest of some times, for all of them: µs below 10 ms,
// ms below 1 s, else s.
func UnitOf(times ...trace.Time) Unit {
	largest := trace.Time(0)
	for _, t := range times {
		largest = max(largest, t, -t)
	}
	switch {
	case largest >= 1e9:
		return Unit{"s", 1e9, 3}
	case largest >= 1e7:
		return Unit{"ms", 1e6, 2}
	}
	return Unit{"µs", 1e3, 1}
}

// Number writes a time in the unit, without its name. A time that would read as zero is
// written as less than the smallest number that does not: "<0.01".
func (u Unit) Number(t trace.Time) string {
	least := math.Pow10(-u.decimals)
	if v := float64(t) / u.ns; t == 0 || v >= least/2 || v <= -least/2 {
		return fmt.Sprintf("%.*f", u.decimals, v)
	}
	return fmt.Sprintf("<%.*f", u.decimals, least)
}

// Value is a time in the unit.
func (u Unit) Value(t trace.Time) float64 { return float64(t) / u.ns }

// Signed is Number with the sign of a difference: "+1.2", "0".
func (u Unit) Signed(t trace.Time) string {
	switch {
	case t == 0:
		return "0"
	case t < 0:
		return "-" + u.Number(-t)
	}
	return "+" + u.Number(t)
}

// seconds writes how long work takes: "40 s", "25 min", "3.2 hours".
func seconds(s float64) string {
	switch {
	case s < 120:
		return fmt.Sprintf("%.0f s", s)
	case s < 7200:
		return fmt.Sprintf("%.0f min", s/60)
	}
	return fmt.Sprintf("%.1f hours", s/3600)
}

// MachineText is a machine's name with the reason why it is a guess, if it is one.
func MachineText(name, guess string) string {
	if guess == "" {
		return name
	}
	return fmt.Sprintf("%s, a guess (%s; --machine names it)", name, guess)
}

// Counted formats a number with its noun: "1 pair", "2 pairs".
func Counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Shorten cuts a text to n characters, the last of which is then an ellipsis.
func Shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// Middle cuts the middle out of a text so that n characters are left, one of which is an ellipsis.
func Middle(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	end := (n - 1) / 3
	return string(r[:n-1-end]) + "…" + string(r[len(r)-end:])
}

// wrapped breaks a text into lines of at most so many columns, the later ones indented. Words that
// are longer stay whole, so that paths and commands can be copied.
func wrapped(s string, indent, width int) string {
	var lines []string
	line, last := "", ""
	for _, word := range strings.Fields(s) {
		glued := last != "" && len(word) <= 5 && unicode.IsDigit(rune(last[len(last)-1])) // a number and its unit
		if last = word; line == "" {
			line = word
			continue
		}
		next := line + " " + word
		if indent+len([]rune(next)) > width {
			cut := len(line)
			if glued {
				cut = max(0, strings.LastIndexByte(line, ' '))
			}
			lines = append(lines, line[:cut])
			next = strings.TrimSpace(next[cut:])
		}
		line = next
	}
	return strings.Join(append(lines, line), "\n"+strings.Repeat(" ", indent))
}

// ShellWord quotes a text as one word of a shell's command line, where it needs quotes.
func ShellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-+=./:,@%", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// ShellWords are words of a command line, each quoted where it needs quotes.
func ShellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = ShellWord(w)
	}
	return strings.Join(quoted, " ")
}

// Markdown writes a text from a trace so that it is no markup of a table or of HTML.
func Markdown(s string) string {
	return strings.NewReplacer("\\", "\\\\", "|", "&#124;", "<", "&lt;", ">", "&gt;", "&", "&amp;", "`", "\\`", "*", "\\*", "_", "\\_", "[",
		"\\[", "]", "\\]", "@", "&#64;", "#", "\\#").Replace(guard.Line(s))
}
