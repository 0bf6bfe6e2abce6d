package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// The CSV of a sweep is computed again whenever a file that is read for them appears,
// changes or goes, and only then.
func TestStaleSweep(t *testing.T) {
	tinyFiles(t)
	write := func(name, text string) {
		t.Helper()
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o777))
		must.Do(t, os.WriteFile(name, []byte(text), 0o666))
	}
	rank1 := must.Have(os.ReadFile("tiny/rank1.json"))(t)
	must.Do(t, os.Remove("tiny/rank1.json"))
	slower := strings.Replace(string(rank1), `"dur": 100`, `"dur": 105`, 1)
	rank0 := strings.Replace(slower, `"rank": 1`, `"rank": 0`, 1)
	execution := func(op string) string {
		return `{"schema":"1.1.1-chakra.0.0.4","pid":7,"nodes":[{"id":1,"name":"` + op + `","ctrl_deps":0,"attrs":[]}]}`
	}
	write("mine.yaml", "base: base.yaml\n")
	write("base.yaml", "base: h200\n")
	write("work.yaml", "machine: mine.yaml:2\ntype: bf16\niterations: 2\ngraph:\n  - {op: gemm, m: 512, n: 512, k: 512}\n  - {op: all_reduce, count: 262144}\n")
	for _, c := range []struct {
		input, machine string
		file           string // that is read with the input
		texts          [2]string
	}{
		{"tiny/rank0.json", "h200:2", "tiny/rank0.et.json", [2]string{execution("a"), execution("b")}},
		{"tiny/rank0.json", "h200:2", "tiny/et/rank0.json", [2]string{rank0, string(rank1)}},
		{"tiny/rank0.json", "h200:2", "tiny/et/rank0.et.json", [2]string{execution("a"), execution("b")}},
		{"tiny", "h200:2", "tiny/rank1.json", [2]string{string(rank1), slower}},
		{"tiny", "h200:2", "tiny/rank0.et.json", [2]string{execution("a"), execution("b")}},
		{"tiny/rank*.json", "h200:2", "tiny/rank1.json", [2]string{string(rank1), slower}},
		{"tiny/rank*.json", "h200:2", "tiny/et/rank0.et.json", [2]string{execution("a"), execution("b")}},
		{"tiny", "mine.yaml:2", "mine.yaml", [2]string{"base: h200\ngpu: {cus: 100, groups: []}\n", "base: h100\n"}},
		{"tiny", "mine.yaml:2", "base.yaml", [2]string{"base: h200\ngpu: {cus: 100, groups: []}\n", "base: h100\n"}},
		{"work.yaml", "", "mine.yaml", [2]string{"base: h200\ngpu: {cus: 100, groups: []}\n", "base: h100\n"}},
		{"work.yaml", "", "base.yaml", [2]string{"base: h200\ngpu: {cus: 100, groups: []}\n", "base: h100\n"}},
		{"work.yaml", "", "work.yaml", [2]string{
			"machine: mine.yaml:2\ntype: bf16\niterations: 2\ngraph:\n  - {op: gemm, m: 512, n: 512, k: 512}\n",
			"machine: mine.yaml:4\ntype: bf16\niterations: 2\ngraph:\n  - {op: gemm, m: 512, n: 512, k: 512}\n",
		}},
	} {
		out := filepath.Join(t.TempDir(), "out")
		plan := "inputs: ['" + c.input + "']\nstrategies: [bulk]\n"
		if c.machine != "" {
			plan += "machines: ['" + c.machine + "']\n"
		}
		write("stale.yaml", plan)
		computes := func(want bool, when string) {
			t.Helper()
			code, _, stderr := runTiny([]string{"sweep", "stale.yaml", "-o", out})
			if got := strings.Contains(stderr, "1 cell of 1 workload"); code != cli.OK || got != want {
				t.Errorf("%s on %q: %s %s: exit %d, computed: %v\n%s", c.input, c.machine, c.file, when, code, got, stderr)
			}
		}
		before, missing := os.ReadFile(c.file)
		computes(true, "as it was")
		for _, text := range c.texts {
			write(c.file, text)
			computes(true, "changed")
			computes(false, "unchanged")
		}
		if missing != nil {
			must.Do(t, os.Remove(c.file))
		} else {
			write(c.file, string(before))
		}
		computes(true, "as before")
	}

	out := filepath.Join(t.TempDir(), "out")
	write("stale.yaml", "inputs: [tiny]\nstrategies: [bulk]\nmachines: ['h200:2']\n")
	write("tiny/rank9.json", `{"traceEvents": [{"ph": "X"`)
	for _, c := range []struct {
		flags string
		code  int
	}{{"", cli.Failed}, {"--skip-bad", cli.OK}, {"", cli.Failed}, {"--skip-bad", cli.OK}} {
		args := append([]string{"sweep", "stale.yaml", "-o", out}, strings.Fields(c.flags)...)
		if code, _, stderr := runTiny(args); code != c.code {
			t.Errorf("a broken rank, %q: exit %d\n%s", c.flags, code, stderr)
		}
	}
}
