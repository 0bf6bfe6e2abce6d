package format

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/pgzip"
)

// defaultLimit is what may be read in all where the user gives no limit.
const defaultLimit = 32 << 30

// A budget is how many bytes all files of one Open may have together, once
// inflated. Files that are read side by side draw on one. It is spent when the context ends.
type budget struct {
	context.Context
	limit int64
	read  atomic.Int64
}

// take counts bytes; it fails if that makes too many.
func (b *budget) take(n int64) error {
	if b.read.Add(n) <= b.limit {
		return b.Err()
	}
	return fmt.Errorf("more than %d MiB in all files together (raise --limit if this is a real trace)", b.limit>>20)
}

// bounded returns a reader that fails once the budget is spent.
func (o Options) bounded(r io.Reader) io.Reader { return &boundedReader{r, o.budget} }

type boundedReader struct {
	r      io.Reader
	budget *budget
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if over := b.budget.take(int64(n)); over != nil {
		return 0, over
	}
	return n, err
}

// Real traces have compression ratios of 5 to 60. Large files with an implausible
// ratio are rejected before they reach the limit.
const (
	mostInflation = 250
	inflationFrom = 64 << 20 // bytes that are read whatever they inflate from
)

// An inflation compares what a file, an archive or the packets of a file
// inflate from and to.
type inflation struct {
	in, out atomic.Int64
	any     bool   // the user gave a limit: that alone counts
	cure    string // what to do if this is a real trace
}

func (o Options) inflation() *inflation { return &inflation{any: o.Limit != 0, cure: "set --limit"} }

// check returns a reader of inflated bytes that fails for an implausible compression ratio.
func (i *inflation) check(r io.Reader) io.Reader { return &inflated{r, i} }

type inflated struct {
	r io.Reader
	i *inflation
}

func (f *inflated) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	in, out := f.i.in.Load(), f.i.out.Add(int64(n))
	if !f.i.any && out > inflationFrom && out/mostInflation > in {
		return 0, fmt.Errorf("%d MiB decompress to over %d MiB (%s if this is a real trace)", in>>20, out>>20, f.i.cure)
	}
	return n, err
}

// counted counts what is read; the inflater may read in a goroutine of its own.
type counted struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// gunzip inflates on a core of its own where a file is alone; files that are
// read side by side keep all cores busy without that.
func (o Options) gunzip(r io.Reader) (io.ReadCloser, error) {
	i := o.inflation()
	in := &counted{r, &i.in}
	var z io.ReadCloser
	var err error
	if o.alone {
		z, err = pgzip.NewReader(in)
	} else {
		z, err = gzip.NewReader(in)
	}
	if err != nil {
		return nil, err
	}
	return readCloser{i.check(z), z}, nil
}

// A readCloser reads from one and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}
