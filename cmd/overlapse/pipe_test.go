//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// A pipe is read as standard input is if it is the only path, and refused among others, in a
// folder and in a plan.
func TestPipes(t *testing.T) {
	tinyFiles(t)
	text := must.Have(os.ReadFile("tiny/rank0.json"))(t)
	for _, name := range []string{"pipe.json", "tiny/rank2.json"} {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Skip(err)
		}
	}
	go func() { _ = os.WriteFile("pipe.json", text, 0o600) }()
	if code, out, stderr := runTiny([]string{"inspect", "pipe.json"}); code != cli.OK || !strings.Contains(out, "nvjet_tst_128x256") {
		t.Errorf("exit %d: %s%s", code, out, stderr)
	}
	must.Do(t, os.WriteFile("plan.yaml", []byte("inputs: [pipe.json]\nstrategies: [bulk]\n"), 0o600))
	for _, args := range [][]string{{"inspect", "tiny"}, {"inspect", "tiny/rank0.json", "pipe.json"}, {"sweep", "plan.yaml", "-o", "swept"}} {
		if code, _, stderr := runTiny(args); code != cli.Failed || !strings.Contains(stderr, "a named pipe, not a file") {
			t.Errorf("%q: exit %d: %s", args, code, stderr)
		}
	}
}
