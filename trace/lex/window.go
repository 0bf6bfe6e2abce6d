// Package lex reads JSON as profilers write it: five dialects and truncated files, in a window of
// fixed size.
//
//	window.go    the part of a file that is in memory; lex.go, tokens in it
//	scanner.go   walks a text without building it
//	decimal.go   numbers; text.go, strings
//	wire.go      streams of protobuf messages
//	sqldb.go     tables of SQLite databases
package lex

import (
	"errors"
	"fmt"
	"io"

	"github.com/overlapse/overlapse/trace"
)

const (
	windowSize = 256 << 10
	// maxValue bounds a single value, an event or a header, which must be in memory as
	// a whole.
	maxValue = 64 << 20
)

// A Window is the part of the input that is in memory. An event is decoded in place; if
// the window ends inside it, more is called and the event is decoded again from its
// start.
type Window struct {
	B   []byte // B[Pos:] is not yet consumed
	Pos int
	Err error // sticky: the error after B, io.EOF at the regular end

	r     io.Reader
	base  int64 // position of B[0] in the input
	limit int64 // maximum bytes to read
	file  string
}

// New returns a window of a file, of which at most limit bytes are read.
func New(r io.Reader, file string, limit int64) Window {
	return Window{r: r, file: file, limit: limit}
}

type limitError struct{ bytes int64 }

func (e *limitError) Error() string {
	return fmt.Sprintf("more than %d MiB of JSON", e.bytes>>20)
}

// At returns the position of b[i] in the input.
func (w *Window) At(i int) int64 { return w.base + int64(i) }

// More reads further input behind b, drops the consumed bytes, and reports whether it
// read any. It fills all of the free space, so that a value of n bytes is scanned log n
// times.
func (w *Window) More() bool {
	if w.Err != nil {
		return false
	}
	rest := w.B[w.Pos:]
	if len(rest) > maxValue {
		w.Err = w.Syntax(w.Pos, "a value of more than 64 MiB", "is this a trace?", nil)
		return false
	}
	if cap(w.B) < windowSize || len(rest) > cap(w.B)/2 {
		grown := make([]byte, len(rest), max(windowSize, 2*cap(w.B)))
		copy(grown, rest)
		w.B = grown
	} else {
		w.B = w.B[:copy(w.B, rest)]
	}
	w.base += int64(w.Pos)
	w.Pos = 0
	had := len(w.B)
	for len(w.B) < cap(w.B) && w.Err == nil {
		var n int
		n, w.Err = w.r.Read(w.B[len(w.B):cap(w.B)])
		w.B = w.B[:len(w.B)+n]
	}
	if w.At(len(w.B)) > w.limit {
		w.B = w.B[:max(had, int(w.limit-w.base))]
		w.Err = &limitError{w.limit}
	}
	return len(w.B) > had
}

// Peek returns the first byte that is not white space, consuming the white space; ok is
// false at the end of the input.
func (w *Window) Peek() (c byte, ok bool) {
	for {
		if w.Pos = SkipSpace(w.B, w.Pos); w.Pos < len(w.B) {
			return w.B[w.Pos], true
		}
		if !w.More() {
			return 0, false
		}
	}
}

// Value returns the next value, valid until the next call of a method.
func (w *Window) Value() ([]byte, error) {
	if _, ok := w.Peek(); !ok {
		return nil, w.Ended("a value is missing")
	}
	for {
		j := SkipValue(w.B, w.Pos, 0)
		if j >= 0 {
			v := w.B[w.Pos:j]
			w.Pos = j
			return v, nil
		}
		if j != Short {
			return nil, w.Unexpected(BadAt(j))
		}
		if !w.More() {
			return nil, w.Ended("the file ends inside a value")
		}
	}
}

// Key returns the next key of an object with its quotes, and moves to its value. At the
// end of the object the key is nil.
func (w *Window) Key() ([]byte, error) {
	for {
		key, j := NextKey(w.B, w.Pos)
		if j >= 0 {
			w.Pos = j
			return key, nil
		}
		if j != Short {
			return nil, w.Unexpected(BadAt(j))
		}
		if !w.More() {
			return nil, w.Ended("the file ends inside an object")
		}
	}
}

// Skip skips a value of any size, in pieces if it is larger than the window.
func (w *Window) Skip() error {
	var open []byte // the pending closing brackets
	for {
		c, ok := w.Peek()
		switch {
		case !ok:
			return w.Ended("the file ends inside a value")
		case len(open) > 0 && c == open[len(open)-1]:
			w.Pos++
			open = open[:len(open)-1]
		default:
			if len(open) > 0 && open[len(open)-1] == '}' {
				if _, err := w.Key(); err != nil {
					return err
				}
			}
			j := SkipValue(w.B, w.Pos, len(open))
			switch {
			case j >= 0:
				w.Pos = j
			case j != Short:
				return w.Unexpected(BadAt(j))
			case w.Pos < len(w.B) && (w.B[w.Pos] == '{' || w.B[w.Pos] == '['):
				open = append(open, w.B[w.Pos]+2) // '{'+2 is '}', '['+2 is ']'
				w.Pos++
				continue
			default:
				if _, err := w.Value(); err != nil {
					return err
				}
			}
		}
		if len(open) == 0 {
			return nil
		}
		c, ok = w.Peek()
		switch {
		case !ok:
			return w.Ended("the file ends inside a value")
		case c == ',':
			w.Pos++
		case c != open[len(open)-1]:
			return w.Unexpected(w.Pos)
		}
	}
}

// Unexpected returns the error for an invalid byte.
func (w *Window) Unexpected(i int) error {
	return w.Syntax(i, "unexpected "+Quote(string(w.B[i:min(len(w.B), i+12)])),
		"this is no valid JSON; a profiler may have written a name without escaping it", nil)
}

// Ended returns the error for truncated input or a failed read.
func (w *Window) Ended(what string) error {
	var syntax *trace.SyntaxError
	var limit *limitError
	switch {
	case errors.As(w.Err, &syntax):
		return w.Err
	case errors.As(w.Err, &limit):
		return w.Syntax(len(w.B), "too large", "raise the limit (--limit) if this is a real trace", w.Err)
	case w.Err == io.EOF:
		return w.Syntax(len(w.B), what+": it is truncated", "copy it again, or let the job finish writing it", nil)
	case errors.Is(w.Err, io.ErrUnexpectedEOF):
		return w.Syntax(len(w.B), "the compressed file is truncated", "copy it again, or let the job finish writing it", w.Err)
	}
	return w.Syntax(len(w.B), "read failed", "", w.Err)
}

// Syntax returns an error at B[i].
func (w *Window) Syntax(i int, msg, cure string, err error) error {
	return &trace.SyntaxError{File: w.file, Pos: w.At(i), Unit: "byte", Msg: msg, Cure: cure, Err: err}
}
