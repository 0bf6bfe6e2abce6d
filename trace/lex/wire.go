package lex

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/overlapse/overlapse/trace"
)

// Streams of protobuf messages

// counter counts the bytes that are read.
type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	return n, err
}

// Messages calls f for every message of a stream: each after its length or, if number is not 0,
// each the field of that number of one message; other fields are skipped. The bytes are valid
// during the call. What names a message in errors.
func Messages(in io.Reader, file, what string, most uint64, number protowire.Number, f func(message []byte, at int64) error) error {
	c := &counter{Reader: in}
	r := bufio.NewReaderSize(c, 1<<16)
	var buf bytes.Buffer // grows only as the bytes come: a size alone must not cost memory
	for {
		at := c.n - int64(r.Buffered())
		fail := func(msg string, err error) error {
			e := &trace.SyntaxError{File: file, Pos: at, Unit: "byte", Msg: msg, Err: err}
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				e.Msg, e.Cure, e.Err = "the file ends inside a "+what, "it may be cut short: copy it again", nil
			}
			return e
		}
		if _, err := r.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		found := number
		if number != 0 {
			tag, err := binary.ReadUvarint(r)
			if err != nil {
				return fail("read failed", err)
			}
			var kind protowire.Type
			if found, kind = protowire.DecodeTag(tag); kind != protowire.BytesType || found < 1 {
				return fail(fmt.Sprintf("no %s begins here: field %d of type %d", what, found, kind), nil)
			}
		}
		size, err := binary.ReadUvarint(r)
		if err != nil {
			return fail("read failed", err)
		}
		if size > most {
			return fail(fmt.Sprintf("a %s of %d bytes: the most is %d", what, size, most), nil)
		}
		buf.Reset()
		if _, err := io.CopyN(&buf, r, int64(size)); err != nil {
			return fail("read failed", err)
		}
		if found != number {
			continue
		}
		if err := f(buf.Bytes(), at); err != nil {
			return err
		}
	}
}

// A Field walks the fields of a message. Varints and fixed numbers are in
// Number, all else in Bytes. Where the message is broken it stops with a Rest.
//
//	for f := (Field{Rest: message}); f.Next(); { switch f.ID { ... } }
type Field struct {
	Rest   []byte
	ID     protowire.Number
	Number uint64
	Bytes  []byte
}

// Next moves to the next field; false at the end.
func (f *Field) Next() bool {
	if len(f.Rest) == 0 {
		return false
	}
	id, kind, n := protowire.ConsumeTag(f.Rest)
	if n < 0 {
		return false
	}
	value := f.Rest[n:]
	f.ID, f.Number, f.Bytes = id, 0, nil
	var m int
	switch kind {
	case protowire.VarintType:
		f.Number, m = protowire.ConsumeVarint(value)
	case protowire.Fixed32Type:
		var u uint32
		u, m = protowire.ConsumeFixed32(value)
		f.Number = uint64(u)
	case protowire.Fixed64Type:
		f.Number, m = protowire.ConsumeFixed64(value)
	case protowire.BytesType:
		f.Bytes, m = protowire.ConsumeBytes(value)
	default:
		m = protowire.ConsumeFieldValue(id, kind, value)
	}
	if m < 0 {
		return false
	}
	f.Rest = value[m:]
	return true
}

// Fields say where the fields of a message go, by number: what is not a number to a *string or *[]byte, a number to a *uint64,
// *int64 or *bool, numbers that repeat to a *[]uint64 or *[]int64, and any to a func(Field). Others are passed over.
type Fields map[protowire.Number]any

// Read reads a message. It reports false where the message is broken.
func (to Fields) Read(message []byte) (whole bool) {
	f := Field{Rest: message}
	for f.Next() {
		f.put(to[f.ID])
	}
	return len(f.Rest) == 0
}

// Often is Read for a kind of message that is read often.
func (to Fields) Often() func(message []byte) (whole bool) {
	var low [64]any // by number
	for number, into := range to {
		if int(number) < len(low) {
			low[number] = into
		}
	}
	return func(message []byte) bool {
		f := Field{Rest: message}
		for f.Next() {
			if int(f.ID) < len(low) {
				f.put(low[f.ID])
			} else {
				f.put(to[f.ID])
			}
		}
		return len(f.Rest) == 0
	}
}

func (f *Field) put(to any) {
	switch to := to.(type) {
	case nil:
	case *[]byte:
		*to = f.Bytes
	case *uint64:
		*to = f.Number
	case func(Field):
		to(*f)
	case *string:
		*to = string(f.Bytes)
	case *int64:
		*to = int64(f.Number)
	case *bool:
		*to = f.Number != 0
	case *[]uint64:
		*to = varints(*to, f)
	case *[]int64:
		for _, n := range varints(nil, f) {
			*to = append(*to, int64(n))
		}
	}
}

// Last returns the last field of a message that has the number, or the zero value: for messages
// of a few fields.
func Last(message []byte, number protowire.Number) (last Field) {
	for f := (Field{Rest: message}); f.Next(); {
		if f.ID == number {
			last = f
		}
	}
	return last
}

// varints appends the numbers of a repeated field, packed or not.
func varints(list []uint64, f *Field) []uint64 {
	if f.Bytes == nil {
		return append(list, f.Number)
	}
	for b := f.Bytes; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			break
		}
		list, b = append(list, v), b[n:]
	}
	return list
}
