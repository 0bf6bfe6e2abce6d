package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace/guard"
)

// An app is what a command works with: the streams, the global flags, and the files that
// it writes.
type app struct {
	cli.Reader
	files  cli.Set
	ending atomic.Int64 // nanoseconds that the command needs to end after a signal, if more than grace
	shown  any          // what inspect, replay, tune or diff printed last, for the addresses of its numbers
}

// newApp is an app on a console.
func newApp(c *cli.Console) *app { return &app{Reader: cli.Reader{Console: c}} }

// run executes one command line and returns the exit code.
func run(args []string, a *app) int {
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	defer stop()
	return a.run(ctx, args)
}

func (a *app) run(ctx context.Context, args []string) int {
	out := &kept{Writer: a.Out}
	data := &kept{Writer: a.Data}
	a.Out, a.Data = out, data
	root := a.root()
	root.SetArgs(args)
	err := a.execute(ctx, root)
	if err != nil && strings.HasPrefix(err.Error(), "unknown command ") { // cobra's, with suggestions in lines of their own
		err = cli.Errorf("%s (see overlapse --help)", strings.Join(strings.Fields(err.Error()), " "))
	}
	code, stated := cli.Code(err)
	if lost := cmp.Or(out.err, data.err); lost != nil && (err == nil || code == cli.Threshold) {
		err, code, stated = fmt.Errorf("standard output: %w", cli.WithoutPath(lost)), cli.Failed, false
	}
	var defect *guard.PanicError
	switch {
	case err == nil:
		return cli.OK
	case errors.As(err, &defect):
		a.files.Close()
		fmt.Fprintf(a.Err, "overlapse: defect: %s (please report this line; overlapse %s, arguments %q)\n",
			guard.Line(defect.Error()), version(), args)
		return cli.Defect
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintf(a.Err, "overlapse: %v; %v\n", context.Cause(ctx), &a.files)
		return cli.Failed
	case code == cli.Usage:
		fmt.Fprintf(a.Err, "overlapse: %s\n", guard.Line(err.Error()))
		return code
	}
	for _, line := range errorLines(err) {
		fmt.Fprintf(a.Err, "overlapse: %s\n", guard.Line(line))
	}
	if len(a.files.Written) > 0 && !stated {
		fmt.Fprintf(a.Err, "overlapse: %v\n", &a.files)
	}
	return code
}

// A kept writer keeps its first error: tables are printed without looking at errors, and a
// full disk must not end as success.
type kept struct {
	io.Writer
	err error
}

// Write implements io.Writer. After an error nothing more is written.
func (k *kept) Write(p []byte) (n int, err error) {
	if k.err == nil {
		n, k.err = k.Writer.Write(p)
	}
	return n, k.err
}

// maxErrors is the largest number of errors of a file that are printed.
const maxErrors = 5

// errorLines are the lines to print for an error: one for each of the first joined
// errors.
func errorLines(err error) []string {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []string{err.Error()}
	}
	var lines []string
	for i, e := range joined.Unwrap() {
		if more := len(joined.Unwrap()) - i; i == maxErrors && more > 1 {
			return append(lines, fmt.Sprintf("and %d more errors", more))
		}
		lines = append(lines, e.Error())
	}
	return lines
}

// endSignals are the signals that end a command in order. Signals that the
// process was started to ignore, as by nohup, stay ignored.
func endSignals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	return slices.DeleteFunc(all, signal.Ignored)
}

// grace is the time for a command to end after a signal: enough to restore a
// terminal. Some work, such as reading a trace, does not check for the signal.
const grace = time.Second

// execute runs a command until it ends, or until grace is over after a signal.
func (a *app) execute(ctx context.Context, root *cobra.Command) error {
	a.Context = ctx
	done := make(chan error, 1)
	go func() { done <- guard.Call(func() error { return root.ExecuteContext(ctx) }) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(max(grace, time.Duration(a.ending.Load()))):
		a.files.Close()
		return ctx.Err()
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "overlapse",
		Short: "Predict which overlap of computation and communication pays off, by how much, and why",
		Long: `overlapse replays the kernels, workgroups, collectives and copies of a captured GPU
trace on a modelled multi-GPU machine, under every overlap strategy, and predicts the
time of each.

Exit codes: 0 success, 1 failure or a signal, 2 wrong usage, 3 a threshold that you set was
exceeded, 4 a defect of overlapse, with a line to report.
Results go to standard output, everything else to standard error.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if value(c, "version") == "true" {
				fmt.Fprintf(a.Out, "overlapse %s\n", version())
				return nil
			}
			return c.Help()
		},
		PersistentPreRunE: checkOutputs,

		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.PersistentFlags().BoolVarP(&a.Quiet, "quiet", "q", false, "no progress and no notes on standard error")
	cli.IntFlag(root.PersistentFlags(), &a.Limit, "limit", 0, cli.Range[int64]{Most: 1 << 40},
		"largest total size of the input in MiB, uncompressed (default: 32768, and files with an implausible compression ratio are rejected)")
	root.PersistentFlags().BoolVar(&a.SkipBad, "skip-bad", false, "skip files of a run that cannot be read, with a warning for each")
	root.PersistentFlags().BoolVar(&a.Wide, "wide", false, "print every column of tables in full, wider than the terminal")
	root.SetFlagErrorFunc(cli.FlagError)
	root.Flags().BoolP("version", "v", false, "version for overlapse") // cobra's own ignores what follows it
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Find what to change:", []*cobra.Command{
			a.replayCommand(), a.tuneCommand(), a.inspectCommand(), a.diffCommand(), a.viewCommand(), a.mcpCommand(),
		}},
		{"Write files:", []*cobra.Command{a.reportCommand(), a.exportCommand(), a.sweepCommand()}},
		{"Capture, and know the machine:", []*cobra.Command{a.captureCommand(), a.machinesCommand(), a.strategiesCommand()}},
		{"For those who change overlapse:", []*cobra.Command{a.calibrateCommand(), a.validateCommand(), a.reproduceCommand()}},
		{"", []*cobra.Command{manCommand()}},
	} {
		for _, c := range group.commands {
			c.GroupID = group.title
			root.AddCommand(c)
		}
		if group.title != "" {
			root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		}
	}
	root.InitDefaultHelpFlag() // else what follows -h is its value
	root.SetHelpCommand(helpCommand(root))
	root.SetHelpCommandGroupID("Find what to change:")
	root.SetCompletionCommandGroupID("Write files:")
	completions(root)
	return root
}

// helpCommand is cobra's, but a name that is no command is wrong usage.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			c, _, err := root.Find(args)
			if err != nil {
				return err
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

// atMostOne is the argument check of commands that list entries or show one.
func atMostOne(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return cli.Errorf("%s takes at most one name, not %d (see overlapse %s --help)", c.Name(), len(args), c.Name())
	}
	return nil
}

// onePath is the argument check of commands that take one path.
func onePath(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.Errorf("%s takes one path, not %d (see overlapse %s --help)", c.Name(), len(args), c.Name())
	}
	return nil
}

// needs is the argument check of commands that take at least one of something.
func needs(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cli.Errorf("%s needs %s (see overlapse %s --help)", c.Name(), what, c.Name())
		}
		return nil
	}
}

// tracePaths is the argument check of commands that take one trace, in one or several files.
func tracePaths(c *cobra.Command, args []string) error {
	if err := needs("the path of a trace, or the paths of its ranks")(c, args); err != nil {
		return err
	}
	for _, path := range args {
		if len(args) > 1 && (cli.IsYAML(path) || path == "-") {
			return cli.Errorf("%s: cannot be combined with other paths", path)
		}
	}
	return nil
}

// A release is what the linker sets (-X main.released...) in the programs of a release,
// since they may be built outside of a clone.
type release struct {
	version string // v0.2.0
	commit  string
	date    string // of the commit
}

var releasedVersion, releasedCommit, releasedDate string

// version says which build this is: version, commit, date of the commit, whether files
// were changed since, and the Go version.
func version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		b = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	return versionOf(b, release{releasedVersion, releasedCommit, releasedDate})
}

func versionOf(b *debug.BuildInfo, linked release) string {
	set := map[string]string{}
	for _, s := range b.Settings {
		set[s.Key] = s.Value
	}
	words := []string{cmp.Or(linked.version, b.Main.Version, "(devel)")}
	if c := cmp.Or(linked.commit, set["vcs.revision"]); c != "" {
		words = append(words, "commit "+c)
	}
	if set["vcs.modified"] == "true" {
		words = append(words, "with local changes")
	}
	if t := cmp.Or(linked.date, set["vcs.time"]); t != "" {
		words = append(words, t)
	}
	return fmt.Sprintf("%s, %s %s/%s", strings.Join(words, ", "), b.GoVersion, runtime.GOOS, runtime.GOARCH)
}

// programVersion is what results depend on besides their input: the version of a release or a
// clean commit, else the content of the program.
var programVersion = sync.OnceValue(func() string {
	v := version()
	if strings.Contains(v, "commit ") && !strings.Contains(v, "with local changes") {
		return v
	}
	if path, err := os.Executable(); err == nil {
		if sum, err := guard.Digest(path); err == nil {
			return v + " " + sum
		}
	}
	return v
})

// stopFunc reports to a simulation whether the context is done.
func stopFunc(ctx context.Context) func() bool { return func() bool { return ctx.Err() != nil } }

// inputOf is the name under which open finds a trace given as one path or several.
func inputOf(r *cli.Reader, paths []string) string {
	if len(paths) == 1 {
		return paths[0]
	}
	name := fmt.Sprintf("%s and %d more", paths[0], len(paths)-1)
	r.Inputs = map[string][]string{name: paths}
	return name
}
