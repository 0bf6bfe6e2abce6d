package format

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os" // opening what the user names is what this package is for
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/guard"
)

// An input is a file that is open, without its compression.
type input struct {
	Options
	name    string
	head    []byte // its first bytes
	in      *bufio.Reader
	disk    *os.File      // the file itself where it lies in the file system, uncompressed; else nil
	size    int64         // bytes of the file as it is stored; 0 where that is unknown
	fetched atomic.Int64  // bytes of these
	z       io.ReadCloser // the inflater, or nil
}

// input undoes gzip and looks at the first bytes of a file. Close it.
func (o Options) input(r io.Reader, name string) (*input, error) {
	in := &input{Options: o, name: name}
	in.in = bufio.NewReaderSize(&counted{o.counting(r, name), &in.fetched}, 64<<10)
	if f, ok := r.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			in.disk, in.size = f, info.Size()
		}
	}
	if head, err := in.in.Peek(2); err == nil && string(head) == "\x1f\x8b" {
		if in.z, err = o.gunzip(in.in); err != nil {
			return nil, broken(name, err)
		}
		in.in, in.disk = bufio.NewReaderSize(in.z, 256<<10), nil
	}
	head, err := in.in.Peek(sniffSize)
	if len(head) == 0 && err != nil && err != io.EOF {
		in.close()
		return nil, broken(name, err)
	}
	in.head = head
	return in, nil
}

// Inflated calls read with a file without its compression. Reading more than the limit is an error.
func (o Options) Inflated(path string, read func(io.Reader) error) error {
	f, err := guard.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	in, err := o.begin().input(f, path)
	if err != nil {
		return err
	}
	defer in.close()
	return read(in.text())
}

func (in *input) close() {
	if in.z != nil {
		in.z.Close()
	}
}

// part is the part of the file that was read; 0 where its size is unknown.
func (in *input) part() float64 {
	if in.size == 0 {
		return 0
	}
	return float64(in.fetched.Load()) / float64(in.size)
}

// text returns a reader of the file that fails beyond the limit of all files.
func (in *input) text() io.Reader { return in.bounded(in.in) }

// read reads the file as what it is.
func (in *input) read() (*trace.Run, error) {
	if len(bytes.TrimSpace(in.head)) == 0 && len(in.head) < sniffSize {
		return nil, &trace.SyntaxError{File: in.name, Msg: "the file is empty", Cure: "was the profiler stopped before it wrote?"}
	}
	for _, f := range in.formats {
		switch {
		case !f.sniff(in.head, in.name):
		case f.read != nil:
			return f.read(in)
		case f.execution != nil:
			return nil, assemble.Alone(in.name)
		default:
			cure := strings.ReplaceAll(f.cure, "FILE", filepath.Base(in.name))
			return nil, &trace.SyntaxError{
				File: in.name, Msg: "this is a " + f.name + ", which is not supported",
				Cure: cure + "; " + in.supported(), Err: f.cause,
			}
		}
	}
	return nil, &trace.SyntaxError{
		File: in.name,
		Msg:  fmt.Sprintf("the file starts with %.40q", in.head[:min(len(in.head), 24)]),
		Cure: in.supported(),
		Err:  errUnknown,
	}
}
