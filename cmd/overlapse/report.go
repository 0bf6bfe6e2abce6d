package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/input"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/viz/html"
)

func (a *app) reportCommand() *cobra.Command {
	var o input.Flags
	var output string
	c := &cobra.Command{
		Use:   "report PATH...",
		Short: "Write one self-contained HTML file with the strategies' times and timelines",
		Long: `Replays a trace and writes only the report. overlapse replay -o also writes the Perfetto
timeline, the pprof profiles and the results as JSON.`,
		Example: `  overlapse report samples/moe-ep4
  overlapse report samples/moe-ep4 --strategy bulk,fused -o moe.html`,
		Args: tracePaths,
		RunE: func(c *cobra.Command, args []string) error {
			o.Path = a.Input(args)
			return a.writeReport(c.Context(), o, output)
		},
	}
	o.AddTo(c, "strategies, with settings")
	c.Flags().StringVarP(&output, "output", "o", "report.html", "file to write")
	return c
}

func (a *app) writeReport(ctx context.Context, o input.Flags, output string) error {
	sel, w, m, err := input.Prepare(&a.Reader, o, engines.ParseSelection)
	if err != nil {
		return err
	}
	opts := results.Recording(0)
	opts.Usage, opts.Stop = true, input.StopFunc(ctx)
	r, err := results.Of(ctx, a.Console, o.Path, w, m, sel, o.Scenario(), opts, true, o.Strategy == "all")
	if err != nil {
		return err
	}
	if err := a.files.Write(output, func(w io.Writer) error { return html.Write(w, r.HTML()) }); err != nil {
		return err
	}
	if left := r.Coarse(); left != "" {
		a.Notef("%s", left)
	}
	a.Notef("wrote %s", output)
	if err := o.FailedError(r.Outcomes); err != nil { // the report says so too
		a.Notef("%v", err)
	}
	return nil
}
