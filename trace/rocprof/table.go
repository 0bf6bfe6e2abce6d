package rocprof

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/trace"
)

// maxRecord bounds the bytes of one CSV record. A longer one is an unclosed
// quote, not a kernel's name.
const maxRecord = 64 << 20

// endMark is a record behind the last one. An unclosed quote swallows it: csv.Reader does not
// tell where quotes inside of quoted fields are not doubled, as rocprof v1 writes them.
const endMark = "\x00"

// A table reads CSV records whose columns are known by name. Empty lines are left out.
type table struct {
	file    string
	header  []string // as the file has it
	columns map[string]int
	line    int64    // of the record in hand, from 1
	fields  []string // of the record in hand; the slice is valid until the next call of next

	in     source
	csv    *csv.Reader
	behind int64 // the line behind the record in hand
}

// A source is the bytes of a file and the end mark. It fails where a record is too long.
type source struct {
	io.Reader
	mark *strings.Reader // that is read last
	left int             // bytes that may be read until the next record
	read int64           // bytes
}

var errLongRecord = fmt.Errorf("record longer than %d bytes", maxRecord)

func (s *source) Read(b []byte) (int, error) {
	if s.left <= 0 {
		return 0, errLongRecord
	}
	n, err := s.Reader.Read(b[:min(len(b), s.left)])
	s.left, s.read = s.left-n, s.read+int64(n)
	return n, err
}

// newTable reads the header. An empty file has none and is an error.
func newTable(r io.Reader, file string) (*table, error) {
	t := &table{file: file, behind: 1}
	mark := strings.NewReader("\n" + endMark + "\n")
	t.in = source{Reader: io.MultiReader(r, mark), mark: mark, left: maxRecord}
	buffered := bufio.NewReaderSize(&t.in, 1<<16)
	if start, _ := buffered.Peek(3); string(start) == "\ufeff" {
		_, _ = buffered.Discard(3)
		t.in.read -= 3
	}
	t.csv = csv.NewReader(buffered)
	t.csv.FieldsPerRecord, t.csv.LazyQuotes, t.csv.ReuseRecord = -1, true, true
	ok, err := t.next()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, &trace.SyntaxError{File: file, Msg: "no header: the file is empty"}
	}
	t.columns = make(map[string]int, len(t.fields))
	for i, f := range t.fields {
		name := strings.TrimSpace(f)
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

// field returns the field at a position that column gave; "" where the file
// lacks the column or the record is short.
func (t *table) field(i int) string {
	if i < 0 || i >= len(t.fields) {
		return ""
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
// others go to the ledger.
func (t *table) each(b *trace.Builder, read func()) error {
	for {
		ok, err := t.next()
		if err != nil || !ok {
			return err
		}
		if len(t.fields) == len(t.header) {
			read()
		} else {
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

// next reads one record; ok is false at the end of the file.
func (t *table) next() (ok bool, err error) {
	t.in.left = maxRecord
	t.fields, err = t.csv.Read()
	if err != nil {
		t.line = t.behind
	}
	switch {
	case errors.Is(err, errLongRecord):
		return false, t.fail("check for an unclosed quote", "%v", err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return false, &trace.SyntaxError{
			File: t.file, Pos: t.line, Unit: "line", Msg: "the compressed file is truncated",
			Cure: "copy it again, or let the job finish writing it", Err: err,
		}
	case err != nil:
		return false, &trace.SyntaxError{File: t.file, Pos: t.line, Unit: "line", Msg: "read failed", Err: err}
	}
	n := len(t.fields) - 1
	line, _ := t.csv.FieldPos(0)
	last, _ := t.csv.FieldPos(n)
	t.line, t.behind = int64(line), int64(last+strings.Count(t.fields[n], "\n")+1)
	if t.in.mark.Len() > 0 || t.csv.InputOffset() < t.in.read {
		return true, nil
	}
	if text, cut := strings.CutSuffix(t.fields[n], "\n"+endMark+"\n"); cut {
		return false, t.fail("the file may be cut short", "quote never closed: %.40q", `"`+text)
	}
	return false, nil
}

// number parses a decimal integer, with or without spaces around it; 0 for anything else.
func number(f string) (n int64, ok bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(f), 10, 64)
	if err != nil {
		return 0, false
	}
	return n, true
}
