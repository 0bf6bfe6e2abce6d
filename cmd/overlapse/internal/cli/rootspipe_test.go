//go:build unix

package cli

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A pipe would block the server.
func TestRootsRefusePipes(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.json"), 0o600); err != nil {
		t.Skip(err)
	}
	roots := must.Have(NewRoots([]string{dir}))(t)
	if _, err := roots.Resolve("pipe.json"); err == nil || !strings.Contains(err.Error(), "neither a file nor a folder") {
		t.Error(err)
	}
}
