//go:build unix

package cli

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe would block the server.
func TestRootsRefusePipes(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.json"), 0o600); err != nil {
		t.Skip(err)
	}
	roots, err := NewRoots([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := roots.Resolve("pipe.json"); err == nil || !strings.Contains(err.Error(), "neither a file nor a folder") {
		t.Error(err)
	}
}
