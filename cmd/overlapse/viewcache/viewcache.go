// Package viewcache keeps what view shows in the user's cache folder, for the next start.
package viewcache

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/overlapse/overlapse/cmd/overlapse/files"
	"github.com/overlapse/overlapse/cmd/overlapse/inputs"
	"github.com/overlapse/overlapse/trace/snapshot"
	"github.com/overlapse/overlapse/viz/layout"
)

// A Viewed is what view shows, as it is kept in the user's cache folder: the next start
// with the same input, machine and settings maps the file instead of reading the trace,
// replaying it and laying it out.
type Viewed struct {
	Views []layout.View
	Parts []layout.Part
	Notes []string         // why selected strategies do not apply
	First *layout.Timeline // of the first view
}

const (
	keptSpans = 100_000 // runs with fewer spans are quick to read
	keptBytes = 8 << 30 // of all files in the cache
	keptFiles = 10_000  // in the input; with more there is no cache
)

// A Cache is the place of a viewed in the cache; the zero value is none.
type Cache struct {
	files     *files.Set
	Path, key string
	Least     int // spans from which runs are kept
}

// Find finds the place for an input and the flags that change what is shown.
func Find(r *inputs.Reader, set *files.Set, path string, flags *pflag.FlagSet) Cache {
	folder, err := os.UserCacheDir()
	if err != nil {
		return Cache{}
	}
	h := sha256.New()
	if self, err := os.Executable(); err != nil || fingerprint(h, self) != nil {
		return Cache{}
	}
	fmt.Fprintf(h, "%d %v\n", r.Limit, r.SkipBad)
	paths := r.Inputs[path]
	if paths == nil {
		paths = []string{path}
	}
	shown := []string{"print", "figure11", "width", "ascii", "at"} // the same runs, shown in another way
	flags.Visit(func(f *pflag.Flag) {
		if slices.Contains(shown, f.Name) {
			return
		}
		fmt.Fprintf(h, "--%s=%q\n", f.Name, f.Value.String())
		for _, word := range strings.FieldsFunc(f.Value.String(), func(r rune) bool { return strings.ContainsRune(",:=", r) }) {
			if inputs.IsYAML(word) && inputs.IsFile(word) { // a machine, settings; with the files beside it that it may be based on
				beside, _ := filepath.Glob(filepath.Join(filepath.Dir(word), "*.y*ml")) // fails for bad patterns only
				paths = append(paths, beside...)
			}
		}
	})
	for _, path := range paths {
		if fingerprint(h, path) != nil {
			return Cache{}
		}
	}
	key := hex.EncodeToString(h.Sum(nil))
	return Cache{set, filepath.Join(folder, "overlapse", "views", key[:32]), key, keptSpans}
}

// fingerprint writes name, size, time and samples of a file, or of all files of a folder.
// An error means that it has no fingerprint: it is no regular file, or there are too many.
func fingerprint(w io.Writer, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	files := 0
	return filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if files++; files > keptFiles {
			return fmt.Errorf("%s: too many files", path)
		}
		return sample(w, name)
	})
}

// sample writes what identifies the content of a file: of a large one, sixteen pieces.
func sample(w io.Writer, name string) error {
	const piece, pieces = 1 << 16, 16
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: no regular file", name)
	}
	fmt.Fprintf(w, "%q %d %d\n", name, info.Size(), info.ModTime().UnixNano())
	for i := range int64(pieces) {
		at := i * piece
		if info.Size() > piece*pieces {
			at = (info.Size() - piece) / (pieces - 1) * i
		}
		if _, err := io.Copy(w, io.NewSectionReader(f, at, piece)); err != nil {
			return err
		}
	}
	return nil
}

// Load returns what the cache holds, or nil. What does not fit is removed.
func (c Cache) Load() *Viewed {
	if c.Path == "" {
		return nil
	}
	data, err := mapFile(c.Path)
	if err != nil {
		return nil
	}
	var v Viewed
	if snapshot.Read(data, c.key, &v, dropPages) != nil || len(v.Views) == 0 || v.First == nil {
		os.Remove(c.Path)
		return nil
	}
	now := time.Now()
	_ = os.Chtimes(c.Path, now, now) // when it was used last, for trimCache
	return &v
}

// Save writes to the cache in the background; wait waits for the end. That it cannot be
// written is no error: the next start takes longer.
func (c Cache) Save(ctx context.Context, v *Viewed) (wait func()) {
	spans := 0
	for _, view := range v.Views {
		spans += len(view.Run.Spans)
	}
	if c.Path == "" || spans < c.Least {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c.write(ctx, v) == nil {
			trimCache(filepath.Dir(c.Path), keptBytes)
		}
	}()
	return func() { <-done }
}

func (c Cache) write(ctx context.Context, v *Viewed) error {
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(c.Path), "part-*")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := c.files.Temporary(f.Name()); err != nil {
		os.Remove(f.Name())
		return err
	}
	defer c.files.Drop(f.Name())
	out := bufio.NewWriterSize(files.WhileRunning(ctx, f), 1<<20)
	if err := snapshot.Write(out, c.key, v); err != nil {
		return err
	}
	if err := cmp.Or(out.Flush(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), c.Path)
}

// trimCache removes the files that were not used for longest until the rest has so many bytes.
func trimCache(folder string, most int64) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	var infos []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	var sum int64
	for _, info := range infos {
		if sum += info.Size(); sum > most {
			os.Remove(filepath.Join(folder, info.Name()))
		}
	}
}
