package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/viz/html"
)

func (a *app) reportCommand() *cobra.Command {
	var o replayOptions
	var output string
	c := &cobra.Command{
		Use:   "report PATH",
		Short: "Write one HTML file to mail: the strategies' times and timelines",
		Long: `Replays a trace and writes the report alone. overlapse replay -o writes it beside the
Perfetto timeline, the pprof profile and the numbers.`,
		Example: `  overlapse report samples/moe-ep4
  overlapse report samples/moe-ep4 --strategy bulk,fused -o moe.html`,
		Args: onePath,
		RunE: func(c *cobra.Command, args []string) error {
			o.path = args[0]
			return a.writeReport(c.Context(), o, output)
		},
	}
	f := c.Flags()
	f.StringVar(&o.machine, "machine", "", "machine to replay on: a profile with its number of GPUs (h200x4) or a YAML file; default: the trace's own")
	f.StringVar(&o.strategy, "strategy", "all", "strategies, with settings behind colons: "+strings.Join(engines.Names(), ", ")+", or all")
	f.StringVarP(&output, "output", "o", "report.html", "file to write")
	return c
}

func (a *app) writeReport(ctx context.Context, o replayOptions, output string) error {
	sel, err := engines.ParseSelection(o.strategy)
	if err != nil {
		return usageError{err}
	}
	w, m, err := a.subject(o.path, o.machine, o.lift)
	if err != nil {
		return err
	}
	r, err := a.compare(ctx, o.path, w, m, sel, replay.Options{
		Level: replay.Phases, Ranks: []int{0}, Tiles: shownTiles, Stop: func() bool { return ctx.Err() != nil },
	})
	if err != nil {
		return err
	}
	if err := writeFile(output, func(w io.Writer) error { return html.Write(w, a.report(r)) }); err != nil {
		return err
	}
	a.note("wrote %s", output)
	return nil
}
