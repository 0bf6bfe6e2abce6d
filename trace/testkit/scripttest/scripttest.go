// Package scripttest runs tests that are text: one call a line, and below it, indented, what it answers.
//
//	# Two GEMMs, the second of which reads a sum.
//	step ranks=2
//	: 7 G1  500
//	: 7 AR1 300 G1
//	: 7 G2  500 AR1
//
//	bulk => 1306.2 us
//	bulk channels=4 | spans
//	  7: G1 0-500, G2 1104-1604
//	  19: AR1 502-1102
//
// Lines that begin with ":" are the call's input. An answer of one line may stand behind "=>". With -update, answers are
// rewritten. Each file is a test, of calls that work on what the calls before them have set.
package scripttest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lineLimit is the length up to which a call and its answer are written on one line.
const lineLimit = 140

// A Call is one call of a script.
type Call struct {
	Name  string
	Text  string            // line behind the name
	Args  []string          // its words without "="
	Set   map[string]string // its words with "=", by name
	Input string            // lines behind ":"
}

// A Handler answers a call: "" if there is nothing to say. It fails tests for mistakes of a script.
type Handler func(t testing.TB, c Call) string

// Run runs each file of a pattern as a test of its own, with the handler that start returns for it.
func Run(t *testing.T, pattern string, start func(t testing.TB) Handler) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := string(text)
			got := answer(t, file, want, start(t))
			switch {
			case got == want:
			case updating():
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("%s answers otherwise (-want +got):\n%s", file, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
			}
		})
	}
}

// updating reports whether -update is set, which each package of tests defines once.
func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// answer is the script with the handler's answers in place of those that it has.
func answer(t testing.TB, file, text string, handle Handler) string {
	t.Helper()
	var out strings.Builder
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case strings.HasPrefix(line, "  "): // an old answer
			continue
		case line == "" || line[0] == '#':
			out.WriteString(line + "\n")
			continue
		case line[0] == ':':
			t.Fatalf("%s:%d: input of no call", file, i+1)
		}
		line, _, _ = strings.Cut(line, " => ")
		input := ""
		out.WriteString(line)
		for ; i+1 < len(lines) && strings.HasPrefix(lines[i+1], ":"); i++ {
			input += strings.TrimPrefix(strings.TrimPrefix(lines[i+1], ":"), " ") + "\n"
			out.WriteString("\n" + lines[i+1])
		}
		got := strings.TrimRight(handle(t, call(line, input)), "\n")
		switch {
		case got == "":
		case input == "" && !strings.Contains(got, "\n") && len(line)+len(got)+4 <= lineLimit:
			out.WriteString(" => " + got)
		default:
			for l := range strings.SplitSeq(got, "\n") {
				fmt.Fprintf(&out, "\n  %s", strings.TrimRight(l, " "))
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

func call(line, input string) Call {
	name, text, _ := strings.Cut(line, " ")
	c := Call{Name: name, Text: strings.TrimSpace(text), Set: map[string]string{}, Input: input}
	for word := range strings.FieldsSeq(text) {
		if k, v, ok := strings.Cut(word, "="); ok {
			c.Set[k] = v
		} else {
			c.Args = append(c.Args, word)
		}
	}
	return c
}
