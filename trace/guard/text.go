package guard

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// dot replaces each unsafe character.
const dot = '·'

// mostMarks is how many marks may combine with one letter.
const mostMarks = 2

// Names in a trace, a file's name and a profile's text are untrusted: they may hold escape sequences, control
// characters, and characters that reverse the line. Line, Writer and JSON agree on which characters a terminal may get.

// safe reports whether a terminal may get the character within a line: letters,
// marks, digits, punctuation, symbols and spaces. Controls (C0, DEL, C1),
// bidirectional and other format characters, separators of lines, private and
// unassigned code points are not safe.
func safe(r rune) bool { return unicode.IsGraphic(r) && r != utf8.RuneError }

// Line returns the text on one line: line breaks and tabs become spaces, every
// other unsafe character a dot, and at most two marks combine with a letter.
func Line(s string) string {
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	marks := 0
	for _, r := range s {
		switch {
		case unicode.Is(unicode.M, r):
			if marks++; marks > mostMarks || b.Len() == 0 {
				continue
			}
		case unicode.IsSpace(r) && r != 0x85: // next line is a control of C1
			r, marks = ' ', 0
		case !safe(r):
			r, marks = dot, 0
		default:
			marks = 0
		}
		b.WriteRune(r)
	}
	return b.String()
}

// isASCII reports whether the text has nothing but printable ASCII.
func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Writer returns a writer of text to w: line feeds and tabs pass, every other
// unsafe character becomes a dot.
func Writer(w io.Writer) io.Writer {
	return &writer{w: w, unsafe: func(b []byte, r rune) []byte { return utf8.AppendRune(b, dot) }}
}

// JSON returns a writer of JSON to w. Unsafe characters become \u escapes: in
// JSON they occur in strings only, so a reader gets the same document. A carriage return stands
// between values only, and becomes a space.
func JSON(w io.Writer) io.Writer {
	return &writer{w: w, unsafe: func(b []byte, r rune) []byte {
		if r == '\r' {
			return append(b, ' ')
		}
		if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
			return fmt.Appendf(b, `\u%04x\u%04x`, hi, lo)
		}
		return fmt.Appendf(b, `\u%04x`, r)
	}}
}

// A writer replaces unsafe characters. The bytes of a character may come in two writes.
type writer struct {
	w      io.Writer
	unsafe func(b []byte, r rune) []byte // appends the replacement of r
	part   []byte                        // the beginning of a character
	b      []byte                        // reused
}

// Write implements io.Writer. What is left of an incomplete character at the end of all
// writes is dropped.
func (w *writer) Write(p []byte) (int, error) {
	in := p
	if len(w.part) > 0 {
		in = append(w.part, p...)
	}
	w.b = w.b[:0]
	for len(in) > 0 && (in[0] < utf8.RuneSelf || utf8.FullRune(in)) {
		r, n := utf8.DecodeRune(in)
		if r == '\n' || r == '\t' || safe(r) {
			w.b = append(w.b, in[:n]...)
		} else {
			w.b = w.unsafe(w.b, r)
		}
		in = in[n:]
	}
	w.part = append([]byte(nil), in...)
	if _, err := w.w.Write(w.b); err != nil {
		return 0, err
	}
	return len(p), nil
}
