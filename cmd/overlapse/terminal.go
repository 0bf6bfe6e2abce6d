package main

import (
	"fmt"
	"io"
	"os"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/overlapse/overlapse/viz/plain"
)

// An app is the world outside: streams and what is known of them. Names from
// traces, files and arguments are hostile text, so out and err are made safe
// for a terminal where the process begins (terminal); the bar and data are not,
// and nothing from outside is written to the bar.
type app struct {
	in       io.Reader
	out, err io.Writer // text
	data     io.Writer // standard output for bytes that are no text
	bar      io.Writer // progress: escape sequences and words of this program
	tty      bool      // err is a terminal: progress may be drawn
	width    int       // of out, if it is a terminal; else 0
	quiet    bool
	limit    int64               // MiB to read of all files; 0 stands for the default
	skipBad  bool                // leave out files of a run that cannot be read
	inputs   map[string][]string // by the name of a trace that was given as several paths: those
	files    files               // that were written
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

// notef writes a line of talk to standard error.
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

// table is an empty table in the house style, written to standard output.
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
	if a.width > 0 { // the last column is the sentence: it wraps
		t.SetColumnConfigs([]table.ColumnConfig{{Number: len(columns), WidthMax: max(40, a.width-90), WidthMaxEnforcer: text.WrapSoft}})
	}
	return singleLineTable{t}
}

// section is a table below a title.
func (a *app) section(title string, columns ...string) table.Writer {
	fmt.Fprintf(a.out, "\n%s\n", title)
	return a.table(columns...)
}

// singleLineTable is a table in which no text from outside breaks a line.
type singleLineTable struct{ table.Writer }

// AppendRow implements table.Writer.
func (l singleLineTable) AppendRow(row table.Row, configs ...table.RowConfig) {
	for i, cell := range row {
		if s, ok := cell.(string); ok {
			row[i] = plain.Line(s)
		}
	}
	l.Writer.AppendRow(row, configs...)
}
