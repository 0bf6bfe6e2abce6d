package format

import (
	"fmt"
	"io"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/pgzip"
)

// A bounded reader fails beyond a number of bytes, where io.LimitReader ends.
type bounded struct {
	r           io.Reader
	left, limit int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("more than %d MiB (raise the limit (--limit) if this is a real trace)", b.limit>>20)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Real traces inflate to 5 to 60 times their size. What is far above that, and
// large, is made to fill a memory, and need not be read to the limit to know.
const (
	mostInflation = 250
	inflationFrom = 1 << 30 // bytes that are read whatever they inflate from
)

// A gunzipped reader inflates, and fails for what inflates too well.
type gunzipped struct {
	io.ReadCloser
	in  *counted
	out int64
	any bool // the user gave a limit: that alone counts
}

// counted counts what is read; the inflater may read in a goroutine of its own.
type counted struct {
	r io.Reader
	n atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func (g *gunzipped) Read(p []byte) (int, error) {
	n, err := g.ReadCloser.Read(p)
	g.out += int64(n)
	if in := g.in.n.Load(); !g.any && g.out > inflationFrom && g.out/mostInflation > in {
		return 0, fmt.Errorf("%d MiB inflate to over %d MiB (give a limit (--limit) if this is a real trace)", in>>20, g.out>>20)
	}
	return n, err
}

// gunzip inflates on a core of its own where a file is alone; files that are
// read side by side keep all cores busy without that.
func (o Options) gunzip(r io.Reader) (io.ReadCloser, error) {
	in := &counted{r: r}
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
	return &gunzipped{ReadCloser: z, in: in, any: o.Limit != 0}, nil
}
