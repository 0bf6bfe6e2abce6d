package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/viz/plain"
)

// An app has the standard streams and the global flags. Names from traces, files
// and arguments are untrusted text: the writers out and err remove escape sequences
// (see terminal). The writers bar and data do not; untrusted text is never written
// to bar.
type app struct {
	in       io.Reader
	out, err io.Writer // text
	data     io.Writer // standard output for binary data
	bar      io.Writer // progress bar, with escape sequences
	tty      bool      // err is a terminal: progress may be drawn
	width    int       // of out, if it is a terminal; else 0
	wide     bool      // tables may be wider than that
	quiet    bool
	limit    int64               // MiB to read of all files; 0: the default
	skipBad  bool                // skip files of a run that cannot be read
	inputs   map[string][]string // paths of a trace that was given as several paths, by its name
	outside  string              // capture of the same step without graphs; "": none
	files    files               // that were written
	read     *format.Progress    // of the trace that is opened; nil: only waiting shows it
}

// terminal is the app of the real process.
func terminal() *app {
	a := &app{in: os.Stdin, out: plain.Writer(os.Stdout), err: plain.Writer(os.Stderr), data: os.Stdout, bar: os.Stderr}
	a.tty = term.IsTerminal(int(os.Stderr.Fd()))
	if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		a.width = w
	}
	return a
}

// utf8Locale reports whether the locale's characters are UTF-8: of LC_ALL, LC_CTYPE and
// LANG the first that is set says so, as for terminals.
func utf8Locale(env func(string) string) bool {
	locale, _, _ := strings.Cut(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")), "@")
	_, charset, _ := strings.Cut(locale, ".")
	return strings.EqualFold(strings.ReplaceAll(charset, "-", ""), "utf8")
}

// notef writes a line to standard error, unless --quiet is set.
func (a *app) notef(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintln(a.err, "overlapse: "+plain.Line(fmt.Sprintf(format, args...)))
	}
}

// progress is a bar on standard error where that is a terminal.
func (a *app) progress(n int, what string) *progressbar.ProgressBar {
	w := io.Discard
	if a.tty && !a.quiet {
		w = a.bar
	}
	return progressbar.NewOptions(n, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false))
}

// patience is the time after which waiting shows that the command is at work.
const patience = 200 * time.Millisecond

// waiting shows what the command does, which is asked for again and again, and for how long,
// on standard error where that is a terminal, until done is called.
func (a *app) waiting(what func() string) (done func()) {
	if !a.tty || a.quiet {
		return func() {}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(patience)
		defer tick.Stop()
		start, shown := time.Now(), false
		for {
			select {
			case <-stop:
				if shown {
					fmt.Fprint(a.bar, "\r\x1b[K")
				}
				return
			case <-tick.C:
				shown = true
				fmt.Fprintf(a.bar, "\r\x1b[K%s: %.1f s", plain.Line(what()), time.Since(start).Seconds())
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}

// table is an empty table for standard output.
func (a *app) table(columns ...string) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(a.out)
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	row := make(table.Row, len(columns))
	for i, c := range columns {
		row[i] = c
	}
	t.AppendHeader(row)
	fit := &fittingTable{Writer: t, columns: columns, cells: make([]int, len(columns))}
	if !a.wide {
		fit.width = a.width
	}
	return fit
}

// section is a table with a title.
func (a *app) section(title string, columns ...string) table.Writer {
	fmt.Fprintf(a.out, "\n%s\n", title)
	return a.table(columns...)
}
