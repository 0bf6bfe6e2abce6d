//go:build unix

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

func hello(w io.Writer) error { _, err := io.WriteString(w, "hello"); return err }

func write(t *testing.T, path string) {
	t.Helper()
	must.Do(t, new(Set).Write(path, hello))
	if got, err := os.ReadFile(path); err != nil || string(got) != "hello" {
		t.Errorf("%s holds %q, %v", path, got, err)
	}
}

// A failing write leaves neither the file nor a part of it.
func TestWriteFileWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.json")
	a := new(Set)
	for _, write := range []func(io.Writer) error{
		func(w io.Writer) error { _, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20)); return os.ErrClosed },
		func(w io.Writer) error { a.Close(); return hello(w) }, // the process ends
		hello, // after that
	} {
		if err := a.Write(path, write); err == nil {
			t.Error("no error")
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
	if a.String() != "nothing was written" {
		t.Error(a)
	}
}

// A full disk is named with the file, not with its temporary name.
func TestWriteFileDiskFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	if _, err := (unnamed{full}).Write([]byte("x")); !errors.Is(err, syscall.ENOSPC) || err.Error() != syscall.ENOSPC.Error() {
		t.Error(err)
	}
}

// A new file has the mode that the umask leaves, an old one keeps its own.
func TestWriteFileMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	path := filepath.Join(t.TempDir(), "x.json")
	write(t, path)
	if info, _ := os.Stat(path); info.Mode() != 0o640 {
		t.Errorf("a new file has mode %v with umask 027", info.Mode())
	}
	must.Do(t, os.Chmod(path, 0o606))
	write(t, path)
	if info, _ := os.Stat(path); info.Mode() != 0o606 {
		t.Errorf("a file of mode 606 has mode %v afterwards", info.Mode())
	}
}

// The target of a chain of links is written, whether it exists or not, and the links are kept.
func TestWriteFileThroughLinks(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"data", "data/deep"} {
		must.Do(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	for link, to := range map[string]string{"folder": "data/deep", "last": "first", "first": "folder/../x.json"} { // folder/.. is data
		must.Do(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	for range 2 {
		write(t, filepath.Join(dir, "last"))
		if info, err := os.Lstat(filepath.Join(dir, "data", "x.json")); err != nil || !info.Mode().IsRegular() {
			t.Errorf("the file behind the links: %v, %v", info, err)
		}
		if info, _ := os.Lstat(filepath.Join(dir, "last")); info.Mode()&os.ModeSymlink == 0 {
			t.Error("the link was replaced")
		}
	}
	must.Do(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	if err := new(Set).Write(filepath.Join(dir, "loop"), hello); err == nil {
		t.Error("a loop of links was written")
	}
}

// Devices and pipes are not replaced and get the bytes; a folder is rejected.
func TestWriteFileInto(t *testing.T) {
	dir := t.TempDir()
	if err := new(Set).Write("/dev/null", hello); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Fatalf("/dev/null is %v, %v", info.Mode(), err)
	}
	pipe := filepath.Join(dir, "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	got := make(chan []byte)
	go func() {
		b, _ := os.ReadFile(pipe)
		got <- b
	}()
	if err := new(Set).Write(pipe, hello); err != nil {
		t.Error(err)
	}
	if b := <-got; string(b) != "hello" {
		t.Errorf("the pipe gave %q", b)
	}
	if info, _ := os.Stat(pipe); info.Mode()&os.ModeNamedPipe == 0 {
		t.Error("the pipe was replaced")
	}
	if err := new(Set).Write(dir, hello); err == nil {
		t.Error("a folder was written")
	}
}

// What may not be written is not replaced either.
func TestWriteFileForbidden(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everything")
	}
	path := filepath.Join(t.TempDir(), "x.json")
	must.Do(t, os.WriteFile(path, []byte("old"), 0o400))
	if err := new(Set).Write(path, hello); !errors.Is(err, os.ErrPermission) {
		t.Errorf("error %v", err)
	}
}

// names lists a folder, hidden entries included.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries := must.Have(os.ReadDir(dir))(t)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// A folder has the files of one writing, whatever became of the others.
func TestFolder(t *testing.T) {
	in := t.TempDir()
	dir := filepath.Join(in, "sub", "out")
	a := new(Set)
	fails := func(w io.Writer, i int) error {
		if i == 1 {
			return os.ErrClosed
		}
		return hello(w)
	}
	ends := func(w io.Writer, _ int) error { a.Close(); return hello(w) }
	for _, c := range []struct {
		names []string
		write func(w io.Writer, i int) error
		ok    bool
	}{
		{[]string{"result", "one"}, func(w io.Writer, _ int) error { return hello(w) }, true},
		{[]string{"result", "two"}, func(w io.Writer, _ int) error { return hello(w) }, true},
		{[]string{"three", "four"}, fails, false},
		{[]string{"three"}, ends, false},
	} {
		if err := a.Folder(dir, c.names, c.write); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.names, err)
		}
	}
	if got := names(t, dir); !slices.Equal(got, []string{"result", "two"}) {
		t.Errorf("the folder holds %v", got)
	}
	if got := names(t, filepath.Dir(dir)); !slices.Equal(got, []string{"out"}) {
		t.Errorf("beside the folder: %v", got)
	}
	if want := fmt.Sprintf("complete files: %s, %s; nothing else was written", dir, dir); a.String() != want {
		t.Errorf("%q", a.String())
	}
	t.Chdir(dir)
	if err := new(Set).Folder(".", []string{"result"}, func(w io.Writer, _ int) error { return hello(w) }); err == nil {
		t.Error("the current folder was replaced")
	}
}

// Only what the program wrote is replaced.
func TestReplaceable(t *testing.T) {
	dir := t.TempDir()
	own := func(name string) bool { return name == "main" || name == "page" }
	for _, c := range []struct {
		add string
		ok  bool
	}{{"", true}, {"page", false}, {"main", true}, {".overlapse-h-7-0123abcd.tmp", true}, {"notes", false}} {
		if c.add != "" {
			write(t, filepath.Join(dir, c.add))
		}
		if err := Replaceable(dir, "main", own); (err == nil) != c.ok {
			t.Errorf("with %s: %v", c.add, err)
		}
	}
	if err := Replaceable(filepath.Join(dir, "page"), "main", own); err == nil {
		t.Error("a file may be replaced by a folder")
	}
	if err := Replaceable(filepath.Join(dir, "none"), "main", own); err != nil {
		t.Error(err)
	}
}

// What a process left that is gone is removed, and nothing else.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Skip(err)
	}
	left := func(host string, pid int) string { return fmt.Sprintf(".overlapse-%s-%d-0123abcd.tmp", host, pid) }
	keep := []string{left(host, os.Getpid()), left("other-"+host, gone.Process.Pid), ".overlapse-mine.tmp", "x"}
	for _, name := range append(keep, left(host, gone.Process.Pid)) {
		must.Do(t, os.MkdirAll(filepath.Join(dir, name, "y"), 0o777))
	}
	write(t, filepath.Join(dir, "new"))
	want := append(keep, "new")
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// A folder that a killed process was about to replace is put back, unless the new one is there.
func TestLeftoverFolder(t *testing.T) {
	dir := t.TempDir()
	host, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Skip(err)
	}
	old := filepath.Join(dir, fmt.Sprintf(".overlapse-%s-%d-0123abcd.tmp", host, gone.Process.Pid), keptFolder)
	for _, lost := range []string{filepath.Join(old, "lost"), filepath.Join(old, "there"), filepath.Join(dir, "there")} {
		must.Do(t, os.MkdirAll(lost, 0o777))
		write(t, filepath.Join(lost, "of-"+filepath.Base(filepath.Dir(lost))))
	}
	write(t, filepath.Join(dir, "next"))
	if got := names(t, dir); !slices.Equal(got, []string{"lost", "next", "there"}) {
		t.Errorf("%v", got)
	}
	if got := names(t, filepath.Join(dir, "lost")); !slices.Equal(got, []string{"of-" + keptFolder}) {
		t.Errorf("put back: %v", got)
	}
	if got := names(t, filepath.Join(dir, "there")); slices.Contains(got, "of-"+keptFolder) {
		t.Errorf("the new folder holds %v", got)
	}
}

// A path lies in a folder also by links and before it exists.
func TestWithin(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"in/deep", "out"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, d), 0o777))
	}
	must.Do(t, os.Symlink("../in/deep", filepath.Join(dir, "out", "link")))
	for path, want := range map[string]bool{
		"in": true, "in/new": true, "in/deep/new": true, "out/link/new": true, "in/../out": false, "out": false, "inner": false, "in/none/new": true,
	} {
		if got := Within(filepath.Join(dir, path), filepath.Join(dir, "in")); got != want {
			t.Errorf("%s in in: %v", path, got)
		}
	}
}
