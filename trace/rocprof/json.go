package rocprof

import (
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/overlapse/overlapse/trace"
)

// A jsonScanner walks a JSON text without building it. encoding/json takes over
// ten times as long token by token (BenchmarkEncodingJSONTokens, BenchmarkJSONTokens).
//
// Its error is sticky: after one, lists are at their end and values are empty.
//
//	for s.array(); s.more(); { for s.object(); s.more(); { switch string(s.key()) { ... default: s.skip() } } }
type jsonScanner struct {
	d    *jsontext.Decoder
	file string
	err  error
}

func newJSONScanner(r io.Reader, file string) *jsonScanner {
	return &jsonScanner{d: jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)), file: file}
}

// fail keeps the first error, with its place.
func (s *jsonScanner) fail(msg string, err error) {
	if s.err != nil {
		return
	}
	e := &trace.SyntaxError{File: s.file, Pos: s.d.InputOffset(), Unit: "byte", Msg: msg, Err: err}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		e.Pos, e.Err = syntactic.ByteOffset, syntactic.Err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		e.Msg, e.Cure, e.Err = "the file ends too early", "it may be cut short: copy it again", nil
	}
	s.err = e
}

func (s *jsonScanner) open(kind jsontext.Kind, what string) {
	if s.err != nil {
		return
	}
	if got := s.d.PeekKind(); got != kind && got != 0 {
		s.fail("expected "+what+", found "+got.String(), nil)
		return
	}
	if _, err := s.d.ReadToken(); err != nil {
		s.fail("not JSON", err)
	}
}

func (s *jsonScanner) array()  { s.open('[', "a list") }
func (s *jsonScanner) object() { s.open('{', "an object") }

// more reports whether the open list or object goes on, and closes it if not.
func (s *jsonScanner) more() bool {
	if s.err != nil {
		return false
	}
	switch s.d.PeekKind() {
	case ']', '}':
		if _, err := s.d.ReadToken(); err != nil {
			s.fail("not JSON", err)
		}
		return false
	case 0:
		_, err := s.d.ReadToken()
		s.fail("not JSON", err)
		return false
	}
	return true
}

// value reads a scalar, or anything else, as it stands in the file. It is valid
// until the next call.
func (s *jsonScanner) value() []byte {
	if s.err != nil {
		return nil
	}
	v, err := s.d.ReadValue()
	if err != nil {
		s.fail("not JSON", err)
		return nil
	}
	return v
}

// key reads the name of a member. Names with escapes match none.
func (s *jsonScanner) key() []byte {
	k := s.value()
	if len(k) < 2 {
		return nil
	}
	return k[1 : len(k)-1]
}

func (s *jsonScanner) skip() {
	if s.err != nil {
		return
	}
	if err := s.d.SkipValue(); err != nil {
		s.fail("not JSON", err)
	}
}

// number reads an integer; 0 for anything else.
func (s *jsonScanner) number() int64 {
	n, _ := number(string(s.value()))
	return n
}

// numbers reads an array of integers into a slice and returns how many it had,
// more than fit among them.
func (s *jsonScanner) numbers(into []int64) (n int) {
	for s.array(); s.more(); n++ {
		if x := s.number(); n < len(into) {
			into[n] = x
		}
	}
	return n
}

func (s *jsonScanner) text() string {
	v := s.value()
	if len(v) == 0 || v[0] != '"' {
		return string(v)
	}
	text, err := jsontext.AppendUnquote(nil, v)
	if err != nil && len(text) == 0 {
		return strconv.Quote(string(v))
	}
	return string(text)
}

// handle reads {"handle": 7}, or 7.
func (s *jsonScanner) handle() int64 { return s.memberOf("handle") }

// memberOf reads a number that is the named member of an object, or stands alone.
func (s *jsonScanner) memberOf(name string) int64 {
	if s.err != nil || s.d.PeekKind() != '{' {
		return s.number()
	}
	var n int64
	for s.object(); s.more(); {
		if string(s.key()) == name {
			n = s.number()
		} else {
			s.skip()
		}
	}
	return n
}

// axes reads {"x": 64, "y": 1, "z": 1}.
func (s *jsonScanner) axes() (n [3]int64) {
	for s.object(); s.more(); {
		switch string(s.key()) {
		case "x":
			n[0] = s.number()
		case "y":
			n[1] = s.number()
		case "z":
			n[2] = s.number()
		default:
			s.skip()
		}
	}
	return n
}
