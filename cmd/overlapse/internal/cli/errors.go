// Package cli has the errors that end a command with an exit code of their own, and what
// a wrong command line is answered with: the words that a flag takes, and the nearest one to
// what was typed.
package cli

import "fmt"

// Error is a wrong command line: exit code 2.
type Error struct{ Err error }

// Errorf is an Error with a text, as fmt.Errorf formats it.
func Errorf(format string, args ...any) error { return Error{fmt.Errorf(format, args...)} }

// Wrap makes an error one of the command line.
func Wrap(err error) error { return Error{err} }

// Error implements error.
func (e Error) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e Error) Unwrap() error { return e.Err }

// Threshold is a limit the caller set that was not met: exit code 3.
type Threshold struct{ Err error }

// Error implements error.
func (e Threshold) Error() string { return e.Err.Error() }

// NotRun reports selected strategies that cannot run on the trace: exit
// code 1, after the results of the others.
type NotRun struct{ Err error }

// Error implements error.
func (e NotRun) Error() string { return e.Err.Error() }
