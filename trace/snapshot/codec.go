package snapshot

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"reflect"
	"unsafe"
)

// An array is the memory of a slice.
type array struct {
	at  unsafe.Pointer
	len int
	of  int // bytes of an element
}

// A writer writes values one after the other. After an error it does nothing.
type writer struct {
	out      io.Writer
	at       int64
	sum      uint32 // of the block so far
	filled   int    // bytes of it
	sums     []uint64
	arrays   map[array]int64 // where they were written
	pointers map[unsafe.Pointer]int64
	err      error
}

func (w *writer) raw(b []byte) {
	for len(b) > 0 && w.err == nil {
		part := b[:min(len(b), block-w.filled)]
		_, w.err = w.out.Write(part)
		w.sum = crc32.Update(w.sum, table, part)
		w.at += int64(len(part))
		if w.filled += len(part); w.filled == block {
			w.endBlock()
		}
		b = b[len(part):]
	}
}

// endBlock keeps the check sum of the block, if it has bytes.
func (w *writer) endBlock() {
	if w.filled > 0 {
		w.sums = append(w.sums, uint64(w.sum))
		w.sum, w.filled = 0, 0
	}
}

func (w *writer) number(n int64) {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], uint64(n))
	w.raw(b[:])
}

func (w *writer) pad() { w.raw(make([]byte, (align-w.at%align)%align)) }

// text writes the length and the bytes. What follows is aligned.
func (w *writer) text(s string) {
	w.number(int64(len(s)))
	w.raw([]byte(s))
	w.pad()
}

// value writes a value from an aligned place on and leaves an aligned place.
func (w *writer) value(p *plan, at unsafe.Pointer) {
	switch p.kind {
	case reflect.Invalid:
		w.raw(unsafe.Slice((*byte)(at), p.size))
		w.pad()
	case reflect.String:
		w.text(*(*string)(at))
	case reflect.Slice:
		w.slice(p.elem, (*header)(at))
	case reflect.Pointer:
		w.pointer(p.elem, *(*unsafe.Pointer)(at))
	default:
		for _, f := range p.fields {
			w.value(f.plan, unsafe.Add(at, f.offset))
		}
	}
}

// slice writes the length, and the elements or where they are already.
func (w *writer) slice(elem *plan, h *header) {
	if h.data == nil {
		w.number(absent)
		return
	}
	w.number(int64(h.len))
	if elem.kind != reflect.Invalid {
		for i := range h.len {
			w.value(elem, unsafe.Add(h.data, i*elem.size))
		}
		return
	}
	key := array{h.data, h.len, elem.size}
	at, ok := w.arrays[key]
	if !ok || h.len == 0 {
		at = w.at + 8
		w.arrays[key] = at
	}
	w.number(at)
	if at == w.at {
		w.raw(unsafe.Slice((*byte)(h.data), h.len*elem.size))
		w.pad()
	}
}

// pointer writes a number, and at its first occurrence what it points to.
func (w *writer) pointer(elem *plan, to unsafe.Pointer) {
	if to == nil {
		w.number(absent)
		return
	}
	n, ok := w.pointers[to]
	if !ok {
		n = int64(len(w.pointers))
		w.pointers[to] = n
	}
	w.number(n)
	if !ok {
		w.value(elem, to)
	}
}

// header is how a slice lies in memory.
type header struct {
	data     unsafe.Pointer
	len, cap int
}

// A reader is the inverse of a writer. It panics where data does not fit.
type reader struct {
	data     []byte
	at       int
	pointers []unsafe.Pointer
}

func (r *reader) number() int {
	n := int(binary.NativeEndian.Uint64(r.data[r.at:]))
	r.at += 8
	return n
}

// bytes are the next bytes. What follows them is aligned.
func (r *reader) bytes(n int) []byte {
	b := r.data[r.at : r.at+n : r.at+n]
	r.at += (n + align - 1) / align * align
	return b
}

func (r *reader) text() string {
	b := r.bytes(r.number())
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func (r *reader) value(p *plan, at unsafe.Pointer) {
	switch p.kind {
	case reflect.Invalid:
		copy(unsafe.Slice((*byte)(at), p.size), r.bytes(p.size))
	case reflect.String:
		*(*string)(at) = r.text()
	case reflect.Slice:
		r.slice(p.elem, (*header)(at))
	case reflect.Pointer:
		r.pointer(p.elem, (*unsafe.Pointer)(at))
	default:
		for _, f := range p.fields {
			r.value(f.plan, unsafe.Add(at, f.offset))
		}
	}
}

func (r *reader) slice(elem *plan, h *header) {
	n := r.number()
	if n == absent {
		return
	}
	if elem.kind != reflect.Invalid {
		made := reflect.MakeSlice(reflect.SliceOf(elem.of), n, n)
		*h = header{made.UnsafePointer(), n, n}
		for i := range n {
			r.value(elem, unsafe.Add(h.data, i*elem.size))
		}
		return
	}
	at := r.number()
	if at == r.at {
		r.bytes(n * elem.size)
	}
	b := r.data[at : at+n*elem.size]
	*h = header{unsafe.Pointer(unsafe.SliceData(b)), n, n}
}

func (r *reader) pointer(elem *plan, to *unsafe.Pointer) {
	n := r.number()
	if n == absent {
		return
	}
	first := n == len(r.pointers)
	if first {
		r.pointers = append(r.pointers, reflect.New(elem.of).UnsafePointer())
	}
	*to = r.pointers[n]
	if first {
		r.value(elem, *to)
	}
}
