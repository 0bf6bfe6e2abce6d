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

	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/plain"
	"github.com/overlapse/overlapse/viz/tui"
)

// viewOptions are the flags of `overlapse view`.
type viewOptions struct {
	replayFlags
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
			o.path = a.input(args)
			at, err := layout.ParseAddress(o.at)
			if err != nil {
				return usageError{fmt.Errorf("--at: %w (y shows the address of a view)", err)}
			}
			if o.strategy == "" && at.Strategy != "" {
				if err := c.Flags().Set("strategy", at.Strategy); err != nil {
					return err
				}
			}
			return a.view(c.Context(), o, a.newViewCache(&o, c.Flags()))
		},
	}
	f := c.Flags()
	f.StringVar(&o.strategy, "strategy", "", "also replay under these strategies and show them below the trace; for a folder written by replay -o: show only these")
	f.StringVar(&o.machine, "machine", "", "machine to replay on, as for replay")
	f.BoolVar(&o.print, "print", false, "print the timeline instead of browsing it")
	f.BoolVar(&o.figure, "figure11", false, "one row per persistent workgroup, in clusters, as in Figure 11 of the SC'24 paper on fused operators")
	f.IntVar(&o.rank, "rank", 0, "rank whose workgroups --figure11 shows")
	f.IntVar(&o.width, "width", 0, "columns to print; 0: those of the terminal, or 120")
	f.BoolVar(&o.ascii, "ascii", false, "draw with ASCII characters only")
	f.StringVar(&o.at, "at", "", "start at this view, as y shows it: show=fused&t=1.2ms-3ms&row=rank+0")
	f.BoolVar(&o.noCache, "no-cache", false, "read and replay anew, and keep nothing for the next start")
	return c
}

func (a *app) view(ctx context.Context, o viewOptions, cache viewCache) error {
	ascii := o.ascii || a.width > 0 && runtime.GOOS != "windows" && !utf8Locale(os.Getenv)
	opts := tui.Options{ASCII: ascii, Suspend: suspend(), Strategy: o.strategy}
	var err error
	if opts.At, err = layout.ParseAddress(o.at); err != nil {
		return err
	}
	if o.figure {
		opts.Figure = &layout.Figure{Rank: int32(o.rank)}
	}
	if o.print || a.width == 0 {
		return a.printView(ctx, o, opts, cache)
	}
	return a.browse(ctx, o, opts, cache)
}

// viewed is what view shows, from the cache or read and laid out. cannot is an error if
// selected strategies cannot run; wait waits until the cache is written.
func (a *app) viewed(ctx context.Context, o viewOptions, opts *tui.Options, cache viewCache) (v *viewed, wait func(), cannot, err error) {
	wait = func() {}
	if v = cache.load(); v == nil {
		if v, cannot, err = a.views(ctx, o); err != nil {
			return nil, wait, nil, err
		}
		defer collectOften()()
		v.First = layout.New(v.Views[:1])
		if cannot == nil {
			wait = cache.save(ctx, v)
		}
	}
	for _, note := range v.Notes {
		a.notef("%s", note)
	}
	opts.Parts, opts.First = v.Parts, v.First
	return v, wait, cannot, nil
}

func (a *app) printView(ctx context.Context, o viewOptions, opts tui.Options, cache viewCache) error {
	v, wait, cannot, err := a.viewed(ctx, o, &opts, cache)
	if err != nil {
		return err
	}
	defer wait()
	if basis := v.Views[0].Run.Estimated; basis != "" {
		fmt.Fprintln(a.out, plain.Line(basis))
	}
	return cmp.Or(tui.Print(a.out, v.Views, cmp.Or(o.width, max(a.width, 0), 120), opts), cannot)
}

// views are the trace and its replays under the strategies, or the runs of a folder
// written by replay -o, and the pairs of a replayed trace; cannot is an error if selected
// strategies cannot run.
func (a *app) views(ctx context.Context, o viewOptions) (v *viewed, cannot, err error) {
	path := o.timeline()
	if replayed := path != o.path; replayed || o.strategy == "" {
		run, err := a.open(path, o.machine)
		if err != nil {
			return nil, nil, err
		}
		views, err := viewsOf(trace.Split(run), o)
		return &viewed{Views: views}, nil, err
	}
	sel, w, m, err := prepare(a, o.replayFlags, engines.ParseSelection)
	if err != nil {
		return nil, nil, err
	}
	r, err := a.compare(ctx, o.path, w, m, sel, o.scenario(), replay.Options{
		Level: replay.Phases, Ranks: []int{o.rank}, Tiles: shownTiles, To: trace.Infinity, Stop: stopFunc(ctx),
	})
	if err != nil {
		return nil, nil, err
	}
	v = &viewed{Views: []layout.View{{Run: w.Run, Name: basisOf(w.Run)}}, Parts: r.parts()}
	starts := []trace.Time{measuredStart(w)}
	for _, out := range r.outcomes {
		if out.Result == nil {
			v.Notes = append(v.Notes, fmt.Sprintf("%s: %s", out.Strategy.Name, out.Why))
			continue
		}
		v.Views = append(v.Views, layout.View{Run: out.Result.Run, Name: r.named(out.Result.Run.Name), Gaps: gaps(out.Result)})
		starts = append(starts, startOf(w, out.Result.Run))
	}
	layout.Align(v.Views, starts)
	return v, o.failedError(r.outcomes), nil
}

// startOf is when the last rank of a simulated run starts its first iteration, or its
// first operation: before that, the others wait for it.
func startOf(w *workload.Workload, run *trace.Run) trace.Time {
	first := newFirsts(w)
	for _, s := range run.Spans {
		if op := plan.OriginOf(run, s); op >= 0 {
			first.add(op, s.Start)
		}
	}
	return first.last()
}

// measuredStart is startOf the captured run.
func measuredStart(w *workload.Workload) trace.Time {
	first := newFirsts(w)
	for i := range w.Ops {
		first.add(w.Ops[i].ID, w.Ops[i].Start)
	}
	return first.last()
}

// firsts is the first start of the first iteration by rank.
type firsts struct {
	workload *workload.Workload
	of       []int32 // by op: its iteration
	starts   []trace.Time
}

func newFirsts(w *workload.Workload) *firsts {
	of, n := workload.IterationsOf(w)
	if n == 0 {
		of = make([]int32, len(w.Ops)) // all in one
	}
	return &firsts{w, of, slices.Repeat([]trace.Time{trace.Infinity}, w.World)}
}

func (f *firsts) add(op int32, start trace.Time) {
	if f.of[op] == 0 {
		at := &f.starts[f.workload.Ops[op].Rank]
		*at = min(*at, start)
	}
}

func (f *firsts) last() trace.Time {
	var last trace.Time
	for _, start := range f.starts {
		if start != trace.Infinity {
			last = max(last, start)
		}
	}
	return last
}

// aligned are the runs with their first iterations at the same time, and what their times
// were shifted by.
func aligned(w *workload.Workload, runs []*trace.Run) (shifted []*trace.Run, shifts []trace.Time) {
	views, starts := make([]layout.View, len(runs)), make([]trace.Time, len(runs))
	for i, run := range runs {
		views[i], starts[i] = layout.View{Run: run}, startOf(w, run)
	}
	layout.Align(views, starts)
	for _, v := range views {
		run := *v.Run
		run.Spans, run.End = slices.Clone(run.Spans), run.End+v.Offset
		for k := range run.Spans {
			run.Spans[k].Start += v.Offset
			run.Spans[k].End += v.Offset
		}
		shifted, shifts = append(shifted, &run), append(shifts, v.Offset)
	}
	return shifted, shifts
}

// viewsOf are the runs of the selected strategies, or all.
func viewsOf(runs []*trace.Run, o viewOptions) ([]layout.View, error) {
	selected := strings.Split(o.strategy, ",")
	var views []layout.View
	var names []string
	for _, r := range runs {
		name, _, _ := strings.Cut(r.Name, " ")
		names = append(names, r.Name)
		if o.strategy == "" || slices.Contains(selected, name) || slices.Contains(selected, r.Name) {
			views = append(views, layout.View{Run: r})
		}
	}
	if len(views) == 0 {
		return nil, usageError{&unknownError{fmt.Sprintf("%s: no strategy %q (available: %s)", o.path, o.strategy, strings.Join(names, ", ")), o.strategy, names}}
	}
	return views, nil
}

// gaps are the idle intervals of streams for the views.
func gaps(r *replay.Result) []layout.Gap {
	var list []layout.Gap
	for _, i := range r.Idle {
		list = append(list, layout.Gap{Rank: int32(i.Rank), Queue: i.Queue, From: i.Start, To: i.End, Cause: i.Cause.String(), Note: i.Note})
	}
	return list
}

// timeline is the file to show of a folder written by replay -o, else the path itself.
func (o *viewOptions) timeline() string {
	if result := filepath.Join(o.path, "timeline.json.gz"); isFile(result) {
		return result
	}
	return o.path
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
