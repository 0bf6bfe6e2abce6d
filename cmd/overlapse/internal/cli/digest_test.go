package cli

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// TestInputDigest: the digest of an input changes with every file that is read for it,
// when one appears, changes or goes, and with no other.
func TestInputDigest(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	}
	var r Reader
	digest := func(name string) string {
		t.Helper()
		return must.Have(r.InputDigest(filepath.Join(dir, name)))(t)
	}
	write("rank0.json", "{}")
	write("rank1.json", "{}")
	for _, name := range []string{"rank0.json", "rank*.json", "."} {
		for _, companion := range []string{"rank0.et.json", "et/rank0.json", "et/rank0.et.json"} {
			if name == "rank*.json" && companion == "rank0.et.json" {
				continue // a rank like the others
			}
			before := digest(name)
			write(companion, "{}")
			appeared := digest(name)
			write(companion, "[]")
			changed := digest(name)
			if before == appeared || appeared == changed || before == changed {
				t.Errorf("%s: %s: %s, %s, %s", name, companion, before, appeared, changed)
			}
			must.Do(t, os.RemoveAll(filepath.Join(dir, companion)))
			if gone := digest(name); gone != before {
				t.Errorf("%s: %s is gone: %s, %s", name, companion, before, gone)
			}
		}
		before := digest(name)
		write("notes.md", name)
		if after := digest(name); after != before {
			t.Errorf("%s: changed by a file that is not read", name)
		}
	}
	for _, name := range []string{"none.json", "none*.json"} {
		if sum, err := r.InputDigest(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s: %s", name, sum)
		}
	}
}

// A reader that keeps what it reads opens a trace once.
func TestKept(t *testing.T) {
	const path = "../../../../samples/moe-down-fused-wg"
	r := Reader{Console: &Console{Out: io.Discard, Err: io.Discard, Bar: io.Discard, Quiet: true}, Kept: map[string]*trace.Run{}}
	first := must.Have(r.Open(path, ""))(t)
	if again, err := r.Open(path, ""); again != first || err != nil {
		t.Errorf("read again: %v", err)
	}
	r.Kept = nil
	if again, err := r.Open(path, ""); again == first || err != nil {
		t.Errorf("not read again: %v", err)
	}
}
