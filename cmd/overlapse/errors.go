package main

import "fmt"

// usageError is a wrong command line: exit code 2.
type usageError struct{ Err error }

// usageErrorf is a usageError with a text, as fmt.Errorf formats it.
func usageErrorf(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// wrongUsage makes an error one of the command line.
func wrongUsage(err error) error { return usageError{err} }

// Error implements error.
func (e usageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e usageError) Unwrap() error { return e.Err }

// thresholdError is a limit the caller set that was not met: exit code 3.
type thresholdError struct{ Err error }

// Error implements error.
func (e thresholdError) Error() string { return e.Err.Error() }

// strategyError reports selected strategies that cannot run on the trace: exit
// code 1, after the results of the others.
type strategyError struct{ Err error }

// Error implements error.
func (e strategyError) Error() string { return e.Err.Error() }
