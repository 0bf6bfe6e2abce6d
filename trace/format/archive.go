package format

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os" // opening what the user names is what this package is for
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zip"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
)

// An archive holds files as a folder does.
type archive struct {
	path    string
	paths   []string // of its files, in its order
	entries map[string]func() (io.ReadCloser, error)
}

// add takes in a file of the archive. A name is only a label, but one that
// points out of the archive, or a link, belongs to no trace.
func (a *archive) add(name string, mode fs.FileMode, open func() (io.ReadCloser, error)) error {
	hidden := strings.HasPrefix(path.Base(name), ".") || strings.HasPrefix(name, "__MACOSX/")
	_, twice := a.entries[name]
	switch {
	case !filepath.IsLocal(filepath.FromSlash(name)):
		return a.fail(fmt.Sprintf("the name of the entry %.80q points outside the archive", name),
			"unpack it with care, and give the folder", nil)
	case mode.IsDir() || hidden || twice:
		return nil
	case !mode.IsRegular():
		return a.fail(fmt.Sprintf("the entry %.80q is a link or device, not a file", name), "archive the files themselves", nil)
	case len(a.paths) >= maxFiles:
		return a.fail(fmt.Sprintf("over %d files", maxFiles), "give the archive of one run", nil)
	}
	a.entries[name] = open
	a.paths = append(a.paths, name)
	return nil
}

func (a *archive) fail(msg, cure string, err error) error {
	return &trace.SyntaxError{File: a.path, Msg: msg, Cure: cure, Err: err}
}

// read reads the files of the archive as those of a folder.
func (a *archive) read(o Options) (*trace.Run, error) {
	if len(a.paths) == 0 {
		return nil, a.fail("the archive is empty", o.supported(), nil)
	}
	o.archive = a
	files, execution := split(a.paths, inExecutionFolder)
	run, err := openFiles(files, a.path, o)
	if err == nil && len(execution) > 0 {
		run = o.withStorages(run, execution, a.path)
	}
	return run, err
}

// readZip reads the files in a zip archive, whose directory is at its end: a
// stream would have to be kept.
func readZip(in *input) (*trace.Run, error) {
	a := &archive{path: in.name, entries: map[string]func() (io.ReadCloser, error){}}
	switch {
	case in.archive != nil:
		return nil, a.fail("an archive in an archive", "unpack it and give the folder", nil)
	case in.disk == nil:
		return nil, a.fail("a zip archive inside a stream or an archive", "save it to a file, or unpack it and give the folder", nil)
	}
	info, err := in.disk.Stat()
	if err != nil {
		return nil, a.fail("cannot open", "", err)
	}
	z, err := zip.NewReader(in.disk, info.Size())
	if err != nil {
		return nil, a.fail("the zip archive is truncated or damaged", "copy it again", err)
	}
	packed := in.inflation() // of all entries: they may share bytes
	packed.in.Store(info.Size())
	for _, entry := range z.File {
		err := a.add(entry.Name, entry.Mode(), func() (io.ReadCloser, error) {
			r, err := entry.Open()
			if err != nil {
				return nil, err
			}
			return readCloser{packed.check(r), r}, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return a.read(in.Options)
}

// readTar reads the files in a tar archive. They are read side by side, some of
// them twice, and a stream can be read once: they are kept in a temporary file.
func readTar(f *input) (*trace.Run, error) {
	o := f.Options
	a := &archive{path: f.name, entries: map[string]func() (io.ReadCloser, error){}}
	if o.archive != nil {
		return nil, a.fail("an archive in an archive", "unpack it and give the folder", nil)
	}
	kept, err := os.CreateTemp("", "overlapse-*")
	if err != nil {
		return nil, a.fail("no temporary file to unpack into", "set TMPDIR to a folder with space", err)
	}
	if os.Remove(kept.Name()) != nil { // not on Windows while it is open
		defer os.Remove(kept.Name())
	}
	defer kept.Close()
	packed := &inflation{cure: "unpack it with tar"} // sparse files have holes, whatever the limit is
	copies := &budget{Context: o.budget.Context, limit: o.budget.limit}
	in := tar.NewReader(&counted{f.text(), &packed.in})
	for at := int64(0); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, a.fail("the tar archive is truncated or damaged", "copy it again", err)
		}
		mode, n := h.FileInfo().Mode(), int64(0)
		switch h.Typeflag {
		case tar.TypeXGlobalHeader: // no entry, but what git says of all
			continue
		case tar.TypeLink:
			mode |= fs.ModeIrregular
		}
		if mode.IsRegular() {
			if n, err = io.Copy(kept, &boundedReader{packed.check(in), copies}); err != nil {
				return nil, a.fail(fmt.Sprintf("cannot unpack the entry %.80q", h.Name),
					"copy the archive again, and see that TMPDIR has space", err)
			}
		}
		from := at
		err = a.add(h.Name, mode, func() (io.ReadCloser, error) {
			return io.NopCloser(io.NewSectionReader(kept, from, n)), nil
		})
		if err != nil {
			return nil, err
		}
		at += n
	}
	o.budget.read.Add(-packed.in.Load()) // what is read of it counts
	return a.read(o)
}

// open opens a file of the file system, or of the archive.
func (o Options) open(path string) (io.ReadCloser, error) {
	var f io.ReadCloser
	var err error
	if o.archive == nil {
		f, err = guard.Open(path)
	} else {
		f, err = o.archive.entries[path]()
	}
	if err != nil {
		return nil, &trace.SyntaxError{File: o.nameOf(path), Msg: "cannot open", Err: err}
	}
	return f, nil
}

// nameOf is what to call the file at a path.
func (o Options) nameOf(path string) string {
	if o.archive == nil {
		return path
	}
	return o.archive.path + ":" + path
}
