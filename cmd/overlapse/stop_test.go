package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An interrupted replay ends soon, says so, and leaves no file.
func TestInterruptedReplay(t *testing.T) {
	for _, after := range []time.Duration{0, 20 * time.Millisecond} {
		var out, talk bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &out, err: &talk}
		ctx, cancel := context.WithTimeout(t.Context(), after)
		dir := filepath.Join(t.TempDir(), "out")
		err := a.replay(ctx, replayOptions{
			question: question{path: "../../samples/llama70b-prefill", machine: "h200x4", strategy: "bulk,fused,trigger"}, format: "table",
			dir: dir, explain: true, ranks: []int{0}, window: "all",
		})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || out.Len() > 0 {
			t.Errorf("stopped after %v: error %v, and %d bytes of output", after, err, out.Len())
		}
		if left := unfinished(t, dir); len(left) > 0 {
			t.Errorf("stopped after %v: left %v", after, left)
		}
	}
}

// A file whose writing is interrupted is not there.
func TestInterruptedWrite(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	a := &app{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}, quiet: true}
	cancel()
	if err := a.writeResults(ctx, dir, &replayed{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if left := unfinished(t, dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// unfinished lists what lies in a folder, hidden files too.
func unfinished(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
