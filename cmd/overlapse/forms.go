package main

import (
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/trace/format"
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
	cli.ChoiceFlag(c, to, flag, names[0], listed(help), names...)
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

// checkOutputs refuses an output that replaces an input, or that the next start would read as a
// part of one, and standard output for a command that writes files.
func checkOutputs(c *cobra.Command, args []string) error {
	out := value(c, "output")
	if out == "" || c.Name() == "capture" { // whose arguments are a command
		return nil
	}
	if out == "-" && (value(c, "to") == "kineto" || !slices.Contains([]string{"export", "diff", "reproduce"}, c.Name())) {
		return cli.Errorf("--output -: %s writes files, which standard output cannot hold (give a path)", c.Name())
	}
	for _, in := range inputPaths(c, args) {
		if err := checkOutput(c.Name(), out, in); err != nil {
			return err
		}
	}
	if c.Name() == "replay" {
		return results.CheckFolder(out)
	}
	return nil
}

// value is that of a flag, or "" for a command without it.
func value(c *cobra.Command, flag string) string {
	if f := c.Flag(flag); f != nil {
		return f.Value.String()
	}
	return ""
}

// inputPaths are the paths that a command line names as inputs, and files that are read beside
// them; those that do not exist harm nothing.
func inputPaths(c *cobra.Command, args []string) (paths []string) {
	named := strings.FieldsFunc(value(c, "strategy"), func(r rune) bool { return r == ':' || r == ',' })
	for _, flag := range []string{"machine", "dataflow", "retarget", "base", "traces"} {
		named = append(named, value(c, flag))
	}
	for _, name := range append(named, args...) {
		if name == "-" {
			name = "/dev/stdin"
		}
		if match, _ := filepath.Glob(name); len(match) > 0 {
			paths = append(paths, match...)
		} else {
			paths = append(paths, name)
		}
		if beside, err := format.Files(name, format.Options{}); err == nil {
			paths = append(paths, beside...)
		}
	}
	return paths
}

// checkOutput compares the output with one input.
func checkOutput(command, out, in string) error {
	const cure = "(give another path)"
	beside := map[string]string{"validate": ".md", "calibrate": ".yaml"}[command] // what a folder of inputs may get
	switch {
	case cli.Same(out, in):
		return cli.Errorf("--output %s: is an input, which it would replace %s", out, cure)
	case cli.Within(out, in) && (beside == "" || filepath.Ext(out) != beside):
		return cli.Errorf("--output %s: lies in the input %s, which would have another file %s", out, in, cure)
	case command == "replay" && cli.Within(in, out):
		return cli.Errorf("--output %s: holds the input %s, which it would replace %s", out, in, cure)
	}
	return nil
}

// listed joins words: "a, b or c".
func listed(words []string) string {
	words = slices.Clone(words)
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
