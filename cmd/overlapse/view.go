package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/assemble"
	"github.com/overlapse/overlapse/trace/format"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/tui"
)

// viewOptions are the flags of `overlapse view`.
type viewOptions struct {
	cli.Flags
	print  bool
	figure bool
	rank   int
	full   bool // the user chose a rank: record it without a limit
	width  int
	ascii  bool
	beside bool   // open with the captured step beside the replayed one
	at     string // address of a view
}

func (a *app) viewCommand() *cobra.Command {
	var o viewOptions
	c := &cobra.Command{
		Use:   "view PATH...",
		Short: "Browse timelines in the terminal",
		Long: `Opens a trace, or a folder written by replay -o, in a terminal browser. What replay
recommends is worked out meanwhile, and shown below the captured step when it is there;
the key : lists the other strategies. With --strategy the trace is replayed first under
these. Press ? for the keys.

If standard output is not a terminal, or with --print, the timeline is printed instead.`,
		Example: `  overlapse view samples/moe-ep4
  overlapse view samples/fsdp-step --strategy recommended
  overlapse view samples/moe-ep4 --strategy bulk,fused
  overlapse view samples/moe-down-fused-wg --figure11 --print`,
		Args: tracePaths,
		RunE: func(c *cobra.Command, args []string) error {
			o.Path, o.full = inputOf(&a.Reader, args), c.Flags().Changed("rank")
			at, err := layout.ParseAddress(o.at)
			if err != nil {
				return cli.Errorf("--at: %w (y shows the address of a view)", err)
			}
			if o.Strategy == "" && at.Strategy != "" {
				if err := c.Flags().Set("strategy", at.Strategy); err != nil {
					return err
				}
			}
			return a.view(c.Context(), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Strategy, "strategy", "", "also replay under these strategies and show them below the trace "+
		"(recommended: what replay recommends, beside the captured step); "+
		"for a folder written by replay -o: show only these")
	f.StringVar(&o.Machine, "machine", "", "machine to replay on, as for replay")
	f.BoolVar(&o.print, "print", false, "print the timeline instead of browsing it")
	f.BoolVar(&o.figure, "figure11", false, "one row per persistent workgroup, in clusters, as in Figure 11 of the SC'24 paper on fused operators")
	cli.IntFlag(f, &o.rank, "rank", 0, cli.Range[int]{Most: machine.MaxGPUs - 1}, "rank whose workgroups are recorded and --figure11 shows; given, all of them")
	cli.IntFlag(f, &o.width, "width", 0, cli.Range[int]{Most: maxColumns}, "columns to print; 0: those of the terminal, or 120")
	f.BoolVar(&o.ascii, "ascii", false, "draw with ASCII characters only")
	f.StringVar(&o.at, "at", "", "start at this view, as y shows it: show=fused&t=1.2ms-3ms&row=rank+0")
	return c
}

// maxColumns bounds the memory of a printed timeline.
const maxColumns = 1000

func (a *app) view(ctx context.Context, o viewOptions) error {
	ascii := o.ascii || a.Width > 0 && runtime.GOOS != "windows" && !cli.UTF8(os.Getenv)
	opts := tui.Options{ASCII: ascii, Suspend: cli.Suspend(), After: time.After, Strategy: o.Strategy}
	var err error
	if opts.At, err = layout.ParseAddress(o.at); err != nil {
		return err
	}
	if o.figure {
		opts.Figure = &layout.Figure{Rank: int32(o.rank)}
	}
	if o.print || a.Width == 0 {
		return a.printView(ctx, o, opts)
	}
	return a.browse(ctx, o, opts)
}

func (a *app) printView(ctx context.Context, o viewOptions, opts tui.Options) error {
	views, cannot, err := a.views(ctx, o, &opts)
	if err != nil {
		return err
	}
	defer cli.CollectOften()()
	con := *a.Console
	con.Width = cmp.Or(o.width, max(a.Width, 0), 120)
	for _, line := range []string{views[0].Run.Estimated, opts.Verdict} {
		if line != "" {
			con.Say(line)
		}
	}
	return cmp.Or(tui.Print(a.Out, views, con.Width, opts), cannot)
}

// views are the trace and its replays under the strategies, or the runs of a folder
// written by replay -o; opts gets the pairs of a replayed trace. cannot is an error if
// selected strategies cannot run.
func (a *app) views(ctx context.Context, o viewOptions, opts *tui.Options) (views []layout.View, cannot, err error) {
	path := o.timeline()
	if replayed := path != o.Path; replayed || o.Strategy == "" {
		run, err := a.Open(path, o.Machine)
		if err != nil {
			return nil, nil, err
		}
		if err := inJob(len(run.Ranks), o.rank); err != nil {
			return nil, nil, err
		}
		if views, err = viewsOf(assemble.Split(run), o); replayed {
			stated(filepath.Join(o.Path, "result.json"), views, opts)
		} else if opts.At == (layout.Address{}) && opts.Figure == nil && insideOnly(run) {
			opts.Figure = &layout.Figure{Rank: int32(o.rank)}
		}
		return views, nil, err
	}
	answer := o.Strategy == recommended
	if o.beside = o.beside || answer; answer {
		o.Strategy = "all"
	}
	sel, w, m, err := cli.Prepare(&a.Reader, o.Flags, engines.ParseSelection)
	if err != nil {
		return nil, nil, err
	}
	if answer {
		if sel, err = a.recommend(ctx, o, w, m, sel, opts); err != nil {
			return nil, nil, err
		}
	}
	if sel == nil { // nothing to show beside the captured step
		sel = []plan.Selection{engines.CapturedSelection()}
	} else {
		answer = false
	}
	if err := inJob(w.World, o.rank); err != nil {
		return nil, nil, err
	}
	record := recording(o.rank)
	if record.To, record.Stop = trace.Infinity, stopFunc(ctx); o.full {
		record.Most = 0
	}
	r, err := results.Of(ctx, a.Console, o.Path, w, m, sel, o.Scenario(), record, true, false)
	if err != nil {
		return nil, nil, err
	}
	if left, _, _ := strings.Cut(r.Coarse(), " (replay -o"); left != "" {
		a.Notef("%s (--rank 0 records all of rank 0)", left)
	}
	opts.Verdict = cmp.Or(opts.Verdict, r.Verdict.Headline())
	opts.Parts = r.Parts()
	starts := []trace.Time{results.MeasuredStart(w)}
	text, step := r.Step()
	if step > 0 {
		step = firstStep(plan.MeasuredSteps(w), starts[0], step)
	}
	opts.Times = []tui.Time{{Time: text, Step: step}}
	views = []layout.View{{Run: w.Run, Name: results.BasisOf(w.Run)}}
	for i, out := range r.Outcomes {
		if out.Result == nil {
			a.Notef("%s: %s", out.Strategy.Name, out.Why)
			continue
		}
		views = append(views, layout.View{Run: out.Result.Run, Name: r.RunName(i), Gaps: results.ReasonsOf(out.Result, 0, 0), CopyOf: results.CopiesOf(w)})
		time, start := timeOf(r, func(row *results.Row) bool { return row.At == i }), results.StartOf(w, out.Result.Run)
		if time.Step > 0 { // as drawn: the answer's time is relative to the captured one (rule L6)
			steps := plan.StepsOf(w, out.Result.Run)
			time.Step = firstStep(steps, start, steps.Time())
		}
		opts.Times = append(opts.Times, time)
		starts = append(starts, start)
	}
	if o.beside && !answer && len(views) == 2 {
		at := slices.IndexFunc(r.Outcomes, func(out engines.Outcome) bool { return out.Result != nil })
		changes, said := r.Changes(w.Run, at)
		opts.Verdict += "; in a step: " + said
		views, starts = append(views, layout.View{Run: changes, Name: "what changes"}), append(starts, starts[0])
		opts.Times = append(opts.Times, tui.Time{})
	}
	if answer {
		views, starts, opts.Times = views[:1], starts[:1], opts.Times[:1]
	}
	layout.Align(views, starts)
	if o.beside && opts.At == (layout.Address{}) { // the step of both, from its start
		start := starts[0] + views[0].Offset
		opts.Stats = true
		opts.At = layout.Address{Show: "all", Window: layout.Window{From: start, To: start + max(1, step)}}
	}
	return views, o.FailedError(r.Outcomes), nil
}

// firstStep is how long the first iteration is from a time on, until the next one begins, so that all of its kernels are in it; mean
// where iterations overlap or there is one.
func firstStep(s *plan.Steps, start, mean trace.Time) trace.Time {
	ran, overlap := s.Ran()
	if overlap || len(ran) < 2 {
		return mean
	}
	return max(ran[0].End, ran[1].Start) - start
}

// insideOnly reports whether all that a run has to show are persistent workgroups: no rank has more than one kernel.
func insideOnly(run *trace.Run) bool {
	kernels := map[int32]int{}
	for _, s := range run.Spans {
		if s.Kind.OnDevice() {
			if row := run.Lanes[s.Lane].Rank; kernels[row] > 0 {
				return false
			}
			kernels[run.Lanes[s.Lane].Rank]++
		}
	}
	return slices.ContainsFunc(run.Lanes, func(l trace.Lane) bool { return l.Kind == trace.Persistent })
}

// recommended is the --strategy of what replay recommends.
const recommended = "recommended"

// recommend replays under all strategies and their cheap settings, and returns those that are recommended;
// opts gets the answer, and all of them to choose from.
func (a *app) recommend(
	ctx context.Context, o viewOptions, w *workload.Workload, m machine.Machine, all []plan.Selection, opts *tui.Options,
) (sel []plan.Selection, err error) {
	like := replay.Options{Like: true, Stop: stopFunc(ctx)}
	r, err := results.Of(ctx, a.Console, o.Path, w, m, all, o.Scenario(), like, false, true)
	if err != nil {
		return nil, err
	}
	for _, v := range r.Verdict.Each() {
		i := slices.IndexFunc(r.Outcomes, func(out engines.Outcome) bool {
			return v.Kind == verdict.Winner && out.Strategy.Name == v.Strategy && maps.Equal(out.Values, v.Parameters)
		})
		if i >= 0 {
			sel = append(sel, r.Outcomes[i].Selection)
		}
	}
	for i := range r.Outcomes {
		choice := timeOf(r, func(row *results.Row) bool { return row.At == i })
		if choice.Name, choice.Strategy = r.RunName(i), strings.ReplaceAll(r.Outcomes[i].Selection.String(), " ", ":"); choice.Time != "" {
			opts.Choices = append(opts.Choices, choice)
		}
	}
	slices.SortStableFunc(opts.Choices, func(a, b tui.Time) int { return cmp.Compare(a.Step, b.Step) })
	opts.Verdict = r.Verdict.Headline()
	return sel, nil
}

// stated takes the verdict and the time of every run from the result beside a timeline; of one
// that cannot be read nothing.
func stated(file string, views []layout.View, opts *tui.Options) {
	result, err := results.Read(file)
	if err != nil {
		return
	}
	opts.Verdict = result.Verdict.Headline()
	if len(views) == 1 && len(result.Rows) == 1 { // the file does not name a run that is alone
		views[0].Name = result.Rows[0].Name()
	}
	for _, v := range views {
		time := timeOf(result, func(row *results.Row) bool { return row.Name() == cmp.Or(v.Name, v.Run.Name) })
		time.Step = 0 // of the drawing it is not known: the answer's time is relative to the captured one (rule L6)
		opts.Times = append(opts.Times, time)
	}
}

// timeOf is the time of rows that apply, one of each phase, and its change against the captured schedule.
func timeOf(r *results.Replayed, of func(*results.Row) bool) (t tui.Time) {
	var times, changes []string
	for i := range r.Rows {
		row := &r.Rows[i]
		if !row.Applies || !of(row) {
			continue
		}
		if row.Phase == "" {
			t.Step = trace.Time(row.Time)
		}
		times = append(times, strings.TrimSpace(row.Phase+" "+trace.Micros(trace.Time(row.Time))))
		changes = append(changes, strings.TrimSpace(row.Phase+" "+trace.Percent(row.Change)))
	}
	t.Time, t.Change = strings.Join(times, ", "), strings.Join(changes, ", ")
	return t
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
		return nil, cli.Unknown(fmt.Sprintf("%s: no strategy %q (available: %s)", o.Path, o.Strategy, strings.Join(names, ", ")), o.Strategy, names)
	}
	return views, nil
}

// timeline is the file to show of a folder written by replay -o, else the path itself.
func (o *viewOptions) timeline() string {
	if result := filepath.Join(o.Path, "timeline.json.gz"); cli.IsFile(result) {
		return result
	}
	return o.Path
}

// mostReplayed is the size of a trace, in spans, up to which it is replayed without being asked: some ten seconds.
const mostReplayed = 1 << 20

// browse shows in the browser how far reading is, then the runs. Notes are printed when the
// browser has given the terminal back.
func (a *app) browse(ctx context.Context, o viewOptions, opts tui.Options) error {
	var notes bytes.Buffer
	behind := &app{Reader: a.Reader}
	behind.Console = &cli.Console{In: a.In, Out: a.Out, Err: &notes, Quiet: a.Quiet}
	behind.Read, behind.Kept = new(format.Progress), map[string]*trace.Run{} // the replay behind the browser reads nothing again
	then := "laying out"
	if o.Strategy != "" {
		then = "replaying under " + cli.Shorten(o.Strategy, 30)
	}
	begun := time.Now()
	var cannot error
	loaded := make(chan struct{})
	tick := time.NewTicker(cli.Patience / 2)
	defer tick.Stop()
	load := func(opts *tui.Options) (views []layout.View, err error) {
		defer close(loaded)
		if views, cannot, err = behind.views(ctx, o, opts); err == nil {
			defer cli.CollectOften()()
			opts.First = layout.New(views[:1])
			alone := o.Strategy == "" && o.timeline() == o.Path && opts.Figure == nil
			if alone && len(views) == 1 && len(views[0].Run.Spans) <= mostReplayed {
				opts.Then, opts.Verdict = recommended, "working out what to change; keys work meanwhile"
			}
		}
		return views, err
	}
	var one sync.Mutex // of what reads and replays
	again := func(opts *tui.Options, strategy string) (views []layout.View, err error) {
		one.Lock()
		defer one.Unlock()
		o := o
		o.Strategy, o.beside, opts.Strategy, opts.At = strategy, true, strategy, layout.Address{}
		views, _, err = behind.views(ctx, o, opts)
		return views, err
	}
	status := func() string {
		return fmt.Sprintf("%s: %.1f s", cli.ReadingLine(behind.Read, then), time.Since(begun).Seconds())
	}
	quit, stop := signal.NotifyContext(ctx, syscall.SIGQUIT) // else the terminal is not restored
	defer stop()
	err := tui.Run(quit, opts, tui.Loader{Load: load, Replay: again, Status: status, Ticks: tick.C})
	select {
	case <-loaded:
		if one.TryLock() { // else it still replays and writes notes
			fmt.Fprint(a.Err, notes.String())
		}
		return cmp.Or(err, ctx.Err(), context.Cause(quit), cannot)
	default: // left before
		return cmp.Or(err, ctx.Err(), context.Cause(quit))
	}
}
