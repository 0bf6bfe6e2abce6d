package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// patient is a context that is cancelled after a number of checks.
type patient struct {
	context.Context
	left *atomic.Int64
}

func (p patient) Err() error {
	if p.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// An interrupted replay ends with a message, and leaves no file and no folder.
func TestInterruptedReplay(t *testing.T) {
	for _, after := range []int64{0, 1, 5, 20} { // questions whether to stop: one each 256 instants, and one a write
		var out, stderr bytes.Buffer
		a := newApp(&cli.Console{In: strings.NewReader(""), Out: &out, Err: &stderr})
		left := new(atomic.Int64)
		left.Store(after)
		dir := filepath.Join(t.TempDir(), "out")
		err := a.replay(patient{t.Context(), left}, replayOptions{
			Flags: cli.Flags{Path: "../../samples/llama70b-prefill", Machine: "h200x4", Strategy: "bulk,fused,trigger"}, format: "table",
			dir: dir, explain: true, ranks: []int{0}, window: "all",
		})
		if !errors.Is(err, context.Canceled) || out.Len() > 0 {
			t.Errorf("stopped after %d questions: error %v, and %d bytes of output", after, err, out.Len())
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("stopped after %d questions: left %v", after, unfinished(t, dir))
		}
	}
}

// A file whose writing is interrupted is not there.
func TestInterruptedWrite(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	a := newApp(&cli.Console{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}, Quiet: true})
	cancel()
	if err := results.WriteFolder(ctx, a.Console, &a.files, dir, &results.Replayed{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if left := unfinished(t, dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// An interrupted sweep leaves no file.
func TestInterruptedSweep(t *testing.T) {
	tinyFiles(t)
	must.Do(t, os.WriteFile("plan.yaml", []byte("inputs: [tiny]\nstrategies: ['decompose:chunks=2|3|4|5|6|7|8|9|10|11']\n"), 0o666))
	for _, after := range []int64{0, 1, 2} {
		a := newApp(&cli.Console{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
		left := new(atomic.Int64)
		left.Store(after)
		if err := a.sweep(patient{t.Context(), left}, sweepOptions{plan: "plan.yaml", out: "out", jobs: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped after %d questions: error %v", after, err)
		}
		if list := unfinished(t, "out"); len(list) > 0 {
			t.Errorf("stopped after %d questions: left %v", after, list)
		}
	}
}

// unfinished lists the files of a folder, including hidden ones.
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
