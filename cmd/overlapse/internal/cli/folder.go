package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Replaceable is an error if a folder may not be replaced as a whole: it must be missing, empty,
// or what the program wrote, whose file names own knows, the one of main included.
func Replaceable(dir, main string, own func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, WithoutPath(err))
	}
	found := false
	for _, e := range entries {
		found = found || e.Name() == main
		if !temporaryName.MatchString(e.Name()) && (e.IsDir() || !own(e.Name())) {
			return fmt.Errorf("%s: holds %s, which overlapse did not write (give another folder)", dir, e.Name())
		}
	}
	if !found {
		return fmt.Errorf("%s: holds no %s, so overlapse did not write it (give another folder)", dir, main)
	}
	return nil
}

// Folder writes a folder with files of some names completely or not at all: they are written aside, and the whole
// takes the place of an old folder, which is put back by the next start if the program is
// killed in between. The caller has checked that that is Replaceable.
func (f *Set) Folder(dir string, names []string, write func(w io.Writer, i int) error) error {
	target, err := filepath.EvalSymlinks(dir)
	if err != nil {
		target = filepath.Clean(dir)
	}
	if here, err := os.Getwd(); err == nil && Same(target, here) {
		return fmt.Errorf("%s: is the current folder (give a folder in it)", dir)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return err
	}
	mkdir := func(name string) error { return os.Mkdir(name, 0o777) }
	aside, err := f.create(filepath.Dir(target), mkdir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, WithoutPath(err))
	}
	defer f.drop(aside)
	for i, name := range names {
		if err := new(Set).Write(filepath.Join(aside, name), func(w io.Writer) error { return write(w, i) }); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, name), errors.Unwrap(err)) // not the name of the folder aside
		}
	}
	old, err := f.create(filepath.Dir(target), mkdir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, WithoutPath(err))
	}
	defer f.drop(old)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errClosed
	}
	before := filepath.Join(old, keptFolder, filepath.Base(target))
	if err := mkdir(filepath.Dir(before)); err != nil {
		return fmt.Errorf("%s: %w", dir, WithoutPath(err))
	}
	if err := os.Rename(target, before); err == nil {
		if info, err := os.Stat(before); err == nil {
			_ = os.Chmod(aside, info.Mode().Perm()) // not supported by all file systems
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: cannot be replaced: %w (give a folder in it)", dir, WithoutPath(err))
	}
	if err := os.Rename(aside, target); err != nil {
		_ = os.Rename(before, target)
		return fmt.Errorf("%s: %w", dir, WithoutPath(err))
	}
	f.Written = append(f.Written, dir)
	return nil
}

// Same reports whether two paths are the same file or folder.
func Same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// Within reports whether a path, which need not exist, is a folder or lies in it.
func Within(path, dir string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(parent, filepath.Base(path))
	}
	for !Same(path, dir) {
		up := filepath.Dir(path)
		if up == path {
			return false
		}
		path = up
	}
	return true
}
