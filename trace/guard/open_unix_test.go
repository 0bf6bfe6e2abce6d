//go:build unix

package guard

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOpen opens what is no file, and returns at once.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	pipe, link, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", link); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for path, want := range map[string]string{dir: "a folder", pipe: "a named pipe", link: "a device", socket: "a socket"} {
		if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), path+": "+want+", not a file") {
			t.Errorf("%s: %v", want, err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadFile(file); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
}
