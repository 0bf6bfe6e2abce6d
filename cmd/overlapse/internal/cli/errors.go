// Package cli reads what a command works on, from flags and files, and has what every command prints with:
//
//	errors.go    errors that end a command with an exit code of their own, and answers to a wrong command line: the words
//	             that a flag takes, and the nearest one to what was typed
//	flags.go     flags that several commands have
//	reader.go    traces and workload files (folder.go, rescale.go); machine.go, machines; digest.go, their checksums
//	roots.go     folders outside of which a server reads nothing
//	files.go     files and folders that are written completely or not at all
//	terminal.go  what a command prints with: progress.go, table.go; words.go and values.go have how values are written
package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/overlapse/overlapse/replay/machine"
)

// Exit codes, as `overlapse --help` documents them.
const (
	OK        = 0
	Failed    = 1
	Usage     = 2 // a wrong command line
	Threshold = 3 // a limit that the caller set was not met
	Defect    = 4
)

// An exitError ends a command with an exit code. Of several in a chain the outermost counts.
type exitError struct {
	Err  error
	Code int
}

// Errorf is a wrong command line.
func Errorf(format string, args ...any) error { return Exit(Usage, format, args...) }

// Exit is an error with an exit code and a text, as fmt.Errorf formats it. With Failed it comes
// after results, or keeps what it wraps from being a wrong command line.
func Exit(code int, format string, args ...any) error {
	return exitError{fmt.Errorf(format, args...), code}
}

// Wrap makes an error one of the command line.
func Wrap(err error) error { return exitError{err, Usage} }

// Error implements error.
func (e exitError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e exitError) Unwrap() error { return e.Err }

// Code is the exit code of an error, and whether it states one.
func Code(err error) (code int, stated bool) {
	var e exitError
	switch {
	case err == nil:
		return OK, false
	case errors.As(err, &e):
		return e.Code, true
	}
	return Failed, false
}

// Unknown is an Error about a word that is not among the known ones, and the nearest of them.
func Unknown(text, typed string, known []string) error {
	return Errorf("%s%s", text, machine.Suggestion(typed, known))
}

// choice checks that the value of a flag is one of the words.
func choice(flag, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	return Unknown(fmt.Sprintf("--%s %q is none of %s", flag, value, strings.Join(words, ", ")), value, words)
}

// FlagError turns a wrong flag into a usage error.
func FlagError(c *cobra.Command, err error) error {
	var wrong exitError // of a ChoiceFlag
	if errors.As(err, &wrong) {
		return wrong
	}
	var unknown *pflag.NotExistError
	var known []string
	typed := ""
	if errors.As(err, &unknown) {
		typed = "--" + unknown.GetSpecifiedName()
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
	}
	path := strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), c.Root().Name()))
	return Unknown(fmt.Sprintf("%v (see overlapse %s)", err, strings.TrimSpace(path+" --help")), typed, known)
}

// OneOf completes words.
func OneOf(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}
