package main

import (
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
)

// A form is one way to write a result. A new one is a row in the table of a command: the flag with
// its help and completion, -o, and the refusal to write bytes to a terminal follow.
type form[R any] struct {
	name, note string // as the flag has it; what its help says of it, or ""
	binary     bool
	write      func(io.Writer, R) error // nil: the command prints it with settings of its own
}

// forms is such a table; the first row is the default.
type forms[R any] []form[R]

// asCSV is the form of rows of a struct with json tags.
func asCSV[R, T any](rows func(R) iter.Seq[T]) form[R] {
	return form[R]{name: "csv", write: func(w io.Writer, r R) error { return results.WriteTableCSV(w, rows(r)) }}
}

func asJSON[R any](w io.Writer, r R) error { return results.WriteJSON(w, r) }

// flag adds the flag that chooses a form.
func (f forms[R]) flag(c *cobra.Command, to *string, flag string) {
	var names, help []string
	for _, x := range f {
		names = append(names, x.name)
		if x.note != "" {
			x.name += " (" + x.note + ")"
		}
		help = append(help, x.name)
	}
	last := len(help) - 1
	cli.ChoiceFlag(c, to, flag, names[0], strings.Join(help[:last], ", ")+" or "+help[last], names...)
}

// named is the form of a name, which the flag has checked.
func (f forms[R]) named(name string) form[R] {
	return f[slices.IndexFunc(f, func(x form[R]) bool { return x.name == name })]
}

// notOnTerminal is an error if standard output is a terminal and the form is bytes.
func (f form[R]) notOnTerminal(a *app, cure string) error {
	if a.Width == 0 || !f.binary {
		return nil
	}
	return cli.Errorf("%s is binary: %s", f.name, cure)
}
