package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/overlapse/overlapse/cmd/overlapse/console"
	"github.com/overlapse/overlapse/cmd/overlapse/inputs"
	"github.com/overlapse/overlapse/cmd/overlapse/results"
	"github.com/overlapse/overlapse/cmd/overlapse/usage"
	"github.com/overlapse/overlapse/cmd/overlapse/viewcache"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/plain"
	"github.com/overlapse/overlapse/viz/tui"
)

// viewOptions are the flags of `overlapse view`.
type viewOptions struct {
	inputs.Flags
	print  bool
	figure bool
	rank   int
	width  int
	ascii  bool

	noCache bool
	at      string // address of a view
}

func (a *app) viewCommand() *cobra.Command {
	var o viewOptions
	c := &cobra.Command{
		Use:   "view PATH...",
		Short: "Browse timelines in the terminal",
		Long: `Opens a trace, or a folder written by replay -o, in a terminal browser. With
--strategy the trace is replayed first and the strategies are shown below it on the
same time axis. Press ? for the keys.

Runs of 100000 spans and more are kept in the user's cache folder, by the content of the
input, the machine and the settings, so that the next start takes a fraction of a second.

If standard output is not a terminal, or with --print, the timeline is printed instead.`,
		Example: `  overlapse view samples/moe-ep4
  overlapse view samples/moe-ep4 --strategy bulk,fused
  overlapse view samples/moe-down-fused-wg --figure11 --print`,
		Args: tracePaths,
		RunE: func(c *cobra.Command, args []string) error {
			o.Path = a.Input(args)
			at, err := layout.ParseAddress(o.at)
			if err != nil {
				return usage.Errorf("--at: %w (y shows the address of a view)", err)
			}
			if o.Strategy == "" && at.Strategy != "" {
				if err := c.Flags().Set("strategy", at.Strategy); err != nil {
					return err
				}
			}
			return a.view(c.Context(), o, a.cacheOf(&o, c.Flags()))
		},
	}
	f := c.Flags()
	f.StringVar(&o.Strategy, "strategy", "", "also replay under these strategies and show them below the trace; for a folder written by replay -o: show only these")
	f.StringVar(&o.Machine, "machine", "", "machine to replay on, as for replay")
	f.BoolVar(&o.print, "print", false, "print the timeline instead of browsing it")
	f.BoolVar(&o.figure, "figure11", false, "one row per persistent workgroup, in clusters, as in Figure 11 of the SC'24 paper on fused operators")
	usage.IntFlag(f, &o.rank, "rank", 0, usage.Range[int]{Most: machine.MaxGPUs - 1}, "rank whose workgroups --figure11 shows")
	usage.IntFlag(f, &o.width, "width", 0, usage.Range[int]{Most: maxColumns}, "columns to print; 0: those of the terminal, or 120")
	f.BoolVar(&o.ascii, "ascii", false, "draw with ASCII characters only")
	f.StringVar(&o.at, "at", "", "start at this view, as y shows it: show=fused&t=1.2ms-3ms&row=rank+0")
	f.BoolVar(&o.noCache, "no-cache", false, "read and replay anew, and keep nothing for the next start")
	return c
}

// maxColumns bounds the memory of a printed timeline.
const maxColumns = 1000

// cacheOf is where the view of these flags is kept.
func (a *app) cacheOf(o *viewOptions, flags *pflag.FlagSet) viewcache.Cache {
	if o.noCache {
		return viewcache.Cache{}
	}
	return viewcache.Find(&a.Reader, &a.files, o.Path, flags)
}

func (a *app) view(ctx context.Context, o viewOptions, cache viewcache.Cache) error {
	_, _, utf8 := console.Locale(os.Getenv)
	ascii := o.ascii || a.Width > 0 && runtime.GOOS != "windows" && !utf8
	opts := tui.Options{ASCII: ascii, Suspend: console.Suspend(), Strategy: o.Strategy}
	var err error
	if opts.At, err = layout.ParseAddress(o.at); err != nil {
		return err
	}
	if o.figure {
		opts.Figure = &layout.Figure{Rank: int32(o.rank)}
	}
	if o.print || a.Width == 0 {
		return a.printView(ctx, o, opts, cache)
	}
	return a.browse(ctx, o, opts, cache)
}

// viewed is what view shows, from the cache or read and laid out. cannot is an error if
// selected strategies cannot run; wait waits until the cache is written.
func (a *app) viewed(ctx context.Context, o viewOptions, opts *tui.Options, cache viewcache.Cache) (v *viewcache.Viewed, wait func(), cannot, err error) {
	wait = func() {}
	if v = cache.Load(); v == nil {
		if v, cannot, err = a.views(ctx, o); err != nil {
			return nil, wait, nil, err
		}
		defer inputs.CollectOften()()
		v.First = layout.New(v.Views[:1])
		if cannot == nil {
			wait = cache.Save(ctx, v)
		}
	}
	for _, note := range v.Notes {
		a.Notef("%s", note)
	}
	opts.Parts, opts.First = v.Parts, v.First
	return v, wait, cannot, nil
}

func (a *app) printView(ctx context.Context, o viewOptions, opts tui.Options, cache viewcache.Cache) error {
	v, wait, cannot, err := a.viewed(ctx, o, &opts, cache)
	if err != nil {
		return err
	}
	defer wait()
	if basis := v.Views[0].Run.Estimated; basis != "" {
		fmt.Fprintln(a.Out, plain.Line(basis))
	}
	return cmp.Or(tui.Print(a.Out, v.Views, cmp.Or(o.width, max(a.Width, 0), 120), opts), cannot)
}

// views are the trace and its replays under the strategies, or the runs of a folder
// written by replay -o, and the pairs of a replayed trace; cannot is an error if selected
// strategies cannot run.
func (a *app) views(ctx context.Context, o viewOptions) (v *viewcache.Viewed, cannot, err error) {
	path := o.timeline()
	if replayed := path != o.Path; replayed || o.Strategy == "" {
		run, err := a.Open(path, o.Machine)
		if err != nil {
			return nil, nil, err
		}
		if err := inJob(len(run.Ranks), o.rank); err != nil {
			return nil, nil, err
		}
		views, err := viewsOf(trace.Split(run), o)
		return &viewcache.Viewed{Views: views}, nil, err
	}
	sel, w, m, err := inputs.Prepare(&a.Reader, o.Flags, engines.ParseSelection)
	if err != nil {
		return nil, nil, err
	}
	if err := inJob(w.World, o.rank); err != nil {
		return nil, nil, err
	}
	r, err := results.Of(ctx, a.Console, o.Path, w, m, sel, o.Scenario(), replay.Options{
		Level: replay.Phases, Ranks: []int{o.rank}, Tiles: results.ShownTiles, To: trace.Infinity, Stop: inputs.StopFunc(ctx),
	})
	if err != nil {
		return nil, nil, err
	}
	v = &viewcache.Viewed{Views: []layout.View{{Run: w.Run, Name: results.BasisOf(w.Run)}}, Parts: r.Parts()}
	starts := []trace.Time{results.MeasuredStart(w)}
	for _, out := range r.Outcomes {
		if out.Result == nil {
			v.Notes = append(v.Notes, fmt.Sprintf("%s: %s", out.Strategy.Name, out.Why))
			continue
		}
		v.Views = append(v.Views, layout.View{Run: out.Result.Run, Name: r.Named(out.Result.Run.Name), Gaps: results.Gaps(out.Result)})
		starts = append(starts, results.StartOf(w, out.Result.Run))
	}
	layout.Align(v.Views, starts)
	return v, o.FailedError(r.Outcomes), nil
}

// viewsOf are the runs of the selected strategies, or all.
func viewsOf(runs []*trace.Run, o viewOptions) ([]layout.View, error) {
	selected := strings.Split(o.Strategy, ",")
	var views []layout.View
	var names []string
	for _, r := range runs {
		name, _, _ := strings.Cut(r.Name, " ")
		names = append(names, r.Name)
		if o.Strategy == "" || slices.Contains(selected, name) || slices.Contains(selected, r.Name) {
			views = append(views, layout.View{Run: r})
		}
	}
	if len(views) == 0 {
		return nil, usage.Unknown(fmt.Sprintf("%s: no strategy %q (available: %s)", o.Path, o.Strategy, strings.Join(names, ", ")), o.Strategy, names)
	}
	return views, nil
}

// timeline is the file to show of a folder written by replay -o, else the path itself.
func (o *viewOptions) timeline() string {
	if result := filepath.Join(o.Path, "timeline.json.gz"); inputs.IsFile(result) {
		return result
	}
	return o.Path
}
