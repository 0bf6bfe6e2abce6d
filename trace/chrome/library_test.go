package chrome

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/gzip"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// readWithLibrary is Read on the tokens of a library, for well-formed files of one
// object. It measures the gain of this package's lexer.
func readWithLibrary(r io.Reader, o Options) (*trace.Run, error) {
	in := jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	d := newReader(o)
	if _, err := in.ReadToken(); err != nil { // {
		return nil, err
	}
	for in.PeekKind() == '"' {
		key, err := in.ReadToken()
		if err != nil {
			return nil, err
		}
		name := key.String()
		if name == "traceEvents" {
			err = d.eventsOfLibrary(in)
		} else {
			var v jsontext.Value
			if v, err = in.ReadValue(); err == nil && d.header.members()[name] != nil {
				d.header.members()[name](v)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return d.finish(), nil
}

func (d *reader) eventsOfLibrary(in *jsontext.Decoder) error {
	if _, err := in.ReadToken(); err != nil { // [
		return err
	}
	var keep []byte // copies of values that the decoder may overwrite while the event is read
	hold := func(v jsontext.Value) []byte {
		n := len(keep)
		keep = append(keep, v...)
		return keep[n:len(keep):len(keep)]
	}
	for in.PeekKind() == '{' {
		d.e.head = head{}
		d.e.args.reset()
		d.e.pos, keep = in.InputOffset(), keep[:0]
		if _, err := in.ReadToken(); err != nil {
			return err
		}
		for in.PeekKind() != '}' {
			key, err := in.ReadValue()
			if err != nil {
				return err
			}
			if string(key) != `"args"` || in.PeekKind() != '{' {
				key := hold(key)
				v, err := in.ReadValue()
				if err != nil {
					return err
				}
				d.e.set(key, hold(v))
				continue
			}
			if err := argsOfLibrary(in, &d.e.args, hold); err != nil {
				return err
			}
		}
		if _, err := in.ReadToken(); err != nil {
			return err
		}
		if err := d.event(&d.e); err != nil {
			return err
		}
	}
	_, err := in.ReadToken()
	return err
}

func argsOfLibrary(in *jsontext.Decoder, a *args, hold func(jsontext.Value) []byte) error {
	if _, err := in.ReadToken(); err != nil {
		return err
	}
	for in.PeekKind() != '}' {
		key, err := in.ReadValue()
		if err != nil {
			return err
		}
		field := a.field(key)
		if field == nil {
			if err := in.SkipValue(); err != nil {
				return err
			}
			continue
		}
		v, err := in.ReadValue()
		if err != nil {
			return err
		}
		a.put(field, hold(v))
	}
	_, err := in.ReadToken()
	return err
}

func TestLibraryTwin(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, synthetic(&b, 1, 8, 3000))
	want := must.Have(readWithLibrary(bytes.NewReader(b.Bytes()), Options{File: "a"}))(t)
	got := must.Have(Read(&b, Options{File: "a"}))(t)
	if d := sameRun(want, got); d != "" {
		t.Error(d)
	}
	if a, b := fmt.Sprint(want.Ledger), fmt.Sprint(got.Ledger); len(a) != len(b) {
		t.Errorf("ledgers differ: %.200s %.200s", a, b)
	}
}

func BenchmarkLibraryPlain(b *testing.B) {
	in := syntheticBytes(b)
	benchmark(b, len(in), func() (*trace.Run, error) { return readWithLibrary(bytes.NewReader(in), Options{File: "rank0.json"}) })
}

func BenchmarkLibraryGzip(b *testing.B) {
	in := syntheticBytes(b)
	packed := packed(in)
	benchmark(b, len(in), func() (*trace.Run, error) {
		r := must.Have(gzip.NewReader(bytes.NewReader(packed)))(b)
		return readWithLibrary(r, Options{File: "rank0.json"})
	})
}
