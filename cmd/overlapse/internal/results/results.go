// Package results replays a workload under several strategies, and has all forms of the
// outcome: the printed tables, Markdown, CSV, JSON, the HTML report and the timeline
// for Perfetto.
//
// difference.go and its neighbours compare two of them, inspection.go says what a trace holds, and schema.go has the
// JSON and CSV of all.
package results

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// strategyIn is the index of the first outcome of a strategy, or -1.
func strategyIn(outcomes []engines.Outcome, name string) int {
	return slices.IndexFunc(outcomes, func(out engines.Outcome) bool { return out.Strategy.Name == name })
}

// A Replayed is a trace replayed under several strategies. The table, result.json
// and the report are made from it.
type Replayed struct {
	Schema int `json:"schema"` // Version
	subject
	Verdict   verdict.Verdict   `json:"verdict"`
	Published string            `json:"published,omitempty"` // what a paper says of this workload file
	Rows      []Row             `json:"strategies"`
	Control   []Row             `json:"control,omitempty"` // the captured schedule with nothing changed, simulated as strategies of pairs are, of each phase that is answered apart: its change is the noise floor; absent if nothing was measured
	Waves     []pairWaves       `json:"waves,omitempty"`   // of dependent compute kernels
	PairKinds []pairRow         `json:"pair_kinds,omitempty"`
	Peak      int64             `json:"captured_peak_memory_bytes,omitempty"` // the most that a captured rank held; absent if not recorded
	Elsewhere []verdict.WhatIf  `json:"what_if,omitempty"`                    // with --explain: the captured schedule on other hardware
	Notes     []string          `json:"notes"`
	Outcomes  []engines.Outcome `json:"-"` // as Rows
	replaying
}

// replaying is what rows are made of, and how; no form has it.
type replaying struct {
	reference engines.Outcome // the captured schedule, replayed
	predicted []verdict.Prediction
	late      *overlap.LateRank // in the capture
	workload  *workload.Workload
	scenario  plan.Scenario
	pipeline  bool // the trace has one that can be planned anew
	most      int  // spans recorded of one strategy; 0: no bound
	keep      bool // outcomes keep their runs
	unnamed   bool // the strategies are all that apply: nobody named some
}

// A subject is what was replayed, and on which machine: what is known before any strategy is.
type subject struct {
	Path       string              `json:"path"`
	Machine    string              `json:"machine"`
	Guess      string              `json:"machine_guess,omitempty"` // why that machine, where the trace's GPU is not known
	Origin     machine.Origin      `json:"machine_numbers"`         // of its numbers
	Ranks      int                 `json:"ranks"`
	Captured   int                 `json:"captured_ranks"`
	Iterations int                 `json:"iterations"` // times below are per iteration, if there are any
	Pairs      int                 `json:"pairs"`
	Clock      string              `json:"clock,omitempty"`      // at which times are predicted, where it is not the capture's
	Window     string              `json:"window,omitempty"`     // recorded and explained: iteration, all, or a time range
	Measured   int64               `json:"measured_ns"`          // estimated if the trace is; 0 where phases are answered apart
	Phases     []plan.PhaseTime    `json:"phases,omitempty"`     // as measured, where they are answered apart
	Unprofiled bool                `json:"unprofiled"`           // times below are without the profiler, which Measured includes
	Estimated  string              `json:"estimated,omitempty"`  // the source of the times, if nothing was measured
	Isolation  *workload.Isolation `json:"isolation"`            // how isolated durations were found
	Rescaled   *workload.Rescaling `json:"rescaled,omitempty"`   // to other ranks or another GPU
	WaitedFor  *overlap.LateRank   `json:"waited_for,omitempty"` // the rank that others wait for in the captured schedule
	Unaligned  []int               `json:"unaligned,omitempty"`  // ranks whose clocks cannot be compared with the first one's: waiting there counts as transfer
}

// Of replays the selections, and always the captured schedule: if it is not
// selected, only its times are needed. keep says that somebody reads the runs of the outcomes, which
// else are dropped as soon as a row is made of them. settings adds single settings (Replayed.settings): they are replayed first,
// and a terminal gets the verdict on them while the rest is replayed.
func Of(
	ctx context.Context, con *cli.Console, path string, w *workload.Workload, m machine.Machine, sel []plan.Selection, sc plan.Scenario,
	opts replay.Options, keep, settings bool,
) (*Replayed, error) {
	bar := con.Progress(len(sel), "replaying")
	defer bar.Finish()
	opts.Progress = bar.Share
	first := slices.IndexFunc(sel, func(s plan.Selection) bool {
		return s.Strategy.Kind == plan.Exact && s.Strategy.String(s.Values) == ""
	})
	captured, recorded := engines.CapturedSelection(), replay.Options{Stop: opts.Stop}
	if first >= 0 {
		captured, recorded = sel[first], opts
	}
	recorded.Like = false // who waits for whom
	base, err := engines.Run(w, m, captured, sc, recorded)
	if err != nil {
		return nil, Stopped(ctx, fmt.Errorf("%s: %w", path, err))
	}
	if base.Result == nil {
		return nil, fmt.Errorf("%s: %s", path, base.Why)
	}
	base = verdict.Timed(w, base)
	r := &Replayed{
		Schema: Version, Notes: w.Notes, Waves: wavesOf(w, m),
		subject: subject{
			Path: path, Machine: m.Name, Guess: m.Guess, Origin: machine.OriginOf(m), Ranks: w.World, Captured: w.Captured,
			Iterations: workload.Iterations(w), Pairs: len(w.Pairs), Isolation: w.Isolation, Rescaled: w.Rescaled,
			Estimated: w.Run.Estimated, Unprofiled: w.Unprofiled && w.Profiled(),
		},
		replaying: replaying{reference: base, keep: keep, workload: w, scenario: sc, most: opts.Most},
	}
	if measured := plan.MeasuredSteps(w); len(base.Phases) > 1 {
		r.Phases = measured.Phases()
	} else {
		r.Measured = int64(measured.Time())
	}
	if w.Rescaled != nil {
		r.Notes = append(slices.Clone(w.Notes), rescaledText(w.Rescaled))
	}
	r.WaitedFor, r.Unaligned = plan.StepsOf(w, base.Result.Run).WaitedFor(overlap.Collect(base.Result.Run)), unaligned(w.Run)
	schedules, _ := schedule.Settings(w)
	r.pipeline, r.Peak = schedules != nil, plan.CapturedPeak(w)
	if r.Control, err = controlOf(w, m, base, sc, opts.Stop); err != nil {
		return nil, Stopped(ctx, fmt.Errorf("%s: %w", path, err))
	}
	rest := slices.Clone(sel)
	if first >= 0 {
		rest = slices.Delete(rest, first, first+1)
		bar.Add(1)
	}
	r.late = verdict.LateRank(w, base)
	var single []judged
	if r.unnamed = settings; settings {
		if single, err = r.settings(con, m, opts, bar); err != nil {
			return nil, Stopped(ctx, fmt.Errorf("%s: %w", path, err))
		}
	}
	judged, err := r.compare(m, rest, opts, func() { bar.Add(1) })
	if err != nil {
		return nil, Stopped(ctx, fmt.Errorf("%s: %w", path, err))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if first >= 0 {
		judged = slices.Insert(judged, first, r.judged(base))
	}
	for _, x := range judged {
		r.add(x)
	}
	for _, x := range single {
		i := strategyIn(r.Outcomes, x.Strategy.Name)
		if x.Why == "" && (i < 0 || slices.ContainsFunc(base.Each(), func(phase int) bool {
			of := x.Of(phase)
			return math.Abs(of.ChangeFrom(r.Outcomes[i].Of(phase).Expected)) >= leastShown
		})) {
			r.add(x)
		}
	}
	r.judge()
	return r, nil
}

// leastShown is the least change against its strategy's defaults for which a single setting has a
// row: the resolution of the printed changes.
const leastShown = 0.001

// settings replays single settings for a step, and says the verdict on them. A graph counts where the host bounds the captured schedule.
func (r *Replayed) settings(con *cli.Console, m machine.Machine, opts replay.Options, bar *cli.Progress) ([]judged, error) {
	sel, err := engines.Cheap()
	if err != nil {
		return nil, err
	}
	loop := len(r.workload.Collectives) <= max(1, workload.Iterations(r.workload)) // one a round, or none
	graphs := slices.ContainsFunc(r.workload.Ops, func(op workload.Op) bool { return op.Graph })
	if graphs || r.workload.Serves() {
		serving, err := engines.ParseSelection(engines.OfServing)
		if err != nil {
			return nil, err
		}
		sel = append(sel, serving...)
	}
	schedules, err := engines.OfSchedules(r.workload, &m, false)
	if err != nil {
		return nil, err
	}
	carriers, err := engines.OfCarriers(r.workload, &m, false)
	if err != nil {
		return nil, err
	}
	sel = append(sel, schedules...)
	sel = slices.DeleteFunc(sel, func(s plan.Selection) bool {
		copies := cmp.Or(s.Values["copies"], plan.AsCaptured) != plan.AsCaptured
		return loop && s.Strategy.Kind != plan.Exact && !copies || s.Strategy.Kind == plan.Exact && !r.LaunchBound()
	})
	sel = append(sel, carriers...)
	bar.More(len(sel))
	all, err := r.compare(m, sel, opts, func() { bar.Add(1) })
	if err != nil || len(all) == 0 {
		return nil, err
	}
	var predicted []verdict.Prediction
	for _, x := range all {
		predicted = append(predicted, x.Prediction)
	}
	con.Early("flags and settings alone: " + verdict.Judge(r.workload, r.reference, predicted, r.late).Sentences[0])
	return all, nil
}

// A judged selection has its prediction and its rows, one of each phase that is answered apart.
type judged struct {
	verdict.Prediction
	rows []Row
}

// compare replays selections and judges each outcome as it comes.
func (r *Replayed) compare(m machine.Machine, sel []plan.Selection, opts replay.Options, done func()) ([]judged, error) {
	all := make([]judged, len(sel))
	_, err := engines.Compare(r.workload, m, sel, r.scenario, opts, func(i int, out *engines.Outcome) {
		all[i] = r.judged(*out)
		out.Result = nil
		done()
	})
	return all, err
}

// Beside adds the rows of more selections.
func (r *Replayed) Beside(ctx context.Context, m machine.Machine, sel []plan.Selection, opts replay.Options, done func()) error {
	judged, err := r.compare(m, sel, opts, done)
	if err != nil {
		return Stopped(ctx, err)
	}
	for _, x := range judged {
		r.add(x)
	}
	return ctx.Err()
}

// LaunchBound reports whether a graph of the captured schedule is worth a replay.
func (r *Replayed) LaunchBound() bool { return verdict.LaunchBound(r.workload, r.reference) }

// Climb searches changes of the captured schedule one after the other, as verdict.Climb does, and judges the last of each phase.
func (r *Replayed) Climb(m machine.Machine, candidates [][]plan.Selection, opts replay.Options, over func() bool, done func()) ([]verdict.Ladder, error) {
	ladders, err := verdict.Climb(r.workload, m, r.reference, candidates, r.scenario, opts, over, done)
	if err != nil {
		return nil, err
	}
	var each []verdict.Verdict
	for _, l := range ladders {
		each = append(each, verdict.Judge(r.workload, l.Captured, l.Last, r.late, l.Others()...))
	}
	r.Verdict = verdict.Joined(each)
	return ladders, nil
}

// judge forms the verdict on all rows.
func (r *Replayed) judge() { r.Verdict = verdict.Judge(r.workload, r.reference, r.predicted, r.late) }

// Stopped is the context's error if it ended the replay, else the error itself.
func Stopped(ctx context.Context, err error) error {
	if errors.Is(err, replay.ErrStopped) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// add appends a strategy's rows.
func (r *Replayed) add(x judged) {
	for i := range x.rows {
		x.rows[i].At = len(r.Outcomes)
	}
	r.Outcomes, r.Rows, r.predicted = append(r.Outcomes, x.Outcome), append(r.Rows, x.rows...), append(r.predicted, x.Prediction)
}

// judged makes a strategy's rows, for which it needs the run.
func (r *Replayed) judged(out engines.Outcome) judged {
	x := judged{Prediction: verdict.Predict(r.workload, r.reference, out)}
	if x.Apart == nil || x.Result == nil {
		x.rows = []Row{r.rowOf(x.Prediction)}
	} else {
		for _, p := range x.Apart {
			x.rows = append(x.rows, r.rowOf(p))
		}
	}
	if !r.keep {
		brief(&x.Prediction)
	}
	return x
}

// brief drops the runs of a prediction's outcomes.
func brief(p *verdict.Prediction) {
	if p.Result != nil {
		p.Outcome = briefly(p.Outcome, *p.Times)
	}
	for i := range p.Apart {
		brief(&p.Apart[i])
	}
}

// Coarse names the strategies recorded without workgroups or without their phases, and how
// to record them.
func (r *Replayed) Coarse() string {
	without := map[string][]string{}
	for _, out := range r.Outcomes {
		if out.Result != nil && out.Result.Coarse {
			what := "the phases of workgroups"
			if out.Result.Level == replay.Kernels {
				what = "workgroups"
			}
			without[what] = append(without[what], out.Result.Run.Name)
		}
	}
	var parts []string
	for _, what := range []string{"workgroups", "the phases of workgroups"} {
		if names := without[what]; names != nil {
			parts = append(parts, fmt.Sprintf("recorded without %s, which need more than %d spans per strategy: %s", what, r.most, strings.Join(names, ", ")))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "; ") + " (replay -o --window 1ms-3ms records all workgroups of that time)"
}

// given is the kind of the schedule that strategies are compared with: captured,
// or given by a workload file.
func (r *Replayed) given() string {
	if r.Estimated != "" {
		return "given"
	}
	return "captured"
}

// basis is "measured", or "estimated" for a workload file; "" of an input that cannot be replayed.
func (r *Replayed) basis() string {
	if r.workload == nil { // nothing was replayed
		return ""
	}
	return BasisOf(r.workload.Run)
}

// BasisOf is "measured", or "estimated" for the run of a workload file.
func BasisOf(run *trace.Run) string {
	if run.Estimated != "" {
		return "estimated"
	}
	return "measured"
}

// runs are the simulated runs of the strategies that apply, in table order.
func (r *Replayed) runs() []*trace.Run { return r.runsOf(r.ran()) }

func (r *Replayed) runsOf(outcomes []engines.Outcome) (runs []*trace.Run) {
	for _, out := range outcomes {
		run := *out.Result.Run
		run.Name = r.scheduled(run.Name)
		runs = append(runs, &run)
	}
	return runs
}

// scheduled is a run's name in files and views: nobody captured the schedule of a workload file.
func (r *Replayed) scheduled(run string) string {
	if run == "captured" {
		return r.given()
	}
	return run
}

// Iteration is the default window: one iteration in the steady state.
const Iteration = "iteration"

// unaligned lists the ranks whose clocks cannot be compared with the first one's: nothing
// says who waits for whom.
func unaligned(run *trace.Run) (ranks []int) {
	for _, r := range run.Ranks {
		if r.Uncertainty == trace.None {
			ranks = append(ranks, r.ID)
		}
	}
	return ranks
}
