// Package chakra reads Chakra's execution traces (.et): protobuf messages, each
// after its length, first one of metadata, then a node each. Beside a Kineto file
// they have what it may lack, the shapes of operators. Alone they are a run if
// their nodes have durations.
//
//	chakra.go  the messages, and an execution trace of them
//	run.go     a run of them
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
	nodeID, nodeName, nodeType, nodeControl, nodeData = 1, 2, 3, 4, 5
	nodeStart, nodeDuration, nodeInputs, nodeAttr     = 6, 7, 8, 10

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

// messages calls metadata for the first message of a trace and node for each other one. It is an error if they report that
// a message is broken.
func messages(in io.Reader, file string, metadata func(b []byte) bool, take func(n *node) bool) error {
	first := true
	return lex.Messages(in, file, "message", maxMessage, 0, func(b []byte, at int64) error {
		n := node{at: at}
		if first && metadata(b) || !first && n.read(b) && take(&n) {
			first = false
			return nil
		}
		return &trace.SyntaxError{File: file, Pos: at, Unit: "byte", Msg: "no valid message of a Chakra trace"}
	})
}

// A node is work of a device, or a call of the host between such work.
type node struct {
	id, kind    uint64
	name        string
	start, took uint64 // microseconds
	after       []uint64
	inputs      []byte // a message; valid during the call that hands out the node
	attributes  []attribute
	at          int64 // in the file
}

// read reads the fields of a node. It reports false if the message is broken.
func (n *node) read(b []byte) bool {
	good := true
	whole := lex.Fields{
		nodeID: &n.id, nodeType: &n.kind, nodeControl: &n.after, nodeData: &n.after,
		nodeStart: &n.start, nodeDuration: &n.took, nodeInputs: &n.inputs,
		nodeName: func(f lex.Field) { n.name = string(bytes.ToValidUTF8(f.Bytes, []byte("\ufffd"))) },
		nodeAttr: func(f lex.Field) {
			a, ok := readAttribute(f.Bytes)
			n.attributes, good = append(n.attributes, a), good && ok
		},
	}.Read(b)
	n.start, n.took = min(n.start, uint64(mostMicros)), min(n.took, uint64(mostMicros))
	return good && whole
}

// An attribute is a named value of a node or of the metadata.
type attribute struct {
	name, text string
	number     int64
	list       []int64
}

func readAttribute(b []byte) (a attribute, ok bool) {
	zigzag := func(f lex.Field) { a.number = protowire.DecodeZigZag(f.Number) }
	list := func(f lex.Field) { lex.Fields{1: &a.list}.Read(f.Bytes) } // values
	ok = lex.Fields{
		attrName: &a.name, attrString: &a.text, attrSint32: zigzag, attrSint64: zigzag,
		attrInt32: &a.number, attrInt64: &a.number, attrU32: &a.number, attrU64: &a.number,
		attrFixed64: &a.number, attrSfixed64: &a.number, attrFixed32: &a.number, attrBool: &a.number,
		attrInt32List: list, attrInt64List: list, attrU32List: list, attrU64List: list,
	}.Read(b)
	return a, ok
}

// Read reads a trace. An error is a *trace.SyntaxError.
func Read(in io.Reader, file string) (*assemble.Execution, error) {
	x := assemble.NewExecution(file)
	// The first schema had no version, and its attributes where the version is now.
	metadata := func(b []byte) bool {
		named := func(f lex.Field) {
			if a, ok := readAttribute(f.Bytes); ok && a.name == "pid" {
				x.Process = a.number
			}
		}
		return lex.Fields{metadataAttr: named, metadataAttrBeforeVersions: named}.Read(b)
	}
	err := messages(in, file, metadata, func(n *node) bool {
		op := assemble.Node{ID: int64(n.id), Name: n.name}
		for _, a := range n.attributes {
			if a.name == "rf_id" {
				op.Record = a.number
			}
		}
		whole := lex.Fields{inputShapes: &op.Inputs.Shapes, inputTypes: &op.Inputs.Types}.Read(n.inputs)
		op.Inputs.Shapes, op.Inputs.Types = jsonOf(op.Inputs.Shapes), jsonOf(op.Inputs.Types)
		x.Add(op)
		return whole
	})
	if err != nil {
		return nil, err
	}
	x.Finish()
	return x, nil
}

// jsonOf is a list as Python prints it, with the quotes of JSON.
func jsonOf(list []byte) []byte { return bytes.ReplaceAll(list, []byte("'"), []byte(`"`)) }
