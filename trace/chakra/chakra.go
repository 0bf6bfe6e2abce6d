// Package chakra reads Chakra's execution traces (.et): protobuf messages, each
// after its length, first one of metadata, then a node each. They have no
// times of a device, only what a Kineto file may lack: the shapes of operators.
package chakra

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
)

// maxMessage bounds the bytes of one message. Real ones are a few kilobytes.
const maxMessage = 64 << 20

// Fields of the messages, as in Chakra's et_def.proto.
const (
	nodeID, nodeName, nodeInputs, nodeAttr = 1, 2, 8, 10

	inputShapes, inputTypes = 2, 3

	attrName                                 = 1
	attrInt32, attrInt64, attrU32, attrU64   = 7, 9, 11, 13
	attrSint32, attrSint64                   = 15, 17
	attrFixed64, attrSfixed64, attrFixed32   = 21, 25, 19
	metadataAttr, metadataAttrBeforeVersions = 2, 1
)

// IsTrace reports whether the first bytes of a file are those of a Chakra
// trace: a length, and as many bytes of metadata, that begin with a version in
// letters or with a named attribute.
func IsTrace(head []byte) bool {
	size, n := protowire.ConsumeVarint(head)
	if n < 0 || size == 0 || size > maxMessage {
		return false
	}
	b := head[n:min(uint64(len(head)), uint64(n)+size)]
	number, kind, m := protowire.ConsumeTag(b)
	if m < 0 || kind != protowire.BytesType || number > metadataAttr {
		return false
	}
	inner, k := binary.Uvarint(b[m:])
	if k <= 0 || inner == 0 || uint64(m+k)+inner > size || uint64(len(b)-m-k) < min(inner, 4) {
		return false
	}
	b = b[m+k:]
	if b[0] != attrName<<3|byte(protowire.BytesType) {
		return number == 1 && isWord(b[:min(inner, uint64(len(b)))]) // a version
	}
	name, _ := protowire.ConsumeBytes(b[1:])
	return len(name) > 0 && isWord(name)
}

// isWord reports whether the bytes are those of a name or a version.
func isWord(b []byte) bool {
	return !bytes.ContainsFunc(b, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-+", r)
	})
}

// Read reads a trace. An error is a *trace.SyntaxError.
func Read(in io.Reader, file string) (*assemble.Execution, error) {
	x := assemble.NewExecution(file)
	r := bufio.NewReaderSize(in, 1<<16)
	var at int64
	fail := func(msg string, err error) error {
		e := &trace.SyntaxError{File: file, Pos: at, Unit: "byte", Msg: msg, Err: err}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			e.Msg, e.Cure, e.Err = "the file ends inside a message", "it may be cut short: copy it again", nil
		}
		return e
	}
	var buf bytes.Buffer
	for first := true; ; first = false {
		if _, err := r.Peek(1); errors.Is(err, io.EOF) {
			x.Finish()
			return x, nil
		}
		size, err := binary.ReadUvarint(r)
		if err != nil {
			return nil, fail("read failed", err)
		}
		if size > maxMessage {
			return nil, fail(fmt.Sprintf("a message of %d bytes: the most is %d", size, maxMessage), nil)
		}
		buf.Reset()
		if _, err := io.CopyN(&buf, r, int64(size)); err != nil {
			return nil, fail("read failed", err)
		}
		if first {
			err = metadata(x, buf.Bytes())
		} else {
			err = node(x, buf.Bytes())
		}
		if err != nil {
			return nil, fail("no valid message of a Chakra trace", err)
		}
		at += int64(protowire.SizeVarint(size)) + int64(size)
	}
}

// metadata reads the number of the process. The first schema had no version,
// and its attributes where the version is now.
func metadata(x *assemble.Execution, b []byte) error {
	return fields(b, func(number protowire.Number, value []byte, _ uint64) error {
		if number != metadataAttr && number != metadataAttrBeforeVersions {
			return nil
		}
		if name, v, err := attribute(value); err == nil && name == "pid" {
			x.Process = v
		}
		return nil
	})
}

// node reads an operator. Its shapes and types are texts, as Python prints lists.
func node(x *assemble.Execution, b []byte) error {
	var id, record int64
	var name string
	var shapes, types []byte
	err := fields(b, func(number protowire.Number, value []byte, v uint64) error {
		switch number {
		case nodeID:
			id = int64(v)
		case nodeName:
			name = string(bytes.ToValidUTF8(value, []byte("\ufffd")))
		case nodeInputs:
			return fields(value, func(number protowire.Number, value []byte, _ uint64) error {
				switch number {
				case inputShapes:
					shapes = jsonOf(value)
				case inputTypes:
					types = jsonOf(value)
				}
				return nil
			})
		case nodeAttr:
			name, v, err := attribute(value)
			if name == "rf_id" {
				record = v
			}
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	x.Add(assemble.Node{ID: id, Record: record, Name: name, Inputs: assemble.Values{Shapes: shapes, Types: types}})
	return nil
}

// jsonOf is a list as Python prints it, with the quotes of JSON.
func jsonOf(list []byte) []byte { return bytes.ReplaceAll(list, []byte("'"), []byte(`"`)) }

// attribute reads an attribute's name and, where it is one, its whole number.
func attribute(b []byte) (name string, value int64, err error) {
	err = fields(b, func(number protowire.Number, bytes []byte, v uint64) error {
		switch number {
		case attrName:
			name = string(bytes)
		case attrInt32, attrInt64, attrU32, attrU64, attrFixed64, attrSfixed64, attrFixed32:
			value = int64(v)
		case attrSint32, attrSint64:
			value = protowire.DecodeZigZag(v)
		}
		return nil
	})
	return name, value, err
}

// fields calls f for every field of a message, with its bytes or its number.
func fields(b []byte, f func(number protowire.Number, value []byte, v uint64) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var value []byte
		var v uint64
		switch kind {
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.Fixed64Type:
			v, n = protowire.ConsumeFixed64(b)
		case protowire.Fixed32Type:
			var w uint32
			w, n = protowire.ConsumeFixed32(b)
			v = uint64(w)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(number, value, v); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
