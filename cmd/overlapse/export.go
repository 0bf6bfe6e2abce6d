package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/viz/html"
	"github.com/overlapse/overlapse/viz/plain"
	"github.com/overlapse/overlapse/viz/pprof"
)

// exportOptions are the flags of `overlapse export`.
type exportOptions struct {
	path    string
	machine string
	to      string
	output  string
}

func (a *app) exportCommand() *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:   "export PATH --to chrome|pprof|html",
		Short: "Write a measured trace as a Perfetto timeline, a pprof profile or an HTML report",
		Long: `Converts a trace without replaying it. All ranks are aligned to one clock. For the
files of predicted strategies, use overlapse replay -o.`,
		Example: `  overlapse export samples/moe-ep4 --to chrome -o moe.json
  overlapse export samples/moe-ep4 --to pprof -o moe.pb.gz && go tool pprof -top moe.pb.gz
  overlapse export samples/moe-down-fused-wg --to html -o fused.html`,
		Args: tracePaths,
		RunE: func(_ *cobra.Command, args []string) error {
			o.path = a.input(args)
			return a.export(o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.to, "to", "chrome", "chrome (for Perfetto and chrome://tracing), pprof or html")
	f.StringVar(&o.machine, "machine", "", "machine that a workload file runs on; default: the one that it names")
	f.StringVarP(&o.output, "output", "o", "", "file to write; default: standard output")
	return c
}

func (a *app) export(o exportOptions) error {
	if err := choice("to", o.to, "chrome", "pprof", "html"); err != nil {
		return err
	}
	if o.machine != "" && !isYAML(o.path) {
		return usageError{errors.New("--machine needs a workload file: a trace is exported as measured (see overlapse export --help)")}
	}
	run, err := a.open(o.path, o.machine)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error {
		switch o.to {
		case "pprof":
			return pprof.Write(w, run)
		case "html":
			return html.Write(w, html.Report{Title: "overlapse: " + o.path, Runs: []html.Named{{Name: basisOf(run), Run: run}}})
		}
		return chrome.Write(plain.JSON(w), run)
	}
	if o.output == "" {
		if o.to == "pprof" && a.width > 0 {
			return usageError{errors.New("a pprof profile is binary: give -o FILE, or a pipe")}
		}
		if err := write(a.data); err != nil {
			return fmt.Errorf("standard output: %w", err)
		}
		return nil
	}
	return a.writeFile(o.output, write)
}
