package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/input"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/html"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/tui"
)

// svgDrawing is the picture of `export --to svg`: the timeline of a rank or of all, or a
// kernel or pair under every strategy.
func (a *app) svgDrawing(ctx context.Context, o exportOptions) (func(io.Writer) error, error) {
	var from, to trace.Time
	if o.window != "" {
		var ok bool
		if from, to, ok = timeRange(o.window); !ok {
			return nil, cli.Errorf("--window %q: give a time range such as 1.2ms-3ms", o.window)
		}
	}
	var opts tui.Options
	shown := viewOptions{Flags: input.Flags{Path: o.path, Machine: o.machine, Strategy: o.strategy}, rank: max(0, o.rank), full: o.rank >= 0 || o.kernel != ""}
	views, cannot, err := a.views(ctx, shown, &opts)
	if err = cmp.Or(err, cannot); err != nil {
		return nil, err
	}
	rep := html.Report{}
	for _, v := range views { // which start at 0 less their offsets
		rep.Runs = append(rep.Runs, html.Named{Name: cmp.Or(v.Name, v.Run.Name), Run: v.Run, Gaps: v.Gaps, Start: -v.Offset})
	}
	p := html.Picture{Title: "overlapse: " + o.path, From: from, To: to, Width: float64(o.width), Path: o.critical, Rank: int32(o.rank), Kernel: o.kernel}
	if o.kernel != "" {
		p.Rank = max(0, p.Rank)
		if rep.Parts, err = o.part(views, opts.Parts); err != nil {
			return nil, fmt.Errorf("%s: %w", o.path, err)
		}
		if len(rep.Parts) > 0 {
			p.Kernel = rep.Parts[0].Name
		}
		p.Title += ", " + p.Kernel
	}
	d, err := rep.Draw(p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.path, err)
	}
	return func(w io.Writer) error {
		_, err := d.WriteTo(w)
		return err
	}, nil
}

// part is the part of the step that the picture shows; none in a trace without operations.
func (o *exportOptions) part(views []layout.View, parts []layout.Part) ([]layout.Part, error) {
	if parts == nil {
		parts = layout.PartsOf(views, int32(max(0, o.rank)))
	}
	if len(parts) == 0 {
		return nil, nil
	}
	var names []string
	for _, p := range parts {
		if strings.Contains(p.Name, o.kernel) {
			return []layout.Part{p}, nil
		}
		names = append(names, p.Name)
	}
	return nil, cli.Unknown(fmt.Sprintf("--kernel %q: there are %s", o.kernel, strings.Join(names, "; ")), o.kernel, names)
}
