// Package chakra reads Chakra's execution traces (.et): protobuf messages, each
// after its length, first one of metadata, then a node each. Beside a Kineto file
// they have what it may lack, the shapes of operators. Alone they are a run if
// their nodes have durations.
package chakra

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"unicode"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/lex"
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
	attrBool, attrString                     = 27, 29
	attrInt32List, attrInt64List             = 8, 10
	attrU32List, attrU64List                 = 12, 14
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
	read := metadata
	err := lex.Messages(in, file, "message", maxMessage, 0, func(b []byte, at int64) error {
		if !read(x, b) {
			return &trace.SyntaxError{File: file, Pos: at, Unit: "byte", Msg: "no valid message of a Chakra trace"}
		}
		read = node
		return nil
	})
	if err != nil {
		return nil, err
	}
	x.Finish()
	return x, nil
}

// metadata reads the number of the process. The first schema had no version,
// and its attributes where the version is now. It reports false if the message is broken.
func metadata(x *assemble.Execution, b []byte) bool {
	f := lex.Field{Rest: b}
	for f.Next() {
		if f.ID != metadataAttr && f.ID != metadataAttrBeforeVersions {
			continue
		}
		if name, v, ok := attribute(f.Bytes); ok && name == "pid" {
			x.Process = v
		}
	}
	return len(f.Rest) == 0
}

// node reads an operator. Its shapes and types are texts, as Python prints lists. It reports
// false if the message is broken.
func node(x *assemble.Execution, b []byte) bool {
	var n assemble.Node
	f := lex.Field{Rest: b}
	for f.Next() {
		switch f.ID {
		case nodeID:
			n.ID = int64(f.Number)
		case nodeName:
			n.Name = string(bytes.ToValidUTF8(f.Bytes, []byte("\ufffd")))
		case nodeInputs:
			in := lex.Field{Rest: f.Bytes}
			for in.Next() {
				switch in.ID {
				case inputShapes:
					n.Inputs.Shapes = jsonOf(in.Bytes)
				case inputTypes:
					n.Inputs.Types = jsonOf(in.Bytes)
				}
			}
			if len(in.Rest) > 0 {
				return false
			}
		case nodeAttr:
			name, v, ok := attribute(f.Bytes)
			if !ok {
				return false
			}
			if name == "rf_id" {
				n.Record = v
			}
		}
	}
	x.Add(n)
	return len(f.Rest) == 0
}

// jsonOf is a list as Python prints it, with the quotes of JSON.
func jsonOf(list []byte) []byte { return bytes.ReplaceAll(list, []byte("'"), []byte(`"`)) }

// attribute reads an attribute's name and, where it is one, its whole number.
func attribute(b []byte) (name string, value int64, ok bool) {
	f := lex.Field{Rest: b}
	for f.Next() {
		switch f.ID {
		case attrName:
			name = string(f.Bytes)
		case attrInt32, attrInt64, attrU32, attrU64, attrFixed64, attrSfixed64, attrFixed32:
			value = int64(f.Number)
		case attrSint32, attrSint64:
			value = protowire.DecodeZigZag(f.Number)
		}
	}
	return name, value, len(f.Rest) == 0
}
