package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"golang.org/x/term"

	"github.com/overlapse/overlapse/trace/guard"
)

// Console
//
// A Console has what a command prints with: the standard streams, notes, progress, and
// tables that fit the terminal.

// A Console has the standard streams of a command. Names from traces, files and
// arguments are untrusted text: the writers Out and Err remove escape sequences (see
// Terminal). The writers Bar and Data do not; untrusted text is never written to Bar.
type Console struct {
	In       io.Reader
	Out, Err io.Writer // text
	Data     io.Writer // standard output for binary data
	Bar      io.Writer // progress bar, with escape sequences
	tty      bool      // Err is a terminal: progress may be drawn
	Width    int       // of Out, if it is a terminal; else 0
	bold     bool      // Data is Out's terminal and draws bold text
	Wide     bool      // tables may be wider than that
	Quiet    bool
}

// Terminal is the console of the real process.
func Terminal() *Console {
	c := &Console{In: os.Stdin, Out: guard.Writer(os.Stdout), Err: guard.Writer(os.Stderr), Data: os.Stdout, Bar: os.Stderr}
	c.tty = term.IsTerminal(int(os.Stderr.Fd()))
	if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		c.Width = w
		c.bold = drawsBold(os.Getenv)
	}
	return c
}

// UTF8 reports whether the terminal's characters are UTF-8: of LC_ALL, LC_CTYPE and LANG the first
// that is set says so. It is LANGUAGE.CHARSET@VARIANT, or on macOS the character set alone.
func UTF8(env func(string) string) bool {
	locale, _, _ := strings.Cut(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")), "@")
	charset := locale[strings.LastIndexByte(locale, '.')+1:]
	return strings.EqualFold(strings.ReplaceAll(charset, "-", ""), "utf8")
}

// Notef writes a line to standard error, unless --quiet is set.
func (c *Console) Notef(format string, args ...any) {
	if !c.Quiet {
		fmt.Fprintln(c.Err, "overlapse: "+guard.Line(fmt.Sprintf(format, args...)))
	}
}

// Early says on standard error, where that is a terminal, what is known before a command has its answer.
func (c *Console) Early(sentence string) {
	if c.tty && !c.Quiet {
		fmt.Fprint(c.Bar, "\r\x1b[K")
		fmt.Fprintln(c.Err, wrapped(guard.Line(sentence), 2, c.wrapAt()))
	}
}

// Labelled prints a sentence behind a word that says what it is about, wrapped.
func (c *Console) Labelled(label, sentence string) {
	const indent = 10
	fmt.Fprintf(c.Out, "%-*s%s\n", indent, label, wrapped(guard.Line(sentence), indent, c.wrapAt()))
}

// Say prints a sentence, wrapped.
func (c *Console) Say(sentence string) {
	fmt.Fprintln(c.Out, wrapped(guard.Line(sentence), 2, c.wrapAt()))
}

// Head prints the sentence that answers, in bold on a terminal, wrapped.
func (c *Console) Head(sentence string) {
	if !c.bold {
		c.Say(sentence)
		return
	}
	fmt.Fprint(c.Data, "\x1b[1m")
	c.Say(sentence)
	fmt.Fprint(c.Data, "\x1b[0m")
}

// drawsBold reports whether a terminal draws text in bold, and whoever runs the program wants that.
func drawsBold(env func(string) string) bool {
	kind := env("TERM")
	return kind != "" && kind != "dumb" && env("NO_COLOR") == "" && runtime.GOOS != "windows"
}

// lineWidth is the width that sentences are wrapped at, in columns, unless the terminal is narrower.
const lineWidth = 100

// wrapAt is lineWidth on this terminal.
func (c *Console) wrapAt() int {
	if c.Width > 0 {
		return min(c.Width, lineWidth)
	}
	return lineWidth
}
