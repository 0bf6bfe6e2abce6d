package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Roots are folders; nothing outside of them is to be read.
type Roots []string

// NewRoots resolves the links of folders, which must exist.
func NewRoots(dirs []string) (Roots, error) {
	var r Roots
	for _, dir := range dirs {
		root, err := filepath.Abs(dir)
		if err == nil {
			root, err = filepath.EvalSymlinks(root)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, WithoutPath(err))
		}
		if info, err := os.Stat(root); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%s: is no folder", dir)
		}
		r = append(r, root)
	}
	return r, nil
}

// Resolve is the absolute path, without links, of what a path names: from a root if it is
// relative. It is an error if that is outside of every root, or does not exist; the error
// does not tell which.
func (r Roots) Resolve(path string) (string, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", errors.New("give the path of a trace")
	}
	for _, root := range r {
		full := path
		if !filepath.IsAbs(path) {
			full = filepath.Join(root, path)
		}
		full, err := filepath.EvalSymlinks(full)
		if err != nil || !r.hold(full) {
			continue
		}
		if info, err := os.Stat(full); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
			return "", fmt.Errorf("%q: neither a file nor a folder", path) // reading a pipe may not end
		}
		return full, nil
	}
	return "", fmt.Errorf("%q: nothing of this name lies below %s (give a path in there; a link must not lead out)",
		path, strings.Join(r, ", "))
}

// Hold is an error if a file, links followed, lies outside of every root.
func (r Roots) Hold(file string) error {
	full, err := filepath.EvalSymlinks(file)
	if err == nil {
		full, err = filepath.Abs(full)
	}
	if err != nil || !r.hold(full) {
		return fmt.Errorf("%s: leads out of %s (copy the file in)", file, strings.Join(r, ", "))
	}
	return nil
}

func (r Roots) hold(full string) bool {
	return slices.ContainsFunc(r, func(root string) bool {
		return full == root || strings.HasPrefix(full, strings.TrimSuffix(root, string(filepath.Separator))+string(filepath.Separator))
	})
}
