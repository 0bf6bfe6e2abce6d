// Package snapshot writes a value and all that it refers to into one file, from which it
// can be used without reading it: large arrays without pointers, such as the spans of a
// run, stay where they are in the bytes of the file, which may be mapped into memory.
//
//	magic, hash of the type, key | value, depth first | padding, length, check sums
//
// Numbers are as in memory, arrays without pointers are as in memory and aligned to eight
// bytes; so a file serves the machine and the program that wrote it. The hash of the type
// covers the names, types and offsets of all fields: after any of them changed, files
// written before do not match. Pointers and arrays that are referred to twice are
// written once. Maps, channels, functions and interfaces cannot be written.
package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"io"
	"reflect"
	"runtime"
	"unsafe"
)

const (
	magic  = "ovlsnap\x01"
	block  = 1 << 22 // bytes of a check sum
	align  = 8
	absent = -1 // length of a nil slice, number of a nil pointer
)

// Errors of Read, to tell a file that must be written anew from one of another program.
var (
	ErrStale   = errors.New("written by another version, or for another input")
	ErrCorrupt = errors.New("damaged")
)

var table = crc32.MakeTable(crc32.Castagnoli)

// Write writes what v points to. The key says what it was made from.
func Write(out io.Writer, key string, v any) error {
	value := reflect.ValueOf(v).Elem()
	shape, err := typeHash(value.Type())
	if err != nil {
		return err
	}
	w := writer{out: out, arrays: map[array]int64{}, pointers: map[unsafe.Pointer]int64{}}
	w.raw([]byte(magic))
	w.number(int64(shape))
	w.text(key)
	w.value(planOf(value.Type(), map[reflect.Type]*plan{}), value.Addr().UnsafePointer())
	length := w.at
	w.endBlock()
	sums := w.sums
	w.number(length)
	for _, sum := range sums {
		w.number(int64(sum))
	}
	w.number(int64(crc32.Update(0, table, bytesOf(sums))))
	return w.err
}

// Read sets what v points to to the value that was written with the key. Its arrays and
// texts are parts of data, which must not change as long as the value is in use; data must
// be aligned to eight bytes. checked, if not nil, is called with the parts of data whose
// check sums were computed, from several goroutines: a file that is mapped can be dropped
// from memory again. The error is ErrStale or ErrCorrupt.
func Read(data []byte, key string, v any, checked func(part []byte)) (err error) {
	value := reflect.ValueOf(v).Elem()
	shape, err := typeHash(value.Type())
	if err != nil {
		return err
	}
	if len(data) < 16 || string(data[:8]) != magic || binary.NativeEndian.Uint64(data[8:]) != shape {
		return ErrStale
	}
	body, err := check(data, checked)
	if err != nil {
		return err
	}
	defer func() { // what passed the check sums and still does not fit
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	r := reader{data: body, at: 16}
	if r.text() != key {
		return ErrStale
	}
	r.value(planOf(value.Type(), map[reflect.Type]*plan{}), value.Addr().UnsafePointer())
	return nil
}

// check compares the check sums and returns the data without them.
func check(data []byte, checked func(part []byte)) ([]byte, error) {
	for blocks := 1; ; blocks++ {
		tail := len(data) - 8*(blocks+2)
		if tail < 0 || (tail+block-1)/block < blocks-1 {
			return nil, ErrCorrupt
		}
		if (tail+block-1)/block != blocks || binary.NativeEndian.Uint64(data[tail:]) != uint64(tail) {
			continue
		}
		sums := make([]uint64, blocks)
		for i := range sums {
			sums[i] = binary.NativeEndian.Uint64(data[tail+8*(i+1):])
		}
		if binary.NativeEndian.Uint64(data[len(data)-8:]) != uint64(crc32.Update(0, table, bytesOf(sums))) || !sumsMatch(data[:tail], sums, checked) {
			return nil, ErrCorrupt
		}
		return data[:tail], nil
	}
}

// sumsMatch computes the check sums of all blocks side by side.
func sumsMatch(data []byte, sums []uint64, checked func(part []byte)) bool {
	workers := min(runtime.GOMAXPROCS(0), len(sums))
	results := make(chan bool, workers)
	for first := range workers {
		go func() {
			ok := true
			for i := first; i < len(sums); i += workers {
				part := data[i*block : min((i+1)*block, len(data))]
				ok = ok && uint64(crc32.Update(0, table, part)) == sums[i]
				if checked != nil {
					checked(part)
				}
			}
			results <- ok
		}()
	}
	all := true
	for range workers {
		all = <-results && all
	}
	return all
}

// bytesOf is the memory of a slice of numbers.
func bytesOf(s []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), 8*len(s))
}

// flat reports whether values of a type hold no pointers.
func flat(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return true
	case reflect.Array:
		return flat(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !flat(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return false
}

// A plan is how values of a type are written.
type plan struct {
	kind   reflect.Kind // String, Slice, Pointer or Struct, of arrays too; Invalid: as in memory
	of     reflect.Type
	size   int
	elem   *plan
	fields []field // of a Struct: those without pointers that are adjacent are one
}

type field struct {
	offset int
	plan   *plan
}

// planOf makes the plan of a type that typeHash accepts.
func planOf(t reflect.Type, made map[reflect.Type]*plan) *plan {
	if p := made[t]; p != nil {
		return p
	}
	p := &plan{of: t, size: int(t.Size())}
	made[t] = p
	if flat(t) {
		return p
	}
	p.kind = t.Kind()
	switch t.Kind() {
	case reflect.Slice, reflect.Pointer:
		p.elem = planOf(t.Elem(), made)
	case reflect.Array:
		p.kind = reflect.Struct
		for i := range t.Len() {
			p.fields = append(p.fields, field{i * int(t.Elem().Size()), planOf(t.Elem(), made)})
		}
	case reflect.Struct:
		joined := false
		for i := range t.NumField() {
			f := t.Field(i)
			if last := len(p.fields) - 1; joined && flat(f.Type) {
				p.fields[last].plan.size = int(f.Offset+f.Type.Size()) - p.fields[last].offset
				continue
			}
			if joined = flat(f.Type); joined {
				p.fields = append(p.fields, field{int(f.Offset), &plan{size: int(f.Type.Size())}})
			} else {
				p.fields = append(p.fields, field{int(f.Offset), planOf(f.Type, made)})
			}
		}
	}
	return p
}

// typeHash covers all that the meaning of the bytes depends on.
func typeHash(t reflect.Type) (uint64, error) {
	h := fnv.New64a()
	fmt.Fprint(h, runtime.GOARCH, binary.NativeEndian.String())
	err := describe(h, t, map[reflect.Type]bool{})
	return h.Sum64(), err
}

func describe(w io.Writer, t reflect.Type, seen map[reflect.Type]bool) error {
	fmt.Fprintf(w, "%s %s %d;", t, t.Kind(), t.Size())
	if flat(t) && t.Kind() != reflect.Struct && t.Kind() != reflect.Array || t.Kind() == reflect.String || seen[t] {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			fmt.Fprintf(w, "%s %d:", f.Name, f.Offset)
			if err := describe(w, f.Type, seen); err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
		}
		return nil
	case reflect.Slice, reflect.Array, reflect.Pointer:
		return describe(w, t.Elem(), seen)
	}
	return fmt.Errorf("a %s cannot be written", t)
}
