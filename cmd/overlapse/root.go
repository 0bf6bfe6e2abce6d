package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit codes, as `overlapse --help` documents them.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitThreshold = 3
)

// An app is the world outside: streams and what is known of them.
type app struct {
	in       io.Reader
	out, err io.Writer
	tty      bool // err is a terminal: progress may be drawn
	width    int  // of out, if it is a terminal; else 0
	color    bool // out takes colours
	quiet    bool
	limit    int64               // MiB to read of all files; 0 stands for the default
	skipBad  bool                // leave out files of a run that cannot be read
	inputs   map[string][]string // by the name of a trace that was given as several paths: those
}

// terminal is the app of the real process.
func terminal() *app {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	a.tty = term.IsTerminal(int(os.Stderr.Fd()))
	if w, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		a.width = w
		a.color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return a
}

// usageError is a command line that cannot be understood: exit code 2.
type usageError struct{ error }

// thresholdError is a limit the caller set that was not met: exit code 3.
type thresholdError struct{ error }

// run executes one command line and returns the exit code.
func run(args []string, a *app) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var usage usageError
	var threshold thresholdError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(a.err, "overlapse: interrupted; nothing was written")
		return exitFailed
	}
	fmt.Fprintf(a.err, "overlapse: %s\n", oneLine(err.Error()))
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &threshold):
		return exitThreshold
	}
	return exitFailed
}

// oneLine keeps a hostile name in an error from moving the cursor.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return ' '
		}
		return r
	}, s)
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
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "no progress and no notes on standard error")
	root.PersistentFlags().Int64Var(&a.limit, "limit", 0, "most MiB to read of all files together, once inflated (0: 32768, and files with an implausible compression ratio are refused)")
	root.PersistentFlags().BoolVar(&a.skipBad, "skip-bad", false, "leave out files of a run that cannot be read, with a warning for each")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see overlapse %s --help)", err, c.Name())}
	})
	for _, c := range []*cobra.Command{
		a.inspectCommand(), a.replayCommand(), a.tuneCommand(), a.viewCommand(), a.reportCommand(), a.exportCommand(),
		a.validateCommand(), a.reproduceCommand(), a.calibrateCommand(), a.machinesCommand(), a.strategiesCommand(),
	} {
		root.AddCommand(c)
	}
	return root
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

// choice is a flag value that must be one of a few words.
func choice(flag, value string, words ...string) error {
	for _, w := range words {
		if value == w {
			return nil
		}
	}
	return usageError{fmt.Errorf("--%s %q is none of %s", flag, value, strings.Join(words, ", "))}
}

// note writes a line of talk to standard error.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintln(a.err, "overlapse: "+oneLine(fmt.Sprintf(format, args...)))
	}
}
