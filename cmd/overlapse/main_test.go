package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"overlapse": func() { os.Exit(run(os.Args[1:], terminal())) },
	})
}

// The scripts are what users type, with what they get: one file a command.
func TestScripts(t *testing.T) {
	samples, err := filepath.Abs("../../samples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("SAMPLES", samples)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"truncate": truncate,
		},
	})
}

// truncate SRC DST N writes the first N bytes of a file.
func truncate(ts *testscript.TestScript, _ bool, args []string) {
	data, err := os.ReadFile(args[0])
	ts.Check(err)
	n := min(len(data), 3000)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), data[:n], 0o644))
}

// An interrupted or failing write leaves neither the file nor a part of it.
func TestWriteFileWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.json")
	if err := writeFile(path, func(w io.Writer) error { _, _ = w.Write(bytes.Repeat([]byte("x"), 1<<20)); return os.ErrClosed }); err == nil {
		t.Fatal("no error")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
