package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/testkit/longtest"
	"github.com/overlapse/overlapse/trace/testkit/must"
)

// tinyFiles makes the smallest input of every command in the current folder: a trace of two
// ranks with a GEMM and an all-reduce, a plan of a sweep, and rows.
func tinyFiles(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	files := map[string]string{
		"plan.yaml": "inputs: [tiny]\nstrategies: [bulk]\n",
		"calibrate.jsonl": `{"id": "a", "machine": "mi300x:8", "world": 1, "workload": {"kind": "hbm_copy", "bytes": 1073741824}, "strategy": "isolated", "params": {"kernel": true}, "us": 536.87, "min_us": 536, "max_us": 540}
`,
		"rows.jsonl": `{"id": "v", "machine": "h200:2", "world": 2, "workload": {"kind": "gemm+collective", "m": 1024, "n": 1024, "k": 1024, "dtype": "bf16", "collective": "all_reduce", "bytes": 2097152}, "strategy": "bulk", "params": {}, "us": 150, "min_us": 149, "max_us": 151, "trace": "tiny"}
`,
	}
	for rank := range 2 {
		files[fmt.Sprintf("tiny/rank%d.json", rank)] = fmt.Sprintf(`{"deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132}],
"distributedInfo": {"backend": "nccl", "rank": %d, "world_size": 2}, "traceEvents": [
{"ph": "X", "cat": "kernel", "name": "nvjet_tst_128x256", "pid": 0, "tid": 7, "ts": 10, "dur": 100, "args": {"device": 0, "stream": 7, "grid": [32, 1, 1], "block": [384, 1, 1]}},
{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "pid": 0, "tid": 7, "ts": 115, "dur": 50, "args": {"device": 0, "stream": 7, "grid": [16, 1, 1], "block": [512, 1, 1],
"Collective name": "allreduce", "In msg nelems": 1048576, "Out msg nelems": 1048576, "dtype": "BFloat16", "Group size": 2, "Process Group Name": "0"}}]}
`, rank)
	}
	for name, text := range files {
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o777))
		must.Do(t, os.WriteFile(name, []byte(text), 0o666))
	}
}

// tinyLines are a quick and complete line of every command.
var tinyLines = map[string]string{
	"overlapse":  "",
	"capture":    "-o captured -- cp -r tiny captured",
	"inspect":    "tiny",
	"replay":     "tiny --strategy bulk",
	"tune":       "tiny --strategy multistream",
	"sweep":      "plan.yaml -o swept",
	"view":       "tiny --print",
	"diff":       "tiny tiny",
	"report":     "tiny --strategy bulk -o report.html",
	"export":     "tiny --to json -o x.json",
	"validate":   "rows.jsonl",
	"reproduce":  "CS-7",
	"calibrate":  "calibrate.jsonl",
	"machines":   "h200",
	"strategies": "bulk",
	"mcp":        ".",
	"man":        "manual",
	"help":       "view",
	"completion": "bash",
}

// eachCommand calls f with the line of every command.
func eachCommand(t *testing.T, f func(c *cobra.Command, args []string)) {
	t.Helper()
	root := newApp(&cli.Console{}).root()
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
		line, ok := tinyLines[c.Name()]
		if !ok {
			t.Errorf("no line for %s", c.Name())
			continue
		}
		args := strings.Fields(line)
		if c != root {
			args = append([]string{c.Name()}, args...)
		}
		f(c, args)
	}
}

// Whatever the value of a flag: no panic, a documented exit code, no number that is none, and
// nothing that a terminal may not get.
func TestExtremeFlags(t *testing.T) {
	tinyFiles(t)
	values := []string{"-1", "0", "9223372036854775807", "99999999999999999999", "NaN", "-Inf", "", "1e308", evil}
	if !longtest.Asked() {
		values = []string{"-1", "9223372036854775807", "NaN", evil}
	}
	none := regexp.MustCompile(`\b(NaN|[+-]Inf)\b|goroutine |runtime error`)
	eachCommand(t, func(c *cobra.Command, args []string) {
		if code, _, stderr := runTiny(args); code != cli.OK {
			t.Fatalf("%q: exit code %d: %s", args, code, stderr)
		}
		visit := func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			for _, v := range values {
				line := append(slices.Clone(args), "--"+f.Name+"="+v)
				code, out, stderr := runTiny(line)
				if code < cli.OK || code > cli.Threshold {
					t.Errorf("%q: exit code %d: %s", line, code, stderr)
				}
				text := out + stderr
				if v == "NaN" || v == "-Inf" { // messages name the value
					text = strings.ReplaceAll(text, v, "")
				}
				if at := none.FindStringIndex(text); at != nil {
					t.Errorf("%q: %s", line, text[max(0, at[0]-100):min(len(text), at[1]+100)])
				}
				for _, r := range out + stderr {
					if r != '\n' && r != '\t' && guard.Line(string(r)) != string(r) {
						t.Errorf("%q: prints %U", line, r)
						break
					}
				}
			}
		}
		c.InheritedFlags() // adds them to Flags
		c.Flags().VisitAll(visit)
		if c == c.Root() {
			c.PersistentFlags().VisitAll(visit)
		}
	})
}

// Whatever a machine file says: it is refused, or the replay has numbers.
func TestExtremeMachines(t *testing.T) {
	tinyFiles(t)
	none := regexp.MustCompile(`\b(NaN|[+-]?Inf)\b|-9223372036854775808`)
	var m machine.Machine
	for i, e := range machine.Entries(&m) {
		for j, number := range []string{"1e-300", "1e-9", "0", "1", "1e6", "1e12", "1e308"} {
			if e.Quantity == nil || !longtest.Asked() && (i+j)%5 > 0 {
				continue
			}
			text, keys := "base: h200\n", strings.Split(e.Key, ".")
			for depth, key := range keys {
				text += strings.Repeat(" ", depth) + key + ": "
				if depth < len(keys)-1 {
					text += "\n"
				}
			}
			text += strings.TrimSpace(number+" "+machine.UsualUnit(e.Dims[0])) + "\n"
			must.Do(t, os.WriteFile("m.yaml", []byte(text), 0o666))
			code, out, stderr := runTiny([]string{"replay", "tiny", "--machine", "m.yaml:2", "--strategy", "bulk,multistream,ideal", "--format", "csv"})
			if code > cli.Failed || none.MatchString(out+stderr) {
				t.Errorf("%s: exit code %d\n%s%s", text, code, out, stderr)
			}
		}
	}
}

// runTiny runs a line in this process.
func runTiny(args []string) (code int, out, stderr string) {
	var o, e bytes.Buffer
	code = run(args, newApp(&cli.Console{In: strings.NewReader(""), Out: guard.Writer(&o), Err: guard.Writer(&e), Data: &o}))
	return code, o.String(), e.String()
}

// full is a writer without space.
type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

// What cannot be written fails.
func TestFullDisk(t *testing.T) {
	tinyFiles(t)
	eachCommand(t, func(c *cobra.Command, args []string) {
		if slices.Contains([]string{"man", "mcp", "report", "sweep"}, c.Name()) { // print nothing, mcp without a client
			return
		}
		args = slices.DeleteFunc(args, func(s string) bool { return c.Name() == "export" && (s == "-o" || s == "x.json") })
		var stderr bytes.Buffer
		code := run(args, newApp(&cli.Console{In: strings.NewReader(""), Out: guard.Writer(full{}), Err: &stderr, Data: full{}}))
		if code != cli.Failed || !strings.Contains(stderr.String(), errFull.Error()) {
			t.Errorf("%q: exit code %d, and %q", args, code, stderr.String())
		}
	})
}

// A defect has an exit code and a line of its own.
func TestDefect(t *testing.T) {
	a := newApp(&cli.Console{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}})
	var stderr bytes.Buffer
	a.Err = &stderr
	code := run([]string{"replay", "-"}, a) // without standard input
	want := regexp.MustCompile(`^overlapse: defect: runtime error: .* at [a-z/]+\.go:\d+ .*\(please report this line; overlapse .*arguments \["replay" "-"\]\)\n$`)
	if code != cli.Defect || !want.MatchString(stderr.String()) {
		t.Errorf("exit code %d, and %q", code, stderr.String())
	}
}
