package main

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/chrome"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/lex"
)

// exported is the run to write: the trace or one strategy of it; and the operators behind a simulated run, where they are known.
func (a *app) exported(ctx context.Context, o exportOptions) (*trace.Run, *chrome.Operators, error) {
	if o.strategy == "" {
		run, err := a.One(o.path, o.machine)
		return run, nil, err
	}
	flags := cli.Flags{Path: o.path, Machine: o.machine, Strategy: o.strategy}
	sel, w, m, err := cli.Prepare(&a.Reader, flags, engines.ParseSelection)
	if err == nil && len(sel) != 1 {
		err = cli.Errorf("--strategy %q: give one strategy to write, not %d", o.strategy, len(sel))
	}
	if err != nil {
		return nil, nil, err
	}
	opts := replay.Options{To: trace.Infinity, Stop: stopFunc(ctx)}
	if o.to != "kineto" { // with what kernels send from inside, of which PyTorch's profiler has no rows
		opts.Level, opts.Ranks = replay.Workgroups, []int{}
	}
	out, err := engines.Run(w, m, sel[0], flags.Scenario(), opts)
	if err == nil && out.Result == nil {
		err = cli.Exit(cli.Failed, "%s: %s", out.Strategy.Name, out.Why)
	}
	if err != nil {
		return nil, nil, results.Stopped(ctx, err)
	}
	return out.Result.Run, &chrome.Operators{Run: w.Run, SpanOf: func(s trace.Span) trace.SpanID {
		if id := w.Origin(plan.OriginOf(out.Result.Run, s)); id >= 0 {
			return w.Ops[id].Span
		}
		return trace.None
	}}, nil
}

// exportKineto writes a folder with a file a rank.
func (a *app) exportKineto(ctx context.Context, o exportOptions) error {
	if o.output == "" {
		return cli.Errorf("--to kineto writes a file for each rank: give -o FOLDER")
	}
	if o.isolated {
		return a.exportIsolated(ctx, o)
	}
	run, operators, err := a.exported(ctx, o)
	if err != nil {
		return err
	}
	var names []string
	for i := range run.Ranks {
		names = append(names, fmt.Sprintf("rank%d.json.gz", max(i, run.RankID(int32(i)))))
	}
	if err := a.writeProfiles(o.output, names, func(w io.Writer, i int) error {
		z := gzip.NewWriter(w)
		return cmp.Or(chrome.WriteRank(guard.JSON(z), run, int32(i), operators), z.Close())
	}); err != nil {
		return err
	}
	a.Notef("wrote a file for each of %s into %s", cli.Counted(len(run.Ranks), "rank"), o.output)
	return nil
}

// writeProfiles writes the files of ranks into a folder, all of them or none. A folder that is there must have been written so.
func (a *app) writeProfiles(dir string, names []string, write func(w io.Writer, i int) error) error {
	own := func(name string) bool { return slices.Contains(names, name) }
	if err := cli.Replaceable(dir, names[0], own); err != nil {
		return err
	}
	return a.files.Folder(dir, names, write)
}

// A kernelKey finds a kernel of a workload in the file of its rank.
type kernelKey struct {
	name        string
	correlation int64
	dur         trace.Time
}

// isolated are the sums of a profile's kernels, before and after.
type isolated struct {
	kernels, changed int
	steps            []*plan.Steps // of all iterations, or of each phase
	sums             []aloneSums   // of these
}

// aloneSums are times of kernels as captured and alone.
type aloneSums struct {
	compute, computeAlone    trace.Time
	transfer, transfersAlone trace.Time
}

// exportIsolated copies the profile of every rank with the durations that kernels take alone,
// and prints the settings of inductor's overlap scheduling that the prediction favours.
func (a *app) exportIsolated(ctx context.Context, o exportOptions) error {
	flags := cli.Flags{Path: o.path, Machine: o.machine, Strategy: "captured,bulk,multistream"}
	sel, w, m, err := cli.Prepare(&a.Reader, flags, engines.ParseSelection)
	if err != nil {
		return err
	}
	r, err := results.Of(ctx, a.Console, o.path, w, m, sel, flags.Scenario(), replay.Options{Stop: stopFunc(ctx)}, false, false)
	if err != nil {
		return err
	}
	if why := r.Isolation.Why; why != "" {
		return fmt.Errorf("%s: durations alone are not known: %s", o.path, why)
	}
	var from, names []string
	for i := range w.Run.Ranks {
		source := w.Run.Ranks[i].Source
		if !cli.IsFile(source) {
			return fmt.Errorf("%s: is no file that can be copied (give the profiles themselves, not an archive or standard input)",
				cmp.Or(source, o.path))
		}
		name := strings.TrimSuffix(filepath.Base(source), ".gz")
		if slices.Contains(names, name) {
			return fmt.Errorf("%s: two ranks would be written as %s (rename the files)", source, filepath.Join(o.output, name))
		}
		from, names = append(from, source), append(names, name)
	}
	sums := isolated{steps: plan.MeasuredSteps(w).Each()}
	sums.sums = make([]aloneSums, len(sums.steps))
	if err := a.writeProfiles(o.output, names, func(out io.Writer, i int) error {
		return a.isolate(guard.JSON(out), w, int32(i), from[i], &sums)
	}); err != nil {
		return err
	}
	a.printIsolated(r, sums, filepath.Join(o.output, names[0]))
	return nil
}

const byteOrderMark = "\ufeff"

// isolate copies the profile of a rank, with the durations that its kernels take alone.
func (a *app) isolate(out io.Writer, w *workload.Workload, row int32, source string, sums *isolated) error {
	alone := map[kernelKey][]trace.Time{} // in the order of their starts
	for i := range w.Ops {
		op := &w.Ops[i]
		k := w.Run.Kernel(w.Run.Spans[op.Span])
		if w.Rows[op.Rank] != row || w.Copies[op.Rank] || k == nil {
			continue
		}
		key := kernelKey{op.Name, k.Correlation, op.Dur()}
		var of aloneSums // of no phase: kernels between the steps
		sum := &of
		for i, steps := range sums.steps {
			if steps.Has(int(op.Step)) {
				sum = &sums.sums[i]
			}
		}
		took := op.DurAlone()
		if op.Collective >= 0 && !w.Collectives[op.Collective].Earlier {
			took = min(op.Dur(), w.Collectives[op.Collective].TransferAlone())
			sum.transfer, sum.transfersAlone = sum.transfer+op.Dur(), sum.transfersAlone+took
		} else {
			sum.compute, sum.computeAlone = sum.compute+op.Dur(), sum.computeAlone+took
		}
		alone[key] = append(alone[key], took)
	}
	var kernels []chrome.Timing
	err := a.Reading().Inflated(source, func(in io.Reader) error {
		_, err := chrome.Read(in, chrome.Options{
			File: source, Limit: a.Reading().Limit,
			Kernel: func(t chrome.Timing) { kernels = append(kernels, t) },
		})
		return err
	})
	if err != nil {
		return err
	}
	if len(kernels) == 0 {
		return fmt.Errorf("has no kernel with a duration (--isolated copies what PyTorch's profiler wrote: export_chrome_trace)")
	}
	slices.SortStableFunc(kernels, func(x, y chrome.Timing) int { return cmp.Compare(x.Start, y.Start) })
	edits := kernels[:0]
	for _, t := range kernels {
		key := kernelKey{t.Name, t.Correlation, t.Dur}
		sums.kernels++
		if list := alone[key]; len(list) > 0 {
			alone[key] = list[1:]
			if list[0] != t.Dur {
				t.Dur = list[0]
				edits = append(edits, t)
			}
		}
	}
	sums.changed += len(edits)
	slices.SortFunc(edits, func(x, y chrome.Timing) int { return cmp.Compare(x.At, y.At) })
	return a.Reading().Inflated(source, func(r io.Reader) error {
		in, at := bufio.NewReader(r), int64(0)
		if head, _ := in.Peek(len(byteOrderMark)); string(head) == byteOrderMark { // guard.JSON would escape it outside a string
			n, err := in.Discard(len(head))
			if err != nil {
				return err
			}
			at = int64(n)
		}
		for _, t := range edits {
			if _, err := io.CopyN(out, in, t.At-at); err != nil {
				return err
			}
			if _, err := out.Write(lex.AppendMicros(nil, t.Dur)); err != nil {
				return err
			}
			if _, err := io.CopyN(io.Discard, in, int64(t.Len)); err != nil {
				return err
			}
			at = t.At + int64(t.Len)
		}
		_, err := io.Copy(out, in)
		return err
	})
}

// printIsolated says what is in the profiles, and how inductor reads one.
func (a *app) printIsolated(r *results.Replayed, s isolated, profile string) {
	change := func(before, after trace.Time) string {
		return trace.Percent(float64(after)/float64(max(1, before)) - 1)
	}
	var sums []string
	for i, sum := range s.sums {
		of := ""
		if phase := s.steps[i].Phase(); phase.Steps > 0 {
			of = phase.Phase + " steps: "
		}
		compute, transfer := change(sum.compute, sum.computeAlone), change(sum.transfer, sum.transfersAlone)
		sums = append(sums, fmt.Sprintf("%sin sum computation %s, collectives %s", of, compute, transfer))
	}
	a.Labelled("wrote", fmt.Sprintf("the profile of %s into %s: %d of %d kernels have another duration; %s",
		cli.Counted(r.Captured, "rank"), filepath.Dir(profile), s.changed, s.kernels, strings.Join(sums, "; ")))
	if r.Captured < r.Ranks {
		a.Labelled("note", fmt.Sprintf("waits for the %d ranks that were not captured stay in the durations of collectives that are the shortest of their size", r.Ranks-r.Captured))
	}
	overlaps, why := overlapPays(r)
	iso := r.Isolation
	path, err := filepath.Abs(profile)
	if err != nil {
		path = profile
	}
	a.Labelled("settings", "of torch.compile's overlap scheduling, before the first compilation; every rank reads the same file, or schedules differ and the job hangs:")
	fmt.Fprintf(a.Out, `    import torch._inductor.config
    overlap = torch._inductor.config.aten_distributed_optimizations
    overlap.enable_overlap_scheduling = %s  # %s
    overlap.profile_guided_estimations_profile_path = %s  # of PyTorch later than 2.11
    overlap.compute_overlap_multipler = %.2f  # beside each other here computation took %.2f and collectives %.2f of their times alone
`, overlaps, why, strconv.Quote(path), iso.Compute/iso.Collective, iso.Compute, iso.Collective)
}

// overlapPays says whether a schedule that overlaps, captured or with collectives as early as
// their data allow, is predicted to take at least 1 % less time than one that runs all in order, as
// Python's literal, and why. There is one setting for all phases: it is True only if it pays for each.
func overlapPays(r *results.Replayed) (literal, why string) {
	ran := map[string]engines.Outcome{}
	for _, out := range r.Outcomes {
		if out.Result != nil {
			ran[out.Strategy.Name] = out
		}
	}
	captured, bulk, moved := ran[schedule.Captured.Name], ran[schedule.Bulk.Name], ran[schedule.Multistream.Name]
	if bulk.Result == nil || moved.Result == nil {
		return "False", "no collective of this trace can be moved"
	}
	literal = "True"
	var reasons []string
	for _, phase := range captured.Each() {
		base, title := bulk.Of(phase).Expected, ""
		if phase > 0 {
			title = captured.Phases[phase-1].Steps.Phase + " steps: "
		}
		change := func(out engines.Outcome) float64 { of := out.Of(phase); return of.ChangeFrom(base) }
		was, early := change(captured), change(moved)
		if min(was, early) > verdict.Faster {
			literal = "False"
		}
		reasons = append(reasons, fmt.Sprintf("%scaptured %s, as early as their data allow %s", title,
			trace.Percent(was), trace.Percent(early)))
	}
	return literal, "against collectives in the order of the program: " + strings.Join(reasons, "; ")
}
