package format

import (
	"io"
	"os" // the size of what the user names
	"sync/atomic"
)

// A Progress says how far Open is; it may be asked at any time.
type Progress struct {
	Total  atomic.Int64 // bytes of the files as they are stored; 0 where that is unknown, as of a stream
	Read   atomic.Int64 // of these
	Events atomic.Int64 // that were read, of formats whose readers count them while they read

	file atomic.Pointer[string]
}

// File is the name of the file that was opened last, "" before the first.
func (p *Progress) File() string {
	if name := p.file.Load(); name != nil {
		return *name
	}
	return ""
}

// expect adds the sizes of files of the file system. A missing one is an error later.
func (o Options) expect(paths []string) {
	if o.Progress == nil || o.archive != nil {
		return
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			o.Progress.Total.Add(info.Size())
		}
	}
}

// counting returns a reader of a file that reports to the progress.
func (o Options) counting(r io.Reader, name string) io.Reader {
	if o.Progress == nil {
		return r
	}
	o.Progress.file.Store(&name)
	return &counted{r, &o.Progress.Read}
}
