// Package cli has the errors that end a command with an exit code of their own, and what
// a wrong command line is answered with: the words that a flag takes, and the nearest one to
// what was typed.
//
// terminal.go, progress.go and their neighbours have what a command prints with, and words.go how values are written.
package cli

import (
	"errors"
	"fmt"
)

// Exit codes, as `overlapse --help` documents them.
const (
	OK        = 0
	Failed    = 1
	Usage     = 2 // a wrong command line
	Threshold = 3 // a limit that the caller set was not met
	Defect    = 4
)

// An Error ends a command with an exit code. Of several in a chain the outermost counts.
type Error struct {
	Err  error
	Code int
}

// Errorf is a wrong command line.
func Errorf(format string, args ...any) error { return Exit(Usage, format, args...) }

// Exit is an error with an exit code and a text, as fmt.Errorf formats it. With Failed it comes
// after results, or keeps what it wraps from being a wrong command line.
func Exit(code int, format string, args ...any) error {
	return Error{fmt.Errorf(format, args...), code}
}

// Wrap makes an error one of the command line.
func Wrap(err error) error { return Error{err, Usage} }

// Error implements error.
func (e Error) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e Error) Unwrap() error { return e.Err }

// Code is the exit code of an error, and whether it states one.
func Code(err error) (code int, stated bool) {
	var e Error
	switch {
	case err == nil:
		return OK, false
	case errors.As(err, &e):
		return e.Code, true
	}
	return Failed, false
}
