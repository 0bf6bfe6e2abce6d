package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/replay/machine"
)

// Flags whose values are files, numbers or names that only the user knows.
var uncompleted = []string{
	"at", "check", "claim", "dataflow", "emit", "image", "kernel", "kubernetes", "memory", "output", "pair", "plan", "predicted", "ranks", "slurm", "traces",
}

// Every flag that takes a word completes it.
func TestCompletedFlags(t *testing.T) {
	root, seen := newApp(&cli.Console{}).root(), 0
	for _, c := range root.Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "string" {
				return
			}
			seen++
			_, completed := c.GetFlagCompletionFunc(f.Name)
			if free := slices.Contains(uncompleted, f.Name); completed == free {
				t.Errorf("%s --%s: completed: %v, listed as free text: %v", c.Name(), f.Name, completed, free)
			}
		})
	}
	if seen < 30 {
		t.Errorf("saw %d flags", seen)
	}
}

// completed is what a shell gets for a command line, its last word unfinished.
func completed(t *testing.T, line string) []string {
	t.Helper()
	var out, stderr bytes.Buffer
	args := append([]string{cobra.ShellCompNoDescRequestCmd}, strings.Split(line, " ")...)
	if code := run(args, newApp(&cli.Console{In: strings.NewReader(""), Out: &out, Err: &stderr})); code != cli.OK {
		t.Fatalf("%s: exit %d: %s", line, code, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[:len(lines)-1] // the last one is the directive
}

func TestCompletions(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
	}{
		{"replay x --machine ", machine.Names()},
		{"replay x --retarget mi300", []string{"mi300x"}},
		{"calibrate x --base h2", []string{"h20", "h200"}},
		{"machines gb", []string{"gb200"}},
		{"replay x --strategy ", append(engines.Names(), "all")},
		{"replay x --strategy bulk,dec", []string{"bulk,decompose"}},
		{"replay x --strategy decompose:pri", []string{"decompose:priority="}},
		{"replay x --strategy bulk:carrier=d", []string{"bulk:carrier=dma"}},
		{"strategies tile", []string{"tilesync"}},
		{"replay x --what-if links=2,la", []string{"links=2,latency="}},
		{"replay x --format ma", []string{"markdown"}},
		{"reproduce --format h", []string{"html"}},
		{"export x --to p", []string{"pprof"}},
		{"replay x --clock s", []string{"sustained"}},
		{"sweep x.yaml --shard a", []string{"auto"}},
	} {
		got := slices.DeleteFunc(completed(t, c.line), func(s string) bool { return s == "" })
		typed := c.line[strings.LastIndexByte(c.line, ' ')+1:]
		got = slices.DeleteFunc(got, func(s string) bool { return !strings.HasPrefix(s, typed) }) // as shells do
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.line, got, c.want)
		}
	}
}
