package lex

import "io"

// A Scanner walks a JSON text without building it.
//
// Its error is sticky: after one, lists are at their end and values are empty.
//
//	for s.array(); s.More(); { for s.Object(); s.More(); { switch string(s.Key()) { ... } } }
//
// More passes over the value of a key that nothing has read.
type Scanner struct {
	w     Window
	File  string
	Err   error
	open  []byte // the closing brackets of open lists and objects
	first bool   // the last of them has given nothing yet
	named bool   // a key was read, and not its value
	buf   []byte
}

// NewScanner returns a scanner of a file of at most limit bytes.
func NewScanner(r io.Reader, file string, limit int64) *Scanner {
	return &Scanner{w: New(r, file, limit), File: file}
}

// ScanText returns a scanner of a text in memory.
func ScanText(text string) *Scanner { return &Scanner{w: Window{B: []byte(text), Err: io.EOF}} }

// fail keeps the first error.
func (s *Scanner) fail(err error) {
	if s.Err == nil {
		s.Err = err
	}
}

// Peek returns the first byte of what follows; 0 at the end or after an error.
func (s *Scanner) Peek() byte {
	if s.Err != nil {
		return 0
	}
	c, ok := s.w.Peek()
	if !ok {
		s.fail(s.w.Ended("not JSON"))
	}
	return c
}

// At is the position of what follows.
func (s *Scanner) At() int64 {
	s.Peek()
	return s.w.At(s.w.Pos)
}

func (s *Scanner) enter(bracket byte, what string) {
	s.named = false
	switch c := s.Peek(); {
	case s.Err != nil:
	case c != bracket:
		found := Quote(string(s.w.B[s.w.Pos:min(len(s.w.B), s.w.Pos+12)]))
		s.fail(s.w.Syntax(s.w.Pos, "expected "+what+", found "+found, "give the file as it was written", nil))
	default:
		s.w.Pos++
		s.open, s.first = append(s.open, bracket+2), true // '['+2 is ']', '{'+2 is '}'
	}
}

// array enters the list that follows, Object the object.
func (s *Scanner) array() { s.enter('[', "a list") }

// Object is array of an object.
func (s *Scanner) Object() { s.enter('{', "an object") }

// More reports whether the open list or object has another element, and closes it if not.
func (s *Scanner) More() bool {
	if s.named {
		s.Skip()
	}
	c := s.Peek()
	if s.Err == nil && !s.first && c == ',' {
		s.w.Pos++
		s.first, c = true, s.Peek()
	}
	switch last := len(s.open) - 1; {
	case s.Err != nil:
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

// Value reads a scalar, or anything else, as it stands in the file. It is valid
// until the next call.
func (s *Scanner) Value() []byte {
	if s.Err != nil {
		return nil
	}
	v, err := s.w.Value()
	s.fail(err)
	s.first, s.named = false, false
	return v
}

// Key reads the name of a member. Names with escapes match none.
func (s *Scanner) Key() []byte {
	if s.Err != nil {
		return nil
	}
	k, err := s.w.Key()
	s.fail(err)
	s.named = true
	return Unquote(k)
}

// Skip passes over what follows.
func (s *Scanner) Skip() {
	if s.named = false; s.Err == nil {
		s.fail(s.w.Skip())
	}
}

// Number reads an integer; 0 for anything else.
func (s *Scanner) Number() int64 {
	n, _ := Integer(s.Value())
	return n
}

// Numbers reads an array of integers into a slice and returns how many it had,
// More than fit among them.
func (s *Scanner) Numbers(into []int64) (n int) {
	for s.array(); s.More(); n++ {
		if x := s.Number(); n < len(into) {
			into[n] = x
		}
	}
	return n
}

// Text reads a text; "" for anything else.
func (s *Scanner) Text() string { return ValidUTF8(Text(s.Value(), &s.buf)) }

// Members reads an object: the values of members by their names, integers to an *int64, texts to a *string, and others by a func().
func (s *Scanner) Members(to map[string]any) {
	for s.Object(); s.More(); {
		switch to := to[string(s.Key())].(type) {
		case *int64:
			*to = s.Number()
		case *string:
			*to = s.Text()
		case func():
			to()
		}
	}
}

// Each reads a list: each element by a function.
func (s *Scanner) Each(element func()) {
	for s.array(); s.More(); {
		element()
	}
}
