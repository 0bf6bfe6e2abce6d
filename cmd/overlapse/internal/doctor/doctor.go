// Package doctor checks what a machine has that reports, timelines, replays and captures use.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/console"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/files"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/schema"
	"github.com/overlapse/overlapse/viz/plain"
)

// Environment are what overlapse doctor looks at.
type Environment struct {
	system string // runtime.GOOS
	env    func(string) string
	output func(ctx context.Context, name string, args ...string) (string, error) // of a command
	root   fs.FS                                                                  // the file system, for /proc and /sys
	size   func() (columns, lines int, err error)                                 // of the terminal that is standard output
	temp   func() (string, error)                                                 // writes a temporary file, and returns the folder
}

// A finding is a line of the doctor.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok; missing, if every command needs it; else optional
	Needed bool   `json:"needed"` // by every command; else by what Means says
	Found  string `json:"found"`
	Means  string `json:"means"`
	Do     string `json:"do,omitempty"` // if it is not ok
}

func (f *finding) ok() bool { return f.Status == "ok" }

// A Diagnosis is what doctor --format json prints.
type Diagnosis struct {
	Schema   int       `json:"schema"`
	Version  string    `json:"version"` // of the program
	Findings []finding `json:"findings"`
}

// Here are the environment of the real process.
func Here() Environment {
	return Environment{
		system: runtime.GOOS, env: os.Getenv, root: os.DirFS("/"),
		output: func(ctx context.Context, name string, args ...string) (string, error) {
			ctx, stop := context.WithTimeout(ctx, 60*time.Second) // the first import of PyTorch reads gigabytes
			defer stop()
			c := exec.CommandContext(ctx, name, args...)
			c.WaitDelay = time.Second
			text, err := c.Output()
			return string(text), err
		},
		size: func() (int, int, error) { return term.GetSize(int(os.Stdout.Fd())) },
		temp: func() (string, error) {
			f, err := os.CreateTemp("", "overlapse-*")
			if err != nil {
				return os.TempDir(), files.WithoutPath(err)
			}
			defer os.Remove(f.Name())
			_, err = f.WriteString("overlapse doctor\n")
			return os.TempDir(), files.WithoutPath(errors.Join(err, f.Close()))
		},
	}
}

// Examine looks at an environment and prints what it found. It is an error if something is
// missing that every command needs.
func Examine(ctx context.Context, con *console.Console, s Environment, version, format string) error {
	done := con.Waiting(func() string { return "asking nvidia-smi, rocm-smi and python3" }, nil)
	d := Diagnosis{schema.Version, version, s.findings(ctx)}
	done()
	if err := ctx.Err(); err != nil {
		return err
	}
	if format == "json" {
		if err := schema.WriteJSON(con.Out, d); err != nil {
			return err
		}
	} else {
		d.print(con.Out)
	}
	var needed []string
	for _, f := range d.Findings {
		if f.Needed && !f.ok() {
			needed = append(needed, f.Check)
		}
	}
	if len(needed) > 0 {
		return fmt.Errorf("needed, and missing: %s", strings.Join(needed, ", "))
	}
	return nil
}

func (d *Diagnosis) print(w io.Writer) {
	fmt.Fprintf(w, "overlapse %s\n\n", d.Version)
	needed, optional := false, 0
	for _, f := range d.Findings {
		fmt.Fprintf(w, "%-8s %-12s %s: %s\n", f.Status, f.Check, plain.Line(f.Found), plain.Line(f.Means))
		if !f.ok() {
			needed = needed || f.Needed
			optional++
			fmt.Fprintf(w, "%-8s %-12s to do: %s\n", "", "", plain.Line(f.Do))
		}
	}
	switch {
	case needed: // the error says it
	case optional == 0:
		fmt.Fprintf(w, "\nall is well\n")
	default:
		fmt.Fprintf(w, "\nall that commands need is here; %d optional\n", optional)
	}
}

// findings are all checks, in the order in which they are printed.
func (s *Environment) findings(ctx context.Context) []finding {
	list := []finding{s.temporary(), s.locale(), s.terminal(), s.colours()}
	list = append(list, s.gpus(ctx)...)
	return append(list, s.python(ctx)...)
}

// checked is a finding that is ok or, with something to do, optional.
func checked(check, found, means, do string) finding {
	f := finding{Check: check, Status: "ok", Found: found, Means: means, Do: do}
	if do != "" {
		f.Status = "optional"
	}
	return f
}

func (s *Environment) temporary() finding {
	dir, err := s.temp()
	f := checked("temporary", dir+" can be written", "large archives of traces are unpacked there", "")
	if err != nil {
		f = checked("temporary", fmt.Sprintf("%s: %v", dir, err), "large archives of traces cannot be read", "make the folder writable, or set TMPDIR to one that is")
		f.Status = "missing"
	}
	f.Needed = true
	return f
}

func (s *Environment) locale() finding {
	if s.system == "windows" {
		return checked("locale", "Windows", "its console shows Unicode", "")
	}
	name, value, utf8 := console.Locale(s.env)
	found := fmt.Sprintf("%s=%s", name, value)
	if utf8 {
		return checked("locale", found, "timelines are drawn with Unicode blocks", "")
	}
	return checked("locale", found, "not UTF-8: µ and the blocks of timelines are unreadable", "export LC_ALL=C.UTF-8, or view --ascii")
}

// Size of a terminal from which tables and the browser of timelines are readable.
const (
	leastColumns = 80
	leastLines   = 24
)

func (s *Environment) terminal() finding {
	columns, lines, err := s.size()
	term := s.env("TERM")
	switch {
	case err != nil:
		return checked("terminal", "standard output is not a terminal", "view prints instead of browsing; tables have all columns", "")
	case s.system != "windows" && (term == "" || term == "dumb"):
		return checked("terminal", "TERM="+term, "view cannot browse timelines", "export TERM=xterm-256color, or what your terminal is")
	case columns < leastColumns || lines < leastLines:
		return checked("terminal", fmt.Sprintf("%d columns, %d lines", columns, lines), "tables are cut and timelines coarse",
			fmt.Sprintf("make it %d by %d or larger; --wide prints whole tables", leastColumns, leastLines))
	}
	return checked("terminal", strings.TrimSpace(fmt.Sprintf("%s, %d columns, %d lines", cmp.Or(term, s.system), columns, lines)), "tables fit, view browses timelines", "")
}

func (s *Environment) colours() finding {
	term, depth := s.env("TERM"), s.env("COLORTERM")
	switch {
	case s.env("NO_COLOR") != "":
		return checked("colours", "NO_COLOR is set", "timelines tell states apart by letters", "")
	case depth == "truecolor" || depth == "24bit" || s.env("WT_SESSION") != "":
		return checked("colours", "16 million", "timelines have the colours of the report", "")
	case strings.Contains(term, "256color") || strings.Contains(term, "direct"):
		return checked("colours", "256", "timelines have nearly the colours of the report", "")
	}
	return checked("colours", fmt.Sprintf("TERM=%s, COLORTERM=%s: 16 or fewer", term, depth), "colours of timelines are coarse",
		"export COLORTERM=truecolor, if the terminal can show it, or TERM=xterm-256color")
}

// What samples/capture needs.
const (
	leastPython = "3.10"
	leastTorch  = "2.6"
)

// python checks what the capture scripts need.
func (s *Environment) python(ctx context.Context) []finding {
	const means = "samples/capture measures this machine and records traces"
	text, err := s.output(ctx, "python3", "-c", `import sys; print("%d.%d.%d" % sys.version_info[:3])`)
	version := strings.TrimSpace(text)
	if err != nil {
		return []finding{checked("Python", "no python3 on the PATH", "samples/capture cannot run here", "install Python "+leastPython+" or later where you capture; check: python3 --version")}
	}
	if !atLeast(version, leastPython) {
		return []finding{checked("Python", version, "samples/capture needs "+leastPython, "install a later Python where you capture; check: python3 --version")}
	}
	list := []finding{checked("Python", version, means, "")}
	const try = `python3 -c "import torch; print(torch.__version__, torch.cuda.device_count())"`
	text, err = s.output(ctx, "python3", "-c", "import torch; print(torch.__version__, torch.cuda.device_count())")
	words := strings.Fields(text)
	switch {
	case err != nil || len(words) != 2:
		return append(list, checked("PyTorch", "python3 cannot import torch", "samples/capture cannot run here", "pip install torch where you capture; check: "+try))
	case !atLeast(words[0], leastTorch):
		return append(list, checked("PyTorch", words[0], "samples/capture needs "+leastTorch, "pip install --upgrade torch; check: "+try))
	case words[1] == "0":
		return append(list, checked("PyTorch", words[0]+", no GPU", "samples/capture cannot measure here", "install PyTorch for CUDA or ROCm on a machine with GPUs; check: "+try))
	}
	return append(list, checked("PyTorch", fmt.Sprintf("%s, %s GPUs", words[0], words[1]), means, ""))
}

// atLeast compares the first two numbers of versions: 2.11.0+cu130 is at least 2.6.
func atLeast(version, least string) bool {
	numbers := func(s string) []int {
		n := make([]int, 2)
		for i, word := range strings.SplitN(s, ".", 3)[:min(2, strings.Count(s, ".")+1)] {
			n[i], _ = strconv.Atoi(word)
		}
		return n
	}
	return slices.Compare(numbers(version), numbers(least)) >= 0
}
