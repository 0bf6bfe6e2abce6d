package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// files are the files that a command writes. A file is written into a temporary
// one beside it, which takes its name when it is complete and on the disk.
type files struct {
	mu      sync.Mutex
	part    []string // temporary files
	written []string // complete files, in the order in which they were completed
	closed  bool     // the process is about to end: nothing is completed any more
}

// errClosed is what completing a file returns when the process is about to end.
var errClosed = errors.New("interrupted")

// temporary remembers a temporary file.
func (f *files) temporary(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosed
	}
	f.part = append(f.part, name)
	return nil
}

// complete gives a temporary file its name.
func (f *files) complete(temporary, target, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosed
	}
	if err := os.Rename(temporary, target); err != nil {
		return withoutPath(err)
	}
	f.written = append(f.written, name)
	return nil
}

// drop removes a temporary file, if it is still there.
func (f *files) drop(temporary string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	os.Remove(temporary)
	f.part = slices.DeleteFunc(f.part, func(s string) bool { return s == temporary })
}

// close removes what is incomplete and lets nothing be completed any more.
func (f *files) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, name := range f.part {
		os.Remove(name)
	}
}

// String says which files were written.
func (f *files) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.written) == 0 {
		return "nothing was written"
	}
	return "complete files: " + strings.Join(f.written, ", ") + "; nothing else was written"
}

// writeFile writes a file whole or not at all. A link is followed, an existing
// file keeps its mode, a new one has what the umask leaves of rw-rw-rw-. What is
// no regular file (a device, a pipe, a terminal) is written directly.
func (a *app) writeFile(path string, write func(io.Writer) error) error {
	target, info, err := follow(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, withoutPath(err))
	}
	switch {
	case info == nil || info.Mode().IsRegular():
		err = a.replaceFile(target, path, info, write)
	case info.IsDir():
		err = errors.New("is a folder (give the name of a file)")
	default:
		err = writeInto(path, write)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// follow finds what a path leads to: the path behind its links, and what lies
// there; nil if nothing does. Links of the kernel's own folders lead to open
// files, not to paths: what they name is not regular here.
func follow(path string) (target string, info fs.FileInfo, err error) {
	const most = 40 // links, as Linux follows
	target = path
	for range most {
		if isOpened(target) {
			info, err = os.Stat(path)
			if err == nil && info.Mode().IsRegular() {
				info = opened{info}
			}
			return target, info, err
		}
		info, err = os.Lstat(target)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return target, nil, nil
		case err != nil || info.Mode()&fs.ModeSymlink == 0:
			return target, info, err
		}
		to, err := os.Readlink(target)
		if err != nil {
			return "", nil, err
		}
		if !filepath.IsAbs(to) { // unlike Join, keeps what ".." means behind a link
			to = filepath.Dir(target) + string(filepath.Separator) + to
		}
		target = to
	}
	return "", nil, errors.New("too many links")
}

// isOpened reports whether a path stands for a file that is open.
func isOpened(path string) bool {
	return slices.ContainsFunc([]string{"/dev/std", "/dev/fd/", "/proc/"}, func(p string) bool { return strings.HasPrefix(filepath.ToSlash(path), p) })
}

// opened is a file that somebody else has open, as /dev/stdout may be.
type opened struct{ fs.FileInfo }

// Mode implements fs.FileInfo.
func (o opened) Mode() fs.FileMode { return o.FileInfo.Mode() | fs.ModeIrregular }

// writeInto writes what is there already: a device, a pipe, an open file.
func writeInto(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return withoutPath(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<16)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return withoutPath(err)
	}
	return withoutPath(f.Close())
}

// replaceFile writes a temporary file and gives it the target's name.
func (a *app) replaceFile(target, name string, old fs.FileInfo, write func(io.Writer) error) (err error) {
	if old != nil { // a file that may not be written may not be replaced either
		f, err := os.OpenFile(target, os.O_WRONLY, 0)
		if err != nil {
			return withoutPath(err)
		}
		f.Close()
	}
	f, err := a.create(filepath.Dir(target))
	if err != nil {
		return withoutPath(err)
	}
	defer a.files.drop(f.Name())
	defer f.Close() // closing again does no harm
	w := bufio.NewWriterSize(f, 1<<16)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return withoutPath(err)
	}
	if old != nil {
		if err := f.Chmod(old.Mode().Perm()); err != nil {
			return withoutPath(err)
		}
	}
	if err := f.Sync(); err != nil {
		return withoutPath(err)
	}
	if err := f.Close(); err != nil {
		return withoutPath(err)
	}
	if err := a.files.complete(f.Name(), target, name); err != nil {
		return err
	}
	if dir, err := os.Open(filepath.Dir(target)); err == nil {
		_ = dir.Sync() // some file systems cannot
		dir.Close()
	}
	return nil
}

// create makes a temporary file with the mode that the umask leaves.
func (a *app) create(dir string) (*os.File, error) {
	for {
		name := filepath.Join(dir, fmt.Sprintf(".overlapse-%08x.tmp", rand.Uint32()))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := a.files.temporary(name); err != nil {
			f.Close()
			os.Remove(name)
			return nil, err
		}
		return f, nil
	}
}

// withoutPath drops a path that is known or temporary from an error.
func withoutPath(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	var l *os.LinkError
	if errors.As(err, &l) {
		return l.Err
	}
	return err
}

// interruptible is a writer that fails once the context is done, so that a
// long file is given up instead of finished.
type interruptible struct {
	io.Writer
	ctx context.Context //nolint:containedctx // a writer's method has no other way to see it
}

func (w interruptible) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}
