package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

func TestMain(m *testing.M) {
	if os.Getenv("OVERLAPSE_TEST_MAIN") != "" { // of programs that tests start
		os.Exit(run(os.Args[1:], newApp(cli.Terminal())))
	}
	testscript.Main(m, map[string]func(){
		"overlapse": func() { os.Exit(run(os.Args[1:], newApp(cli.Terminal()))) },
	})
}

// The scripts are what users type, with what they get: one file a command.
func TestScripts(t *testing.T) {
	samples := must.Have(filepath.Abs("../../samples"))(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("SAMPLES", samples)
			e.Setenv("LINES", "out\ntouch pwned #")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"truncate": truncate,
			"exits":    exits,
			"hostile":  hostile,
			"rename":   rename,
			"evilText": evilText,
			"safe":     safe,
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

// exits N COMMAND... checks the exit code of a command.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
