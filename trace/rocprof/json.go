package rocprof

import (
	"io"
	"math"

	"github.com/overlapse/overlapse/trace/lex"
)

// A jsonScanner walks a JSON text without building it.
//
// Its error is sticky: after one, lists are at their end and values are empty.
//
//	for s.array(); s.more(); { for s.object(); s.more(); { switch string(s.key()) { ... default: s.skip() } } }
type jsonScanner struct {
	w     lex.Window
	file  string
	err   error
	open  []byte // the closing brackets of open lists and objects
	first bool   // the last of them has given nothing yet
	buf   []byte
}

func newJSONScanner(r io.Reader, file string) *jsonScanner {
	return &jsonScanner{w: lex.New(r, file, math.MaxInt64), file: file}
}

// scanText is newJSONScanner of a text in memory.
func scanText(text string) *jsonScanner { return &jsonScanner{w: lex.Of(text)} }

// fail keeps the first error.
func (s *jsonScanner) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// peek returns the first byte of what follows; 0 at the end or after an error.
func (s *jsonScanner) peek() byte {
	if s.err != nil {
		return 0
	}
	c, ok := s.w.Peek()
	if !ok {
		s.fail(s.w.Ended("not JSON"))
	}
	return c
}

// at is the position of what follows.
func (s *jsonScanner) at() int64 {
	s.peek()
	return s.w.At(s.w.Pos)
}

func (s *jsonScanner) enter(bracket byte, what string) {
	switch c := s.peek(); {
	case s.err != nil:
	case c != bracket:
		s.fail(s.w.Syntax(s.w.Pos, "expected "+what+", found "+lex.Printable(s.w.B[s.w.Pos:min(len(s.w.B), s.w.Pos+12)]), "", nil))
	default:
		s.w.Pos++
		s.open, s.first = append(s.open, bracket+2), true // '['+2 is ']', '{'+2 is '}'
	}
}

func (s *jsonScanner) array()  { s.enter('[', "a list") }
func (s *jsonScanner) object() { s.enter('{', "an object") }

// more reports whether the open list or object goes on, and closes it if not.
func (s *jsonScanner) more() bool {
	c := s.peek()
	if s.err == nil && !s.first && c == ',' {
		s.w.Pos++
		s.first, c = true, s.peek()
	}
	switch last := len(s.open) - 1; {
	case s.err != nil:
		return false
	case c == s.open[last]:
		s.w.Pos++
		s.open, s.first = s.open[:last], false
		return false
	case !s.first:
		s.fail(s.w.Unexpected(s.w.Pos))
		return false
	}
	s.first = false
	return true
}

// value reads a scalar, or anything else, as it stands in the file. It is valid
// until the next call.
func (s *jsonScanner) value() []byte {
	if s.err != nil {
		return nil
	}
	v, err := s.w.Value()
	s.fail(err)
	s.first = false
	return v
}

// key reads the name of a member. Names with escapes match none.
func (s *jsonScanner) key() []byte {
	if s.err != nil {
		return nil
	}
	k, err := s.w.Key()
	s.fail(err)
	return lex.Unquote(k)
}

func (s *jsonScanner) skip() {
	if s.err == nil {
		s.fail(s.w.Skip())
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

func (s *jsonScanner) text() string { return lex.ValidUTF8(lex.Text(s.value(), &s.buf)) }

// handle reads {"handle": 7}, or 7.
func (s *jsonScanner) handle() int64 { return s.memberOf("handle") }

// memberOf reads a number that is the named member of an object, or stands alone.
func (s *jsonScanner) memberOf(name string) int64 {
	if s.peek() != '{' {
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
