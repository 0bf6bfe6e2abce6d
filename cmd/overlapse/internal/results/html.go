package results

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/html"
	"github.com/overlapse/overlapse/viz/layout"
)

// HTML is the data of the HTML report.
func (r *Replayed) HTML() html.Report {
	rep := html.Report{
		Title:    filepath.Base(r.Path) + strings.TrimPrefix(r.title(0), r.Path),
		Verdict:  r.Verdict.Sentences,
		Captured: r.reference.Of(r.reference.Each()[0]).Expected,
		Heading:  "Where the time goes, every rank",
		Parts:    r.Parts(),
		Facts: []html.Fact{
			{Name: "trace", Value: r.Path},
			{Name: r.basis(), Value: r.measured()},
		},
	}
	if said := r.resimulated(); said != "" {
		rep.Facts = append(rep.Facts, html.Fact{Name: "model", Value: said})
	}
	if left := r.Coarse(); left != "" {
		rep.Facts = append(rep.Facts, html.Fact{Name: "timelines", Value: left})
	}
	if r.Estimated != "" {
		rep.Facts = append(rep.Facts, html.Fact{Name: "basis", Value: r.Estimated})
	}
	if len(r.workload.Ops) <= len(r.workload.Ranks) { // a kernel a rank: all that there is to see is inside, as captured
		rep.Runs = []html.Named{{Name: r.basis(), Run: r.workload.Run}}
		return rep
	}
	best, layers := r.best(), layersOf(r.workload)
	rep.Inside = best >= 0 && r.Outcomes[best].Strategy.Inside
	for _, i := range r.drawn(best) {
		out := r.Outcomes[i]
		if r.first(i, best) {
			rep.Shown = append(rep.Shown, len(rep.Runs))
		}
		note, time := r.runNote(i)
		rep.Runs = append(rep.Runs, html.Named{
			Name: r.scheduled(out.Result.Run.Name), Says: r.RunName(i), Note: note, Time: time, Run: out.Result.Run,
			Start: StartOf(r.workload, out.Result.Run), Gaps: ReasonsOf(out.Result, 0, 0), Use: useOf(out.Result), CopyOf: CopiesOf(r.workload),
			Layer: func(s trace.Span) string {
				op, c := plan.OriginOf(out.Result.Run, s), out.Result.Run.Comm(s)
				if op < 0 || c == nil || layers[op] == "" {
					return ""
				}
				return layers[op] + " " + c.Op.String()
			},
		})
	}
	said := ""
	if best >= 0 && r.reference.Result != nil && len(r.reference.Result.Run.Spans) > 0 { // between the captured schedule and the others
		changes, text := r.Changes(r.reference.Result.Run, best)
		said = text + ". "
		rep.Runs = slices.Insert(rep.Runs, 1, html.Named{
			Name: changes.Name, Note: text, Run: changes,
			Start: StartOf(r.workload, r.reference.Result.Run), CopyOf: CopiesOf(r.workload),
		})
		for i, run := range rep.Shown {
			if run > 0 {
				rep.Shown[i]++
			}
		}
		rep.Shown = append(rep.Shown, 1)
		slices.Sort(rep.Shown)
	}
	for i, phase := range r.reference.Each() {
		changes, left := r.changeChart(phase)
		if i > 0 { // a chart of its own, as its steps are others
			rep.Others = append(rep.Others, html.Report{Heading: r.Phases[i].Phase + " steps", Changes: changes})
			continue
		}
		rep.Changes, rep.ChangesTo, rep.Strategies = changes, left, r.bars(phase, best)
		if phase > 0 {
			rep.Heading += ", " + r.Phases[i].Phase + " steps"
		}
	}
	if late := r.WaitedFor; late != nil {
		rep.Rank = late.Rank
	}
	r.how(&rep, best)
	numbers := r.page(r.everyRow()).HTML()
	rep.Numbers = &numbers
	notes := cli.Table{Title: "Assumptions", Columns: []string{"note"}}
	for _, n := range r.Notes {
		notes.Add(n)
	}
	if best >= 0 {
		page := r.worksTable(best).HTML()
		page.Folded, page.Note = false, said+page.Note // headings of timelines may cut what is said
		rep.Tables = append(rep.Tables, page)
	}
	rep.Tables = append(rep.Tables, notes.HTML())
	return rep
}

// drawn are the outcomes that have a run, in the order of the page: the captured schedule, the best other, then as tables sort them.
func (r *Replayed) drawn(best int) (outcomes []int) {
	rows := r.everyRow()
	for i, out := range r.Outcomes {
		if out.Result != nil {
			outcomes = append(outcomes, i)
		}
	}
	slices.SortStableFunc(outcomes, func(a, b int) int {
		place := func(outcome int) int {
			row := slices.IndexFunc(rows, func(row *Row) bool { return row.At == outcome && row.Strategy != unchanged })
			if outcome == best && row > 0 {
				return 1
			}
			return 2 * row
		}
		return cmp.Compare(place(a), place(b))
	})
	return outcomes
}

// everyRow are the rows as tables sort them, phase by phase, and behind them those that do not apply.
func (r *Replayed) everyRow() (rows []*Row) {
	for _, phase := range r.reference.Each() {
		rows = append(rows, r.sorted(false, phase).rows...)
	}
	return append(rows, r.refused()...)
}

// changeChart has the changes of a phase (0: of all iterations) with their intervals around no change, and says which rows it leaves out.
func (r *Replayed) changeChart(phase int) (*html.Chart, string) {
	c := &html.Chart{Unit: "%", Least: 2, Parts: []html.Part{{Name: "more time", Color: "#d55e00"}, {Name: "less time", Color: "#009e73"}}}
	of := r.sorted(true, phase)
	for _, row := range of.rows {
		line := html.Line{
			Name: r.says(row), Values: []float64{100 * max(0, row.Change), 100 * min(0, row.Change)}, Error: 100 * row.Error,
			Note: r.barNote(row), Brief: trace.Percent(row.Change),
		}
		if r.recommended(row) {
			line.Name = "▸ " + line.Name
		}
		if row.Strategy != unchanged { // that is no outcome
			line.Key = r.scheduled(r.Outcomes[row.At].Result.Run.Name)
		} else {
			line.Name = "no change, simulated (noise)"
		}
		line.Tip = line.Name + ": " + line.Note + "\n" + row.Limit
		c.Bars = append(c.Bars, line)
	}
	var says []string
	if len(c.Bars) > len(r.Control) {
		if slices.ContainsFunc(of.rows, r.recommended) {
			says = append(says, "▸: recommended.")
		}
		says = append(says, "Change of the captured schedule's time, ± its 80 % interval, "+
			"and probability of a gain of at least 1 %. Click: its timeline.")
	}
	if of.alike != nil {
		says = append(says, "Cannot be told from no change: "+r.sayings(of.alike)+".")
	}
	if of.later != nil {
		says = append(says, "Not for tonight: "+r.sayings(of.later)+".")
	}
	left := strings.Join(says, " ")
	if !slices.ContainsFunc(of.rows, func(row *Row) bool { return row.Strategy != unchanged }) { // noise alone
		return nil, left
	}
	return c, left
}

// mostRankBars is how many ranks have bars of their own; of more the mean has.
const mostRankBars = 8

// bars are the times of each rank in the captured schedule and an outcome, in a phase; 0: of all iterations.
func (r *Replayed) bars(phase, outcome int) (bars []html.Bar) {
	for _, row := range r.sorted(false, phase).rows {
		if row.Strategy == unchanged || !row.given() && row.At != outcome {
			continue
		}
		out := r.Outcomes[row.At].Of(phase)
		ranks := plan.StepsOf(r.workload, out.Result.Run).Of(phase).Times(overlap.Collect(out.Result.Run), out.Time)
		if r.Captured == 1 || len(ranks) > mostRankBars {
			name, took := r.says(row), trace.Time(row.Time)
			if copies := len(ranks) - r.Captured; r.Captured == 1 && copies > 0 {
				name += fmt.Sprintf(" (rank %d; %d are copies of it)", slices.Index(r.workload.Copies, false), copies)
				ranks = nil
			}
			bars = append(bars, html.Bar{Name: name, Note: trace.Micros(took), Time: took, Times: row.Times, Ranks: ranks})
			continue
		}
		late := row.Waiting - overlap.MeanOf(ranks).Waiting // for ranks that nobody captured: idle so far
		for rank, times := range ranks {
			if r.workload.Copies[rank] {
				continue
			}
			d := max(-times.Waiting, min(times.Idle, late))
			times.Idle, times.Waiting = times.Idle-d, times.Waiting+d
			name, took := fmt.Sprintf("rank %d, %s", rank, r.says(row)), times.Total()
			if late := r.WaitedFor; late != nil && row.given() && out.Result.Run.RankID(int32(rank)) == late.Rank {
				name += " (waited for)"
			}
			bars = append(bars, html.Bar{Name: name, Note: trace.Micros(took), Time: took, Times: times})
		}
	}
	return bars
}

// CopiesOf is by rank the captured one that it copies, None for those that were captured; nil: all were.
func CopiesOf(w *workload.Workload) (of []int) {
	if !slices.Contains(w.Copies, true) {
		return nil
	}
	for rank, copied := range w.Copies {
		if of = append(of, trace.None); copied {
			of[rank] = slices.Index(w.Rows, w.Rows[rank])
		}
	}
	return of
}

// barNote is the time of a row, its change and error, and how likely it is faster, as tables have them.
func (r *Replayed) barNote(row *Row) string {
	note, cells := trace.Micros(trace.Time(row.Time)), r.cells()
	if row.Same {
		return fmt.Sprintf("%s  %s", note, cells["likely"](row))
	}
	for _, c := range [][2]string{{"change", "  %s"}, {"±", "  ± %s"}, {"likely", "  %s likely"}} {
		if text := cells[c[0]](row); text != nil {
			note += fmt.Sprintf(c[1], text)
		}
	}
	return note
}

// measured is the measured time, of each phase.
func (r *Replayed) measured() string {
	if r.Phases != nil {
		return phaseNames(r.Phases)
	}
	return trace.Micros(trace.Time(r.Measured))
}

// best is the outcome that the verdict recommends or, if that is the captured schedule, the fastest other schedule, rather one
// whose prediction is known to be worth something, of the first phase that has one; -1: none.
func (r *Replayed) best() int {
	best := (*Row)(nil)
	for i := range r.Rows {
		row := &r.Rows[i]
		s := r.Outcomes[row.At].Strategy
		switch {
		case !row.Applies || row.Same || s.Kind == plan.Bound || s.Kind == plan.Exact && row.Settings == "":
		case r.recommended(row):
			return row.At
		case s.Kind == plan.Future || row.Experimental || best != nil && (row.phase != best.phase || row.Unproven && !best.Unproven):
		case best == nil || best.Unproven && !row.Unproven || row.Time < best.Time:
			best = row
		}
	}
	if best == nil {
		return -1
	}
	return best.At
}

// how adds how to get what is recommended, on each phase.
func (r *Replayed) how(rep *html.Report, best int) {
	for i, v := range r.Verdict.Each() {
		if v.Advice == nil {
			continue
		}
		if rep.HowTitle = "How to get it: " + r.RunName(best); v.Phase != "" {
			rep.HowTitle = "How to get what is recommended"
		}
		if row := r.recommendedOf(i); row != nil {
			if v.Phase != "" {
				rep.How = append(rep.How, html.Step{Text: "for " + v.Phase + " steps: " + r.says(row)})
			}
			if row.changed != "" {
				rep.How = append(rep.How, html.Step{Text: "why: " + row.changed})
			}
		}
		rep.How = append(rep.How, stepsOf(v.Advice)...)
	}
}

// recommendedOf is the row that is recommended for a phase, an index of the reference's; nil: none is.
func (r *Replayed) recommendedOf(phase int) *Row {
	for i := range r.Rows {
		if row := &r.Rows[i]; row.phase == r.reference.Each()[phase] && r.recommended(row) {
			return row
		}
	}
	return nil
}

// stepsOf are the steps of an advice.
func stepsOf(advice *verdict.Advice) (steps []html.Step) {
	if len(advice.Where) > 0 {
		steps = append(steps, html.Step{Text: "where: " + strings.Join(advice.Where, "; ")})
	}
	for i, w := range advice.Ways {
		step := html.Step{Text: leadOf(&w, i > 0 && w.For == advice.Ways[i-1].For), Code: w.Line}
		for _, part := range []string{strings.TrimSpace(w.Library + " " + w.Version), w.Note} {
			if part != "" {
				step.Text += part + "; "
			}
		}
		step.Text = strings.TrimSuffix(step.Text, "; ")
		steps = append(steps, step)
	}
	return steps
}

// leadOf begins a way: what for, or that it is an alternative to the one before.
func leadOf(w *plan.Way, alternative bool) string {
	if alternative {
		return "or: "
	}
	return fmt.Sprintf("%s (%s): ", cmp.Or(w.Says, w.For), w.Effort)
}

// runNote is printed next to the time of an iteration of a run, as its row has it: the change, and how many iterations are drawn. Of
// phases it has the times, too.
func (r *Replayed) runNote(outcome int) (note, time string) {
	var notes []string
	for _, row := range r.Rows {
		switch {
		case row.At != outcome || !row.Applies:
		case row.phase > 0:
			notes = append(notes, fmt.Sprintf("%s steps %s, %s", row.Phase, trace.Micros(trace.Time(row.Time)), trace.Percent(row.Change)))
		default:
			if time = trace.Micros(trace.Time(row.Time)); !row.given() {
				notes = append(notes, trace.Percent(row.Change))
			}
		}
	}
	if r.Iterations > 1 {
		notes = append(notes, cli.Counted(r.Iterations, "iteration"))
	}
	return strings.Join(notes, ", "), time
}

// leastShare is the share of a resource that a chart shows.
const leastShare = 0.005

// useOf is what the GPUs use over time, as shares: compute units, memory and links as
// simulated, and how many copies run.
func useOf(r *replay.Result) []html.Use {
	classes := map[string]layout.Class{replay.ComputeUnits: layout.Local, replay.Memory.String(): layout.Memory, replay.MemoryOfComputation: layout.Memory, replay.Cache.String(): layout.Memory}
	var all []html.Use
	for _, u := range r.Usage {
		if slices.Max(u.Shares) < leastShare {
			continue
		}
		class, ok := classes[u.Of]
		if !ok {
			class = layout.Comm
		}
		use := html.Use{Rank: int32(u.GPU), Name: u.Of, Color: class.CSS(), Most: 100, Unit: "%"}
		for i, share := range u.Shares {
			use.Points = append(use.Points, html.Point{At: trace.Time(i) * u.Width, Value: 100 * share})
		}
		all = append(all, use)
	}
	return all
}
