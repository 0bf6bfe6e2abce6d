//go:build unix

package files

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func hello(w io.Writer) error { _, err := io.WriteString(w, "hello"); return err }

func write(t *testing.T, path string) {
	t.Helper()
	if err := new(Set).Write(path, hello); err != nil {
		t.Fatal(err)
	}
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

// A new file has the mode that the umask leaves, an old one keeps its own.
func TestWriteFileMode(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	path := filepath.Join(t.TempDir(), "x.json")
	write(t, path)
	if info, _ := os.Stat(path); info.Mode() != 0o640 {
		t.Errorf("a new file has mode %v with umask 027", info.Mode())
	}
	if err := os.Chmod(path, 0o606); err != nil {
		t.Fatal(err)
	}
	write(t, path)
	if info, _ := os.Stat(path); info.Mode() != 0o606 {
		t.Errorf("a file of mode 606 has mode %v afterwards", info.Mode())
	}
}

// The target of a chain of links is written, whether it exists or not, and the links are kept.
func TestWriteFileThroughLinks(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"data", "data/deep"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"folder": "data/deep", "last": "first", "first": "folder/../x.json"} { // folder/.. is data
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
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
	if err := os.Symlink("loop", filepath.Join(dir, "loop")); err != nil {
		t.Fatal(err)
	}
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
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(path, []byte("old"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := new(Set).Write(path, hello); !errors.Is(err, os.ErrPermission) {
		t.Errorf("error %v", err)
	}
}
