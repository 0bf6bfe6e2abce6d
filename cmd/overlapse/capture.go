package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/samples"
	"github.com/overlapse/overlapse/trace"
)

// captureOptions are the flags of `overlapse capture`.
type captureOptions struct {
	output   string
	steps    int
	warmup   int
	profiler string
}

func (a *app) captureCommand() *cobra.Command {
	var o captureOptions
	c := &cobra.Command{
		Use:   "capture [-o FOLDER] -- COMMAND...",
		Short: "Run a training script that was not changed, capture some steps of every rank, and replay them",
		Long: `Runs a command, such as torchrun train.py, whose Python processes are captured: of every
rank a few steps of the first optimizer after a warm-up, with the shapes of operators, and
one more step with what operators read and write. When the command has ended, the trace is
replayed. Python started with -I or -S cannot be captured: copy samples/capture/overlapse.py
beside the script, and give on_trace_ready=overlapse.handler("out") to torch.profiler.

On ROCm the command runs under rocprofv3, which records kernels, copies, calls and markers
of these steps, without shapes; --profiler torch uses PyTorch's profiler there too. Serving
engines have switches of their own (trace/FORMATS.md).`,
		Example: `  overlapse capture -- torchrun --nproc-per-node 8 train.py --config 7b.toml
  overlapse capture -o before --steps 2 --warmup 20 -- torchrun --nproc-per-node 8 train.py`,
		Args: needs("the command to run, after --"),
		RunE: func(c *cobra.Command, args []string) error { return a.capture(c.Context(), o, args) },
	}
	f := c.Flags()
	f.SetInterspersed(false)
	f.StringVarP(&o.output, "output", "o", "captured", "folder to write the trace to; it must not hold another one")
	cli.IntFlag(f, &o.steps, "steps", 3, cli.Range[int]{Least: 1, Most: 1000}, "steps to capture")
	cli.IntFlag(f, &o.warmup, "warmup", 5, cli.Range[int]{Least: 1, Most: 1 << 30}, "steps before them")
	cli.ChoiceFlag(c, &o.profiler, "profiler", "auto", "auto (rocprofv3 on ROCm, if it is installed), torch or rocprofv3",
		"auto", "torch", "rocprofv3")
	return c
}

func (a *app) capture(ctx context.Context, o captureOptions, command []string) error {
	out, err := filepath.Abs(o.output)
	if err != nil {
		return err
	}
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		return cli.Errorf("%s holds files: give another folder with -o", o.output)
	}
	site, err := os.MkdirTemp("", "overlapse-*")
	if err != nil {
		return cli.WithoutPath(err)
	}
	defer func() { _ = os.RemoveAll(site) }()
	for name, text := range map[string]string{"overlapse_capture.py": string(samples.CaptureScript), "sitecustomize.py": sitecustomize} {
		if err := os.WriteFile(filepath.Join(site, name), []byte(text), 0o666); err != nil {
			return cli.WithoutPath(err)
		}
	}
	env := append(os.Environ(),
		"PYTHONPATH="+strings.TrimSuffix(site+string(os.PathListSeparator)+os.Getenv("PYTHONPATH"), string(os.PathListSeparator)),
		"OVERLAPSE_OUT="+out, fmt.Sprint("OVERLAPSE_STEPS=", o.steps), fmt.Sprint("OVERLAPSE_WARMUP=", o.warmup))
	run := command
	if o.profiler != "torch" && a.underROCm(ctx, &o, command) {
		run = append([]string{
			"rocprofv3", "--runtime-trace", "--selected-regions", "--output-format", "json", "--output-directory",
			filepath.Join(out, "rank%env{RANK}%"), "--",
		}, command...)
		env = append(env, "OVERLAPSE_ROCPROF=1")
	}
	c := exec.Command(run[0], run[1:]...)
	c.Env, c.Stdin, c.Stdout, c.Stderr = env, a.In, os.Stderr, os.Stderr
	a.ending.Store(int64(jobEnding + grace))
	failed := runJob(ctx, c, jobEnding)
	a.ending.Store(0)
	if err := ctx.Err(); err != nil {
		return err
	}
	if failed != nil {
		failed = fmt.Errorf("%s: %w", cli.ShellWords(run), cli.WithoutPath(failed))
	}
	return a.captured(ctx, o, failed)
}

// jobEnding is the time in which a job may end after a signal, as torchrun gives its workers.
const jobEnding = 30 * time.Second

// captured replays what a command left, and says what is missing.
func (a *app) captured(ctx context.Context, o captureOptions, failed error) error {
	entries, _ := os.ReadDir(o.output)
	found := slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.HasPrefix(e.Name(), "rank") })
	if len(found) == 0 {
		return cmp.Or(failed, fmt.Errorf("nothing was captured: no optimizer of PyTorch made %d steps in a Python that reads PYTHONPATH (--warmup and --steps set how many; "+
			"for other programs: overlapse capture --help)", o.warmup+o.steps+1))
	}
	if failed != nil {
		a.Notef("%v; its trace is complete as far as it is read", failed)
	}
	run, err := a.Open(o.output, "")
	if err != nil {
		return errors.Join(err, failed)
	}
	if !slices.ContainsFunc(run.Spans, func(s trace.Span) bool { return s.Kind.OnDevice() }) {
		return fmt.Errorf("%s: the program did no GPU work: no kernel or copy among the %d events of %s (run it on a machine with GPUs)",
			o.output, len(run.Spans), cli.Counted(len(found), "rank"))
	}
	a.Notef("captured %s into %s", cli.Counted(len(run.Ranks), "rank"), o.output)
	replay := a.replayCommand()
	replay.SetContext(ctx)
	return replay.RunE(replay, []string{o.output})
}

// sitecustomize is what Python runs before a program: it captures, then runs the one that it
// hides.
const sitecustomize = `import importlib.machinery, importlib.util, os, sys
import overlapse_capture
sys.meta_path.insert(0, overlapse_capture.AfterImport())
here = os.path.dirname(os.path.abspath(__file__))
hidden = importlib.machinery.PathFinder.find_spec("sitecustomize", [p for p in sys.path if os.path.abspath(p or ".") != here])
if hidden is not None and hidden.loader is not None:
    hidden.loader.exec_module(importlib.util.module_from_spec(hidden))
`

// processes finds how many processes torchrun starts on a machine.
var processes = regexp.MustCompile(`--nproc[-_]per[-_]node[= ](\d+)`)

// hangFrom is the number of GPUs from which rocprofv3 hangs with collectives
// (https://github.com/ROCm/rocm-systems/issues/10143).
const hangFrom = 5

// underROCm reports whether to use rocprofv3, and warns of what it does.
func (a *app) underROCm(ctx context.Context, o *captureOptions, command []string) bool {
	_, missing := exec.LookPath("rocprofv3")
	devices := hostGPUs(ctx, os.DirFS("/"))
	nvidia := len(devices) > 0 && !strings.HasPrefix(devices[0].Name, "gfx")
	if o.profiler == "auto" && (missing != nil || nvidia) {
		return false
	}
	n := len(devices)
	if m := processes.FindStringSubmatch(strings.Join(command, " ")); m != nil {
		n, _ = strconv.Atoi(m[1])
	}
	if n >= hangFrom {
		a.Notef("rocprofv3 may hang with collectives on %d or more GPUs (rocm-systems#10143), and this job has %d: if it does, capture with --profiler torch, or on %d GPUs", hangFrom, n, hangFrom-1)
	}
	return true
}
