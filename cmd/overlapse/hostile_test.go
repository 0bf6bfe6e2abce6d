package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace/guard"
)

// evil would set a title, change colours, go back to the line's start and turn
// the line around: C0, C1 as a character, and bidirectional controls.
const evil = "\x1b]0;owned\a\x1b[31m\r\u009b2J\u202e\u202a\u2066\u200f\u061c\x7f"

// evilName is a file's name that does the same; /, NUL and what is no UTF-8 are the file system's matter.
const evilName = "tr\x1b[31m\u202e\u009bx"

// hostile DIR FILE... makes a folder of traces, and of other inputs, every name in which is hostile.
func hostile(ts *testscript.TestScript, _ bool, args []string) {
	escaped := strings.NewReplacer("\x1b", `\u001b`, "\a", `\u0007`, "\r", `\r`, "\x7f", `\u007f`).Replace(evil)
	dir := ts.MkAbs(args[0])
	ts.Check(os.Mkdir(dir, 0o755))
	names := regexp.MustCompile(`"(name|Process Group Name|External id type)": *"([^"]*)"`)
	for _, file := range args[1:] {
		f, err := os.Open(file)
		ts.Check(err)
		z, err := gzip.NewReader(f)
		ts.Check(err)
		text, err := io.ReadAll(z)
		ts.Check(err)
		text = names.ReplaceAllFunc(text, func(m []byte) []byte {
			if bytes.Contains(m, []byte("ProfilerStep")) {
				return m
			}
			return append(m[:len(m)-1:len(m)-1], escaped+`"`...)
		})
		ts.Check(os.WriteFile(filepath.Join(dir, strings.TrimSuffix(filepath.Base(file), ".gz")), text, 0o644))
	}
}

// rename OLD gives a file or folder a hostile name, which EVIL holds.
func rename(ts *testscript.TestScript, _ bool, args []string) {
	name := evilName + filepath.Ext(args[0])
	ts.Check(os.Rename(ts.MkAbs(args[0]), ts.MkAbs(name)))
	ts.Setenv("EVIL", name)
}

// evilText OLD writes a copy of a file in which NAME is hostile text.
func evilText(ts *testscript.TestScript, _ bool, args []string) {
	quoted := strings.NewReplacer("\x1b", `\u001b`, "\a", `\u0007`, "\r", `\r`, "\x7f", `\u007f`).Replace(evil)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.ReplaceAll(ts.ReadFile(args[0]), "NAME", "NAME"+quoted)), 0o644))
}

// safe COMMAND... runs a command, whatever comes of it, and checks that a
// terminal could take what it prints.
func safe(ts *testscript.TestScript, _ bool, args []string) {
	_ = ts.Exec(args[0], args[1:]...) // its exit code is another test's
	printed := 0
	for _, stream := range []string{"stdout", "stderr"} {
		text := ts.ReadFile(stream)
		printed += len(text)
		for i, r := range text {
			if r != '\n' && r != '\t' && guard.Line(string(r)) != string(r) {
				ts.Fatalf("%s holds %U: %q", stream, r, text[max(0, i-60):min(len(text), i+60)])
			}
		}
	}
	if printed == 0 {
		ts.Fatalf("nothing was printed")
	}
}

// Streams of the process are safe, whoever writes to them.
func TestTerminalIsPlain(t *testing.T) {
	a := cli.Terminal()
	if a.Out == io.Writer(os.Stdout) || a.Err == io.Writer(os.Stderr) {
		t.Error("text reaches the terminal as it is")
	}
}
