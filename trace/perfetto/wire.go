package perfetto

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/overlapse/overlapse/trace"
)

// maxPacket bounds the bytes of one packet. Perfetto's own are under 1 MiB.
const maxPacket = 256 << 20

// packetField is the one field of a trace: a packet.
const packetField = 1

// packets calls f for every packet of a trace. The bytes are valid during the call.
func packets(in io.Reader, file string, f func(packet []byte, at int64) error) error {
	r := bufio.NewReaderSize(in, 1<<16)
	var buf []byte
	at := int64(0)
	fail := func(msg string, err error) error {
		e := &trace.SyntaxError{File: file, Pos: at, Unit: "byte", Msg: msg, Err: err}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			e.Msg, e.Cure, e.Err = "the file ends inside a packet", "it may be cut short: copy it again", nil
		}
		return e
	}
	for {
		tag, n, err := readVarint(r)
		if n == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fail("read failed", err)
		}
		number, kind := protowire.DecodeTag(tag)
		if kind != protowire.BytesType || number < 1 {
			return fail(fmt.Sprintf("no packet begins here: field %d of type %d", number, kind), nil)
		}
		size, m, err := readVarint(r)
		if err != nil {
			return fail("read failed", err)
		}
		if size > maxPacket {
			return fail(fmt.Sprintf("a packet of %d bytes: the most is %d", size, maxPacket), nil)
		}
		if buf, err = readInto(r, buf, int(size)); err != nil {
			return fail("read failed", err)
		}
		if number == packetField {
			if err := f(buf, at); err != nil {
				return err
			}
		}
		at += int64(n+m) + int64(size)
	}
}

// readInto reads size bytes, growing the buffer only as they come: a size
// alone must not cost memory.
func readInto(r io.Reader, buf []byte, size int) ([]byte, error) {
	const step = 1 << 20
	buf = buf[:0]
	for len(buf) < size {
		n := min(step, size-len(buf))
		if cap(buf)-len(buf) < n {
			buf = append(buf, make([]byte, n)...)[:len(buf)]
		}
		m, err := io.ReadFull(r, buf[len(buf):len(buf)+n])
		buf = buf[:len(buf)+m]
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return buf, err
		}
	}
	return buf, nil
}

// readVarint reads a varint and how many bytes it took.
func readVarint(r *bufio.Reader) (v uint64, n int, err error) {
	var b [binary.MaxVarintLen64]byte
	for n < len(b) {
		if b[n], err = r.ReadByte(); err != nil {
			if n > 0 && errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, n, err
		}
		n++
		if b[n-1] < 0x80 {
			v, m := protowire.ConsumeVarint(b[:n])
			if m < 0 {
				return 0, n, protowire.ParseError(m)
			}
			return v, n, nil
		}
	}
	return 0, n, errors.New("a number of more than ten bytes")
}

// A field walks the fields of a message. Varints and fixed numbers are in
// number, all else in bytes. Where the message is broken it stops with a rest.
//
//	for f := (field{rest: message}); f.next(); { switch f.id { ... } }
type field struct {
	rest   []byte
	id     protowire.Number
	number uint64
	bytes  []byte
}

func (f *field) next() bool {
	if len(f.rest) == 0 {
		return false
	}
	id, kind, n := protowire.ConsumeTag(f.rest)
	if n < 0 {
		return false
	}
	value := f.rest[n:]
	f.id, f.number, f.bytes = id, 0, nil
	var m int
	switch kind {
	case protowire.VarintType:
		f.number, m = protowire.ConsumeVarint(value)
	case protowire.Fixed32Type:
		var u uint32
		u, m = protowire.ConsumeFixed32(value)
		f.number = uint64(u)
	case protowire.Fixed64Type:
		f.number, m = protowire.ConsumeFixed64(value)
	case protowire.BytesType:
		f.bytes, m = protowire.ConsumeBytes(value)
	default:
		m = protowire.ConsumeFieldValue(id, kind, value)
	}
	if m < 0 {
		return false
	}
	f.rest = value[m:]
	return true
}
