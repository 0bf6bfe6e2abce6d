package rocprof

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// maxRecord bounds the bytes of one CSV record. A longer one is an unclosed
// quote, not a kernel's name.
const maxRecord = 64 << 20

// A table reads CSV records whose columns are known by name. It differs from
// encoding/csv in what profilers need: a quote inside a quoted field that is
// neither doubled nor followed by a separator is data (rocprof v1 never
// doubles them), nothing is allocated per record, and a record has a largest
// size. encoding/csv takes twice as long (BenchmarkEncodingCSV, BenchmarkTable).
type table struct {
	file    string
	header  []string // as the file has it
	columns map[string]int
	line    int64    // of the record in hand, from 1
	fields  [][]byte // of the record in hand; valid until the next call of next

	r       io.Reader
	buf     []byte
	at, end int   // unread bytes are buf[at:end]
	lines   int64 // that the record in hand takes
	err     error // what r returned last
	escaped []int // scratch: fields with doubled quotes
}

// newTable reads the header. An empty file has none and is an error.
func newTable(r io.Reader, file string) (*table, error) {
	t := &table{file: file, r: r, buf: make([]byte, 1<<16), line: 1}
	if err := t.fill(); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(t.buf[:t.end], []byte("\ufeff")) {
		t.at = len("\ufeff")
	}
	for {
		ok, err := t.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, &trace.SyntaxError{File: file, Msg: "no header: the file is empty"}
		}
		if len(t.fields) > 1 || len(t.fields[0]) > 0 {
			break
		}
	}
	t.columns = make(map[string]int, len(t.fields))
	for i, f := range t.fields {
		name := string(bytes.TrimSpace(f))
		t.header = append(t.header, name)
		if key := strings.ToLower(name); !t.has(key) {
			t.columns[key] = i
		}
	}
	return t, nil
}

// has reports whether the file has the column, given in lower case.
func (t *table) has(column string) bool {
	_, ok := t.columns[column]
	return ok
}

// column returns the position of the first of the names, in lower case, that
// the file has, or trace.None.
func (t *table) column(names ...string) int {
	for _, n := range names {
		if i, ok := t.columns[n]; ok {
			return i
		}
	}
	return trace.None
}

// field returns the field at a position that column gave; nil where the file
// lacks the column or the record is short.
func (t *table) field(i int) []byte {
	if i < 0 || i >= len(t.fields) {
		return nil
	}
	return t.fields[i]
}

// require fails if the header lacks one of the columns, given in lower case.
func (t *table) require(cure string, columns ...string) error {
	for _, c := range columns {
		if !t.has(c) {
			return t.fail(cure, "no column %s; the header is %.300q", c, strings.Join(t.header, ","))
		}
	}
	return nil
}

// each calls read for every record that has as many fields as the header;
// others go to the ledger, apart from empty lines.
func (t *table) each(b *trace.Builder, read func()) error {
	for {
		ok, err := t.next()
		if err != nil || !ok {
			return err
		}
		switch {
		case len(t.fields) == len(t.header):
			read()
		case len(t.fields) > 1 || len(t.fields[0]) > 0:
			t.note(b, trace.Skipped, "row with more or fewer fields than the header")
		}
	}
}

// note enters the record in hand into the ledger.
func (t *table) note(b *trace.Builder, a trace.Action, reason string) {
	b.Note(a, t.file, reason, "line", t.line)
}

// fail is an error at the record in hand.
func (t *table) fail(cure, format string, args ...any) error {
	return &trace.SyntaxError{File: t.file, Pos: t.line, Unit: "line", Msg: fmt.Sprintf(format, args...), Cure: cure}
}

// next reads one record; ok is false at the end of the file. An empty line is
// a record of one empty field.
func (t *table) next() (ok bool, err error) {
	t.line += t.lines
	t.lines = 0
	for {
		if t.at < t.end {
			n, err := t.split(t.buf[t.at:t.end], errors.Is(t.err, io.EOF))
			if err != nil {
				return false, err
			}
			if n > 0 {
				t.lines = int64(bytes.Count(t.buf[t.at:t.at+n], []byte{'\n'}))
				t.at += n
				return true, nil
			}
			if t.end-t.at >= maxRecord {
				return false, t.fail("check for an unclosed quote", "record longer than %d bytes", maxRecord)
			}
		} else if errors.Is(t.err, io.EOF) {
			return false, nil
		}
		if err := t.fill(); err != nil {
			return false, err
		}
	}
}

// fill moves the unread bytes to the front and fills the buffer behind them,
// doubling it when it is full of them.
func (t *table) fill() error {
	if errors.Is(t.err, io.ErrUnexpectedEOF) {
		return &trace.SyntaxError{File: t.file, Pos: t.line, Unit: "line", Msg: "the compressed file is truncated", Cure: "copy it again, or let the job finish writing it", Err: t.err}
	}
	if t.err != nil {
		return &trace.SyntaxError{File: t.file, Pos: t.line, Unit: "line", Msg: "read failed", Err: t.err}
	}
	if t.at > 0 {
		t.end = copy(t.buf, t.buf[t.at:t.end])
		t.at = 0
	}
	if t.end == len(t.buf) {
		t.buf = append(t.buf, make([]byte, len(t.buf))...)
	}
	for empty := 0; t.end < len(t.buf) && t.err == nil; {
		var n int
		n, t.err = t.r.Read(t.buf[t.end:])
		t.end += n
		if n > 0 {
			empty = 0
		} else if empty++; empty > 100 { // as in bufio
			t.err = io.ErrNoProgress
		}
	}
	return nil
}

// split cuts the first record of b into t.fields and returns its length, or 0
// if its end may lie behind b.
func (t *table) split(b []byte, last bool) (int, error) {
	t.fields = t.fields[:0]
	escaped := t.escaped[:0]
	for i := 0; ; i++ {
		var f []byte
		if i < len(b) && b[i] == '"' {
			end, next, esc := closingQuote(b, i+1, last)
			if end < 0 {
				if last {
					return 0, t.fail("the file may be cut short", "quote never closed: %.40q", b[i:])
				}
				return 0, nil
			}
			if esc {
				escaped = append(escaped, len(t.fields))
			}
			f, i = b[i+1:end:end], next
		} else {
			start := i
			for i < len(b) && b[i] != ',' && b[i] != '\n' {
				i++
			}
			if i == len(b) && !last {
				return 0, nil
			}
			f = b[start:i:i]
			if i == len(b) || b[i] == '\n' {
				f = bytes.TrimSuffix(f, []byte{'\r'})
			}
		}
		t.fields = append(t.fields, f)
		if i == len(b) || b[i] == '\n' {
			for _, k := range escaped {
				t.fields[k] = undouble(t.fields[k])
			}
			t.escaped = escaped
			return min(i+1, len(b)), nil
		}
	}
}

// closingQuote finds the quote that ends the field whose first byte is b[i],
// and the separator behind it; end is -1 if that takes bytes behind b.
func closingQuote(b []byte, i int, last bool) (end, next int, escaped bool) {
	for {
		q := bytes.IndexByte(b[i:], '"')
		if q < 0 {
			return -1, 0, false
		}
		q += i
		rest := b[q+1:]
		switch {
		case len(rest) == 0:
			if !last {
				return -1, 0, false
			}
			return q, q + 1, escaped
		case rest[0] == ',' || rest[0] == '\n':
			return q, q + 1, escaped
		case rest[0] == '\r' && (len(rest) == 1 || rest[1] == '\n'):
			if len(rest) == 1 && !last {
				return -1, 0, false
			}
			return q, q + 2, escaped
		case rest[0] == '"':
			escaped = true
			i = q + 2
		default:
			i = q + 1 // data
		}
	}
}

// undouble replaces "" by " in place.
func undouble(f []byte) []byte {
	out := f[:0]
	for i := 0; i < len(f); i++ {
		out = append(out, f[i])
		if f[i] == '"' && i+1 < len(f) && f[i+1] == '"' {
			i++
		}
	}
	return out
}

// number parses a decimal integer, with or without spaces around it.
func number(f []byte) (n int64, ok bool) {
	f = bytes.TrimSpace(f)
	neg := len(f) > 0 && f[0] == '-'
	if neg {
		f = f[1:]
	}
	if len(f) == 0 || len(f) > 19 {
		return 0, false
	}
	for _, c := range f {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0') // 19 digits overflow to a negative value at most once
	}
	if n < 0 {
		return 0, false
	}
	if neg {
		n = -n
	}
	return n, true
}
