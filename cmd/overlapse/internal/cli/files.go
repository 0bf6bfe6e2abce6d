package cli

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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Written files
//
// files.go writes files and folders completely or not at all, also when the command is
// interrupted.

// Set are the files that a command writes. A file is written under a temporary
// name in the same folder, and renamed when it is complete and on the disk.
type Set struct {
	mu      sync.Mutex
	part    []string // temporary files and folders
	Written []string // complete files and folders, in the order in which they were completed
	closed  bool     // the process is about to end: no file is completed any more
}

// errClosed is what completing a file returns when the process is about to end.
var errClosed = errors.New("interrupted")

// temporary records a temporary file.
func (f *Set) temporary(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosed
	}
	f.part = append(f.part, name)
	return nil
}

// complete gives a temporary file its name.
func (f *Set) complete(temporary, target, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosed
	}
	if err := os.Rename(temporary, target); err != nil {
		return WithoutPath(err)
	}
	f.Written = append(f.Written, name)
	return nil
}

// drop removes a temporary file, if it is still there.
func (f *Set) drop(temporary string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = os.RemoveAll(temporary)
	f.part = slices.DeleteFunc(f.part, func(s string) bool { return s == temporary })
}

// Close removes incomplete files and prevents further completions.
func (f *Set) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, name := range f.part {
		_ = os.RemoveAll(name)
	}
}

// String lists the files that were written.
func (f *Set) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.Written) == 0 {
		return "nothing was written"
	}
	return "complete files: " + strings.Join(f.Written, ", ") + "; nothing else was written"
}

// Write writes a file completely or not at all. Links are followed. An existing
// file keeps its mode; a new one has rw-rw-rw- less the umask. Files that are not
// regular (a device, a pipe, a terminal) are written directly.
func (f *Set) Write(path string, write func(io.Writer) error) error {
	target, info, err := follow(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, WithoutPath(err))
	}
	switch {
	case info == nil || info.Mode().IsRegular():
		err = f.replaceFile(target, path, info, write)
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

// WriteBytes writes a file with this content, as Write does.
func (f *Set) WriteBytes(path string, content []byte) error {
	return f.Write(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// follow resolves the links of a path. It returns the target and what exists
// there; nil if nothing does. Links in /proc and /dev lead to open files, not to
// paths, and count as not regular.
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
		if !filepath.IsAbs(to) { // unlike Join, keeps ".." after a link
			to = filepath.Dir(target) + string(filepath.Separator) + to
		}
		target = to
	}
	return "", nil, errors.New("too many links")
}

// isOpened reports whether a path names an open file of a process.
func isOpened(path string) bool {
	return slices.ContainsFunc([]string{"/dev/std", "/dev/fd/", "/proc/"},
		func(p string) bool { return strings.HasPrefix(filepath.ToSlash(path), p) })
}

// opened is a file that another process may have open, such as /dev/stdout.
type opened struct{ fs.FileInfo }

// Mode implements fs.FileInfo.
func (o opened) Mode() fs.FileMode { return o.FileInfo.Mode() | fs.ModeIrregular }

// writeInto writes to an existing device, pipe or open file.
func writeInto(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return WithoutPath(err)
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<16)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return WithoutPath(err)
	}
	return WithoutPath(f.Close())
}

// replaceFile writes a temporary file and gives it the target's name.
func (f *Set) replaceFile(target, name string, old fs.FileInfo, write func(io.Writer) error) (err error) {
	if old != nil { // a file that cannot be written must not be replaced
		existing, err := os.OpenFile(target, os.O_WRONLY, 0)
		if err != nil {
			return WithoutPath(err)
		}
		existing.Close()
	}
	var part *os.File
	temporary, err := f.create(filepath.Dir(target), func(name string) (err error) {
		part, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // the mode that the umask allows
		return err
	})
	if err != nil {
		return WithoutPath(err)
	}
	defer f.drop(temporary)
	defer part.Close() // a second Close is harmless
	w := bufio.NewWriterSize(unnamed{part}, 1<<16)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if old != nil {
		if err := part.Chmod(old.Mode().Perm()); err != nil {
			return WithoutPath(err)
		}
	}
	if err := part.Sync(); err != nil {
		return WithoutPath(err)
	}
	if err := part.Close(); err != nil {
		return WithoutPath(err)
	}
	if err := f.complete(part.Name(), target, name); err != nil {
		return err
	}
	if dir, err := os.Open(filepath.Dir(target)); err == nil {
		_ = dir.Sync() // not supported by all file systems
		dir.Close()
	}
	return nil
}

// unnamed is a file under a temporary name, which its errors leave out.
type unnamed struct{ *os.File }

// Write implements io.Writer.
func (f unnamed) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, WithoutPath(err)
}

// WithoutPath drops a path that is known or temporary from an error.
func WithoutPath(err error) error {
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

// WhileRunning is a writer that fails once the context is done, so that a long file is
// given up instead of finished.
func WhileRunning(ctx context.Context, w io.Writer) io.Writer { return interruptible{w, ctx} }

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

// temporaryName is the name of a temporary file or folder: of which host and process.
var temporaryName = regexp.MustCompile(`^\.overlapse-(.+)-(\d+)-[0-9a-f]{8}\.tmp$`)

// keptFolder is the folder in a temporary one that holds what is about to be replaced.
const keptFolder = "kept"

// create makes a file or folder with a temporary name, and removes what processes that are gone
// left in the same folder.
func (f *Set) create(dir string, add func(name string) error) (name string, err error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	removeLeft(dir, host)
	for {
		name = filepath.Join(dir, fmt.Sprintf(".overlapse-%s-%d-%08x.tmp", host, os.Getpid(), rand.Uint32()))
		if err = add(name); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err == nil {
		if err = f.temporary(name); err != nil {
			_ = os.RemoveAll(name)
		}
	}
	return name, err
}

// removeLeft removes the temporary files and folders of processes of this host that are gone.
// A folder that one of them was about to replace gets its name again if nothing has it.
func removeLeft(dir, host string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		of := temporaryName.FindStringSubmatch(e.Name())
		if of == nil || of[1] != host {
			continue
		}
		pid, _ := strconv.Atoi(of[2])
		p, err := os.FindProcess(pid)
		if err != nil || errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			left := filepath.Join(dir, e.Name())
			kept, _ := os.ReadDir(filepath.Join(left, keptFolder))
			for _, k := range kept {
				name := filepath.Join(dir, k.Name())
				if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if os.Rename(filepath.Join(left, keptFolder, k.Name()), name) != nil {
					return
				}
			}
			_ = os.RemoveAll(left)
		}
	}
}
