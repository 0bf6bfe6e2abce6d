package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/inputs"
	"github.com/overlapse/overlapse/cmd/overlapse/usage"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/svg"
	"github.com/overlapse/overlapse/viz/tui"
)

// svgDrawing is the picture of `export --to svg`: the timeline of a rank or of all, or a
// kernel or pair under every strategy.
func (a *app) svgDrawing(ctx context.Context, o exportOptions) (func(io.Writer) error, error) {
	var from, to trace.Time
	if o.window != "" {
		var ok bool
		if from, to, ok = timeRange(o.window); !ok {
			return nil, usage.Errorf("--window %q: give a time range such as 1.2ms-3ms", o.window)
		}
	}
	var opts tui.Options
	shown := viewOptions{Flags: inputs.Flags{Path: o.path, Machine: o.machine, Strategy: o.strategy}, rank: max(0, o.rank), full: o.rank >= 0 || o.kernel != ""}
	views, cannot, err := a.views(ctx, shown, &opts)
	if err = cmp.Or(err, cannot); err != nil {
		return nil, err
	}
	t, err := o.timeline(views, opts.Parts)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.path, err)
	}
	title := "overlapse: " + o.path
	if t.Title != "" {
		title += ", " + t.Title
	}
	return func(w io.Writer) error {
		_, err := svg.Timeline(t, svg.Options{Title: title, From: from, To: to, Width: float64(o.width), Path: o.critical, Show: func(row int) bool {
			rank := t.Rows[row].Rank
			return o.rank < 0 || rank == trace.None || int(rank) == o.rank
		}}).WriteTo(w)
		return err
	}, nil
}

// timeline is what the picture shows.
func (o *exportOptions) timeline(views []layout.View, parts []layout.Part) (*layout.Timeline, error) {
	rank := int32(max(0, o.rank))
	if o.kernel == "" {
		return layout.New(views), nil
	}
	if parts == nil {
		parts = layout.PartsOf(views, rank)
	}
	if len(parts) == 0 { // a trace
		return layout.Figure11(views[0], layout.Figure{Rank: rank, Kernel: o.kernel})
	}
	var names []string
	for _, p := range parts {
		if strings.Contains(p.Name, o.kernel) {
			return layout.Compared(views, rank, p, 0)
		}
		names = append(names, p.Name)
	}
	return nil, usage.Unknown(fmt.Sprintf("--kernel %q: there are %s", o.kernel, strings.Join(names, "; ")), o.kernel, names)
}
