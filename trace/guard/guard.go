// Package guard is what stands between what others wrote and this program's user: a trace's path, its text, and the
// defects that it finds.
//
//	open.go   regular files only
//	guard.go  functions side by side; a panic as an error that names the place
//	text.go   text that a terminal may get: Line, Writer, JSON
package guard

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
)

// A PanicError is a panic.
type PanicError struct {
	Value any
	Where []string // FILE:LINE of the innermost calls inside the module, the place of the panic first
}

// Error implements error.
func (e *PanicError) Error() string {
	return fmt.Sprintf("%v at %s", e.Value, strings.Join(e.Where, " from "))
}

// calls is the length of Where: enough to tell callers of a shared function apart.
const calls = 3

const module = "github.com/overlapse/overlapse/"

// Call runs a function; its panic is a *PanicError.
func Call(f func() error) (err error) {
	defer func() {
		if x := recover(); x != nil {
			e, ok := x.(error)
			if broken := (*PanicError)(nil); ok && errors.As(e, &broken) { // of another goroutine
				err = broken
				return
			}
			err = &PanicError{x, where()}
		}
	}()
	return f()
}

// Func is Call for a function that a goroutine runs.
func Func(f func() error) func() error { return func() error { return Call(f) } }

// where lists the calls of the goroutine that panics, as Go names them in source.
func where() (list []string) {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for len(list) < calls {
		f, more := frames.Next()
		name := f.Function
		if of, command := strings.CutPrefix(name, "main."); command {
			name = module + "cmd/overlapse." + of
		}
		if rest, inside := strings.CutPrefix(name, module); inside && !strings.HasPrefix(rest, "trace/guard.") {
			folder, _, _ := strings.Cut(path.Base(rest), ".")
			list = append(list, fmt.Sprintf("%s:%d", path.Join(path.Dir(rest), folder, path.Base(f.File)), f.Line))
		}
		if !more {
			break
		}
	}
	return list
}

// Each calls f for 0 to n-1, on as many goroutines as there are cores, and returns the first error, after which no more calls begin.
func Each(n int, f func(i int) error) error { return AtMost(n, n, f) }

// AtMost is Each on at most so many goroutines.
func AtMost(most, n int, f func(i int) error) error {
	g, failed := errgroup.WithContext(context.Background())
	g.SetLimit(max(1, min(most, runtime.GOMAXPROCS(0))))
	for i := range n {
		g.Go(Func(func() error {
			if err := failed.Err(); err != nil {
				return err
			}
			return f(i)
		}))
	}
	return g.Wait()
}
