package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/console"
	"github.com/overlapse/overlapse/cmd/overlapse/inputs"
	"github.com/overlapse/overlapse/cmd/overlapse/viewcache"
)

// The second start shows what the first one showed, from the cache; a changed or a damaged
// file of either is read anew.
func TestViewCache(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	source, err := os.ReadFile("../../samples/moe-ep4/rank0.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "rank0.json.gz")
	if err := os.WriteFile(path, source, 0o600); err != nil {
		t.Fatal(err)
	}
	cacheOf := func(args ...string) viewcache.Cache {
		t.Helper()
		a := newApp(&console.Console{Out: io.Discard, Err: io.Discard})
		c := a.viewCommand()
		if err := c.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		o := viewOptions{Flags: inputs.Flags{Path: path}, noCache: c.Flags().Changed("no-cache")}
		cache := a.cacheOf(&o, c.Flags())
		cache.Least = 0
		return cache
	}
	shown := func(c viewcache.Cache) string {
		t.Helper()
		var out bytes.Buffer
		a := newApp(&console.Console{Out: &out, Err: io.Discard})
		o := viewOptions{Flags: inputs.Flags{Path: path}, print: true, width: 100}
		if err := a.view(context.Background(), o, c); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	want := shown(viewcache.Cache{})
	first := cacheOf()
	if first.Load() != nil {
		t.Fatal("an empty cache has something")
	}
	if got := shown(first); got != want || first.Load() == nil {
		t.Fatalf("the first start shows %q and keeps it: %v", got, first.Load() != nil)
	}
	if err := os.Rename(path, path+".away"); err != nil { // the place was found; the trace is not read
		t.Fatal(err)
	}
	if got := shown(first); got != want {
		t.Errorf("from the cache: %q, want %q", got, want)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--print"}, {"--width", "70"}, {"--figure11"}} {
		if cacheOf(args...).Path != first.Path {
			t.Errorf("%v has another place", args)
		}
	}
	for _, args := range [][]string{{"--strategy", "bulk"}, {"--rank", "1"}, {"--machine", "h200:4"}} {
		if c := cacheOf(args...); c.Path == first.Path || c.Load() != nil {
			t.Errorf("%v has the same place", args)
		}
	}
	if cacheOf("--no-cache").Path != "" {
		t.Error("--no-cache has a place")
	}
	kept, err := os.ReadFile(first.Path)
	if err != nil {
		t.Fatal(err)
	}
	kept[len(kept)/2] ^= 1
	if err := os.WriteFile(first.Path, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	if first.Load() != nil {
		t.Error("a damaged file is used")
	}
	if got := shown(first); got != want || first.Load() == nil {
		t.Error("a damaged file is not written anew")
	}
	if err := os.WriteFile(path, append(source, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	if cacheOf().Path == first.Path {
		t.Error("another input has the same place")
	}
	entries, err := os.ReadDir(filepath.Dir(first.Path))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %d files in the cache", err, len(entries))
	}
}

// Replays are kept with their gaps, their pairs, and why others do not apply.
func TestViewCacheOfReplays(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	var first string
	for range 2 {
		var out, notes bytes.Buffer
		a := newApp(&console.Console{Out: &out, Err: &notes})
		o := viewOptions{Flags: inputs.Flags{Path: "../../samples/moe-ep4", Strategy: "all"}, print: true, width: 100}
		c := a.viewCommand()
		if err := c.ParseFlags([]string{"--strategy", "all"}); err != nil {
			t.Fatal(err)
		}
		cache := a.cacheOf(&o, c.Flags())
		cache.Least = 0
		kept := cache.Load()
		if (kept != nil) != (first != "") {
			t.Fatalf("kept: %v", kept != nil)
		}
		if kept != nil && (len(kept.Parts) == 0 || len(kept.Views) < 5 || len(kept.Views[1].Gaps) == 0 || kept.First.Views[0].Run != kept.Views[0].Run) {
			t.Errorf("%d pairs, %d runs, %d gaps", len(kept.Parts), len(kept.Views), len(kept.Views[1].Gaps))
		}
		if err := a.view(context.Background(), o, cache); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(notes.Bytes(), []byte("tilesync: ")) {
			t.Errorf("no note on tilesync: %q", notes.String())
		}
		if first != "" && out.String() != first {
			t.Errorf("the second start shows\n%s\nwant\n%s", out.String(), first)
		}
		first = out.String()
	}
}
