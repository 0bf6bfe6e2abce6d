package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/viz/plain"
)

// Exit codes, as `overlapse --help` documents them.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitThreshold = 3
)

// usageError is a command line that cannot be understood: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// thresholdError is a limit the caller set that was not met: exit code 3.
type thresholdError struct{ error }

// strategyError is strategies that a user named and that cannot run on the
// trace: exit code 1, after the others' results.
type strategyError struct{ error }

// run executes one command line and returns the exit code.
func run(args []string, a *app) int {
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	defer stop()
	root := a.root()
	root.SetArgs(args)
	err := a.execute(ctx, root)
	if err == nil {
		return exitOK
	}
	var usage usageError
	var threshold thresholdError
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintf(a.err, "overlapse: %v; %v\n", context.Cause(ctx), &a.files)
		return exitFailed
	case errors.As(err, &usage):
		fmt.Fprintf(a.err, "overlapse: %s\n", plain.Line(suggest(err)))
		return exitUsage
	}
	for _, line := range errorLines(err) {
		fmt.Fprintf(a.err, "overlapse: %s\n", plain.Line(line))
	}
	if errors.As(err, &threshold) {
		return exitThreshold
	}
	var cannot strategyError
	if len(a.files.written) > 0 && !errors.As(err, &cannot) {
		fmt.Fprintf(a.err, "overlapse: %v\n", &a.files)
	}
	return exitFailed
}

// mostErrors is how many errors of a file are shown.
const maxErrors = 10

// errorLines are the lines that tell an error: one for each of several joined
// ones, the first few.
func errorLines(err error) []string {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return []string{err.Error()}
	}
	var lines []string
	for i, e := range joined.Unwrap() {
		if more := len(joined.Unwrap()) - i; i == maxErrors && more > 1 {
			return append(lines, fmt.Sprintf("and %d errors more", more))
		}
		lines = append(lines, e.Error())
	}
	return lines
}

// endSignals are the signals that end a command in order. One that the process
// was started to ignore, as nohup does, stays ignored.
func endSignals() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	return slices.DeleteFunc(all, signal.Ignored)
}

// grace is how long a command has to end by itself after a signal: enough to
// restore a terminal. Reading a trace, for one, does not look whether to end.
const grace = time.Second

// execute runs a command until it ends, or until a signal came and grace is over.
func (a *app) execute(ctx context.Context, root *cobra.Command) error {
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(grace):
		a.files.close()
		return ctx.Err()
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "overlapse",
		Short: "Which way of overlapping computation with communication pays, by how much, and why?",
		Long: `overlapse takes a GPU trace that somebody captured, replays its kernels, workgroups,
collectives and copies on a modelled multi-GPU machine under every overlap strategy,
and shows what would have happened.

Exit codes: 0 fine, 1 failed, 2 wrong usage, 3 a threshold that you set was not met.
Results go to standard output, everything else to standard error.`,
		Version:       version(),
		Args:          unknownCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "no progress and no notes on standard error")
	root.PersistentFlags().Int64Var(&a.limit, "limit", 0, "most MiB to read of all files together, once inflated (0: 32768, and files with an implausible compression ratio are refused)")
	root.PersistentFlags().BoolVar(&a.skipBad, "skip-bad", false, "leave out files of a run that cannot be read, with a warning for each")
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("overlapse {{.Version}}\n")
	for _, c := range []*cobra.Command{
		a.inspectCommand(), a.replayCommand(), a.tuneCommand(), a.viewCommand(), a.reportCommand(), a.exportCommand(),
		a.validateCommand(), a.reproduceCommand(), a.calibrateCommand(), a.machinesCommand(), a.strategiesCommand(),
	} {
		root.AddCommand(c)
	}
	completions(root)
	return root
}

// atMostOne is the argument check of commands that list things, or show one.
func atMostOne(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usageError{fmt.Errorf("%s takes one name at most and got %d (see overlapse %s --help)", c.Name(), len(args), c.Name())}
	}
	return nil
}

// onePath is the argument check of commands that take one trace.
func onePath(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s takes one path to a trace and got %d (see overlapse %s --help)", c.Name(), len(args), c.Name())}
	}
	return nil
}

// tracePaths is the argument check of commands that take one trace, in one or several files.
func tracePaths(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageError{fmt.Errorf("%s takes the path to a trace, or those of its ranks, and got none (see overlapse %s --help)", c.Name(), c.Name())}
	}
	for _, path := range args {
		if len(args) > 1 && (isYAML(path) || path == "-") {
			return usageError{fmt.Errorf("%s: give it by itself, not with other paths", path)}
		}
	}
	return nil
}
