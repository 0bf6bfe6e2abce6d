package viewcache

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// The files that were used last stay, up to the size of the cache.
func TestTrimCache(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"oldest", "older", "newest"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, make([]byte, 10), 0o600); err != nil {
			t.Fatal(err)
		}
		used := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(path, used, used); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		most int64
		want []string
	}{
		{30, []string{"newest", "older", "oldest"}},
		{29, []string{"newest", "older"}},
		{5, nil},
	} {
		trimCache(dir, c.most)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, e := range entries {
			left = append(left, e.Name())
		}
		if !slices.Equal(left, c.want) {
			t.Errorf("within %d bytes %q are left, want %q", c.most, left, c.want)
		}
	}
}
