package html

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/overlapse/overlapse/trace/testkit/must"
)

// update is set by `go test -update`, which rewrites the goldens.
var update = flag.Bool("update", false, "rewrite goldens")

// golden compares a text with the file of a name in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must.Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := must.Have(os.ReadFile(path))(t)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got (go test -update rewrites it)\n%s", path, diff)
	}
}
