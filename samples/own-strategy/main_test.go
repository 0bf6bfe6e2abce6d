package main

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace/testkit/enginetest"
	"github.com/overlapse/overlapse/trace/testkit/plantest"
)

const root = "../.."

// TestProgram builds the program and runs it as its comment says.
func TestProgram(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "own-strategy")
	if text, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	printed := ""
	run := func(args ...string) (table map[string][]string, failed string) {
		c := exec.Command(binary, args...)
		c.Dir = root
		var out, errs bytes.Buffer
		c.Stdout, c.Stderr = &out, &errs
		if c.Run() != nil {
			return nil, errs.String()
		}
		printed, table = out.String(), map[string][]string{}
		for _, line := range strings.Split(out.String(), "\n")[1:] {
			if f := strings.Fields(line); len(f) > 0 {
				table[f[0]] = f[1:]
			}
		}
		return table, ""
	}
	table, failed := run()
	if failed != "" || len(table) != 5 {
		t.Fatalf("%d rows, %s", len(table), failed)
	}
	if page, err := os.ReadFile("README.md"); err != nil || !strings.Contains(string(page), "```text\n"+printed+"```") {
		t.Errorf("README.md has not what the program prints (%v):\n%s", err, printed)
	}
	us := func(strategy string) float64 {
		v, err := strconv.ParseFloat(table[strategy][0], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	const gemm = 356.8 // µs, the median of the kernel in the capture; single ones differ by 2 %
	if own, bulk := us("putslices"), us("bulk"); own < 0.98*gemm || own > 1.1*gemm || own >= bulk {
		t.Errorf("putslices %v µs, bulk %v µs: want all but the last slices hidden behind the kernel's %v µs", own, bulk, gemm)
	}
	if table, failed = run("samples/llama70b-prefill"); failed != "" || table["putslices"][0] != "-" {
		t.Errorf("all-reduces: %v, %s", table["putslices"], failed)
	}
	if _, failed = run("samples/no-such-trace"); !strings.Contains(failed, "no-such-trace") {
		t.Errorf("missing trace: %q", failed)
	}
}

// TestBytes counts what a rank sends: all but its own share.
func TestBytes(t *testing.T) {
	w, m := plantest.MoeDown.Build(t), plantest.H200(t, 4)
	out, err := engines.Run(w, m, plan.Selection{Strategy: putSlices}, plan.Scenario{}, replay.Options{})
	if err != nil || out.Result == nil {
		t.Fatal(err, out.Why)
	}
	want := 0.75 * float64(len(w.Collectives)) * float64(w.Collectives[0].Bytes)
	if sent := enginetest.Sum(enginetest.Sent(out)); math.Abs(sent/want-1) > 1e-9 {
		t.Errorf("rank 0 sent %v bytes, want %v", sent, want)
	}
}

// TestLength holds the program to what its page says.
func TestLength(t *testing.T) {
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n >= 100 {
		t.Errorf("%d lines, want under 100", n)
	}
}
