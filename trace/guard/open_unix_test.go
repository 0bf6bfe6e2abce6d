//go:build unix

package guard

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

// TestOpen opens what is no file, and returns at once.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	pipe, link, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "socket")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	must.Do(t, os.Symlink("/dev/zero", link))
	l := must.Have(net.Listen("unix", socket))(t)
	defer l.Close()
	for path, want := range map[string]string{dir: "a folder", pipe: "a named pipe", link: "a device", socket: "a socket"} {
		if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), path+": "+want+", not a file") {
			t.Errorf("%s: %v", want, err)
		}
	}
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, []byte("x"), 0o600))
	if text, err := ReadFile(file); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
}
