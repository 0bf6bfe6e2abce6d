package chrome

import (
	"errors"
	"io"

	"github.com/overlapse/overlapse/trace"
)

const (
	windowSize = 256 << 10
	// maxValue bounds a single value, an event or a header, which must be in memory as
	// a whole.
	maxValue = 64 << 20
)

// A window is the part of the input that is in memory. An event is decoded in place; if
// the window ends inside it, more is called and the event is decoded again from its
// start.
type window struct {
	r     io.Reader
	b     []byte // b[pos:] is not yet consumed
	pos   int
	base  int64 // position of b[0] in the input
	limit int64 // maximum bytes to read
	file  string
	err   error // sticky: the error after b, io.EOF at the regular end
}

// at returns the position of b[i] in the input.
func (w *window) at(i int) int64 { return w.base + int64(i) }

// more reads further input behind b, drops the consumed bytes, and reports whether it
// read any. It fills all of the free space, so that a value of n bytes is scanned log n
// times.
func (w *window) more() bool {
	if w.err != nil {
		return false
	}
	rest := w.b[w.pos:]
	if len(rest) > maxValue {
		w.err = w.syntax(w.pos, "a value of more than 64 MiB", "is this a trace?", nil)
		return false
	}
	if cap(w.b) < windowSize || len(rest) > cap(w.b)/2 {
		grown := make([]byte, len(rest), max(windowSize, 2*cap(w.b)))
		copy(grown, rest)
		w.b = grown
	} else {
		w.b = w.b[:copy(w.b, rest)]
	}
	w.base += int64(w.pos)
	w.pos = 0
	had := len(w.b)
	for len(w.b) < cap(w.b) && w.err == nil {
		var n int
		n, w.err = w.r.Read(w.b[len(w.b):cap(w.b)])
		w.b = w.b[:len(w.b)+n]
	}
	if w.at(len(w.b)) > w.limit {
		w.b = w.b[:max(had, int(w.limit-w.base))]
		w.err = &limitError{w.limit}
	}
	return len(w.b) > had
}

// peek returns the first byte that is not white space, consuming the white space; ok is
// false at the end of the input.
func (w *window) peek() (c byte, ok bool) {
	for {
		if w.pos = skipSpace(w.b, w.pos); w.pos < len(w.b) {
			return w.b[w.pos], true
		}
		if !w.more() {
			return 0, false
		}
	}
}

// value returns the next value, valid until the next call of a method.
func (w *window) value() ([]byte, error) {
	if _, ok := w.peek(); !ok {
		return nil, w.ended("a value is missing")
	}
	for {
		j := skipValue(w.b, w.pos, 0)
		if j >= 0 {
			v := w.b[w.pos:j]
			w.pos = j
			return v, nil
		}
		if j != short {
			return nil, w.unexpected(badAt(j))
		}
		if !w.more() {
			return nil, w.ended("the file ends inside a value")
		}
	}
}

// key returns the next key of an object with its quotes, and moves to its value. At the
// end of the object the key is nil.
func (w *window) key() ([]byte, error) {
	for {
		key, j := nextKey(w.b, w.pos)
		if j >= 0 {
			w.pos = j
			return key, nil
		}
		if j != short {
			return nil, w.unexpected(badAt(j))
		}
		if !w.more() {
			return nil, w.ended("the file ends inside an object")
		}
	}
}

// skip skips a value of any size, in pieces if it is larger than the window.
func (w *window) skip() error {
	var open []byte // the pending closing brackets
	for {
		c, ok := w.peek()
		switch {
		case !ok:
			return w.ended("the file ends inside a value")
		case len(open) > 0 && c == open[len(open)-1]:
			w.pos++
			open = open[:len(open)-1]
		default:
			if len(open) > 0 && open[len(open)-1] == '}' {
				if _, err := w.key(); err != nil {
					return err
				}
			}
			j := skipValue(w.b, w.pos, len(open))
			switch {
			case j >= 0:
				w.pos = j
			case j != short:
				return w.unexpected(badAt(j))
			case w.pos < len(w.b) && (w.b[w.pos] == '{' || w.b[w.pos] == '['):
				open = append(open, w.b[w.pos]+2) // '{'+2 is '}', '['+2 is ']'
				w.pos++
				continue
			default:
				if _, err := w.value(); err != nil {
					return err
				}
			}
		}
		if len(open) == 0 {
			return nil
		}
		c, ok = w.peek()
		switch {
		case !ok:
			return w.ended("the file ends inside a value")
		case c == ',':
			w.pos++
		case c != open[len(open)-1]:
			return w.unexpected(w.pos)
		}
	}
}

// unexpected returns the error for an invalid byte.
func (w *window) unexpected(i int) error {
	return w.syntax(i, "unexpected "+printable(w.b[i:min(len(w.b), i+12)]),
		"this is no valid JSON; a profiler may have written a name without escaping it", nil)
}

// ended returns the error for truncated input or a failed read.
func (w *window) ended(what string) error {
	var syntax *trace.SyntaxError
	var limit *limitError
	switch {
	case errors.As(w.err, &syntax):
		return w.err
	case errors.As(w.err, &limit):
		return w.syntax(len(w.b), "too large", "raise the limit (--limit) if this is a real trace", w.err)
	case w.err == io.EOF:
		return w.syntax(len(w.b), what+": it is truncated", "copy it again, or let the job finish writing it", nil)
	case errors.Is(w.err, io.ErrUnexpectedEOF):
		return w.syntax(len(w.b), "the compressed file is truncated", "copy it again, or let the job finish writing it", w.err)
	}
	return w.syntax(len(w.b), "read failed", "", w.err)
}

func (w *window) syntax(i int, msg, cure string, err error) error {
	return &trace.SyntaxError{File: w.file, Pos: w.at(i), Unit: "byte", Msg: msg, Cure: cure, Err: err}
}

// printable quotes a part of the input for an error message.
func printable(b []byte) string { return quote(string(b)) }
