package results

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/overlap"
)

// Inspections
//
// An Inspection says what a trace holds: what bounds a step, collectives, kernels, pairs and
// ranks, with the evidence for what is inferred; printed, or as JSON.

// Options say what is printed.
type Options struct {
	All     bool // the evidence, every step and the files
	Ledger  bool // every entry
	Explain bool // the definition of every metric
	Top     int  // rows of each table; 0: all
}

// An Inspection is a trace, and what is printed of it.
type Inspection struct {
	*cli.Console
	Options
	Input    string // what makes another command read the trace, as words of a shell
	Machine  string // that the user named; ""
	workload *workload.Workload
	summary  workload.Summary
	steps    *plan.Steps
	work     overlap.Work
	ranks    []overlap.Rank   // metrics of each, by row
	machine  *machine.Machine // nil: unknown
	each     []phasePart      // one; of a capture of several phases one of each
}

// A phasePart is the iterations that are answered together: all, or those of one phase (rule V34).
type phasePart struct {
	*plan.Steps
	of   *overlap.Iteration
	late *overlap.LateRank // the rank that others wait for; nil: none
}

// title begins what is said of a phase; "" of all iterations.
func (p *phasePart) title() string {
	phase := p.Phase()
	if phase.Steps == 0 {
		return ""
	}
	return cmp.Or(phase.Phase, "other") + " steps: "
}

// Inspect inspects a workload on a machine; nil: unknown.
func Inspect(w *workload.Workload, on *machine.Machine) *Inspection {
	steps, work := plan.MeasuredSteps(w), overlap.Collect(w.Run)
	v := &Inspection{workload: w, steps: steps, work: work, ranks: work.Ranks(), machine: on}
	var in [][]overlap.Interval
	for _, s := range steps.Each() {
		p := phasePart{s, s.Iteration(work, 0), s.WaitedFor(work)}
		v.each, in = append(v.each, p), append(in, p.of.In)
	}
	v.summary = workload.Of(w, in)
	return v
}

// JSON is the JSON form.
func (v *Inspection) JSON() Inspected {
	m, run := v.work.Metrics(), v.workload.Run
	left := leftOut{truncateList(&m.Collectives), truncateList(&m.CriticalPath.Steps)}
	r := Inspected{Schema: Version, Workload: v.summary, Metrics: m, Better: v.improvements(), Flows: workload.Flows(v.workload), Spans: map[string]int{}, LeftOut: left}
	for _, p := range v.each {
		if len(v.each) > 1 {
			r.Times, r.Phases = []overlap.Times{}, append(r.Phases, phase{p.Phase(), p.of.Each, p.late})
		} else {
			r.Times, r.Late = p.of.Each, p.late
		}
	}
	for _, sp := range run.Spans {
		r.Spans[sp.Kind.String()]++
	}
	for _, e := range run.Ledger.Entries {
		r.Ledger = append(r.Ledger, ledgerEntry{e.Action.String(), e.File, e.Reason, e.Count, e.Unit, e.Positions})
	}
	return r
}

// RankLabels name the rows of the ranks in timelines.
func (v *Inspection) RankLabels() (list []string) {
	for row := range v.workload.Run.Ranks {
		list = append(list, v.workload.Run.RankLabel(int32(row)))
	}
	return list
}

// Print prints the answer, then the tables behind it.
func (v *Inspection) Print(con *cli.Console) {
	v.Console = con
	v.printAnswer()
	if len(v.workload.Ops) > 0 {
		v.printCollectives()
		v.printCopies()
		v.printKernels()
		v.printPairs()
		v.printRanks()
		v.printSteps()
		if v.All {
			v.printDependencies()
		}
	}
	if v.Explain {
		v.explainMetrics()
	}
	fmt.Fprintln(v.Out)
	if len(v.workload.Ops) > 0 && !v.All {
		v.printIgnored()
	}
	v.printLedger(v.workload.Run, v.Ledger)
}

// mostImprovements is how many are printed without --all.
const mostImprovements = 2

// printAnswer prints what bounds the step, who is waited for, and what to do next.
func (v *Inspection) printAnswer() {
	s := &v.summary
	title := guard.Line(s.Name) + " · " + v.ranksText()
	if took := v.iterationsText(); took != "" {
		title += " · " + took
	}
	v.Say(title)
	if what := verdict.DamageOf(v.workload); what != "" {
		v.Labelled("damaged", what)
	}
	if lost := v.workload.Damage.Skipped; len(v.workload.Ops) == 0 && lost > 0 {
		v.Labelled("bound by", fmt.Sprintf("unknown: none of the %d kernels and copies of the trace could be read", lost))
	} else if len(v.workload.Ops) == 0 {
		v.Labelled("bound by", "nothing: the trace has no kernel and no copy of a GPU")
	} else {
		for i := range v.workload.Slow {
			v.Labelled("slow", verdict.SlowText(&v.workload.Slow[i]))
		}
		v.printEach("bound by", v.boundText)
		v.printEach("waiting", v.waitingText)
		fmt.Fprintf(v.Out, "%-10s%s\n", "next", guard.Line(v.nextCommand())) // in one line, to be pasted
	}
	list := v.improvements()
	for i, x := range list {
		if i == mostImprovements && !v.All {
			v.Labelled("", fmt.Sprintf("and %d more (--all)", len(list)-i))
			break
		}
		v.Labelled("better", fmt.Sprintf("with %s: %s", x.Lacks, x.Worth))
		v.Labelled("", x.Do)
	}
	for _, n := range s.Notes {
		if len(v.workload.Ops) > 0 || n != lift.NoDeviceOperation {
			v.Labelled("note", n)
		}
	}
}

// ranksText is how many ranks were captured, and on what.
func (v *Inspection) ranksText() string {
	s := &v.summary
	ranks := cli.Counted(s.World, "rank")
	if s.Captured < s.World {
		ranks = fmt.Sprintf("%d of %s captured", s.Captured, ranks)
	}
	if device := v.workload.Run.Ranks[0].Device.Name; device != "" {
		ranks += " on " + device
	}
	if s.Estimated {
		ranks += ", none captured"
	}
	return guard.Line(ranks)
}

// iterationsText is how many iterations there are, and how long one takes.
func (v *Inspection) iterationsText() string {
	took := v.steps.Time()
	if phases := v.steps.Phases(); phases != nil {
		return phaseNames(phases)
	}
	switch n := workload.Iterations(v.workload); {
	case len(v.workload.Ops) == 0:
		return ""
	case n == 0:
		return trace.Micros(took) + " in all, no step found"
	default:
		return iterationsIn(n, took, v.steps)
	}
}

// A share is a part of the ranks' time.
type share struct {
	of   string
	time trace.Time
}

// printEach prints what is to be said of all iterations, or of those of each phase.
func (v *Inspection) printEach(label string, text func(*phasePart) string) {
	for i := range v.each {
		if line := text(&v.each[i]); line != "" {
			v.Labelled(label, v.each[i].title()+line)
			label = ""
		}
	}
}

// boundText says what an iteration consists of, the largest part first.
func (v *Inspection) boundText(p *phasePart) string {
	sum := p.of.Mean
	if sum.Total() == 0 {
		return "nothing: the device work takes no time"
	}
	if n := v.workload.Untimed(); n > 0 {
		return fmt.Sprintf("unknown: none of the %s has a time; the kernels beside them take %s", cli.Counted(n, "collective"), trace.Micros(sum.Compute))
	}
	idle := []share{{"idle", sum.Idle}} // causes are known of the whole run
	hidden, communicates := hiddenPercent(sum)
	if len(v.each) == 1 {
		host := trace.Time(float64(sum.Idle) * v.hostShare())
		idle = []share{{"host", host}, {"other idle time", sum.Idle - host}}
		if lost := v.leftOut(); lost > 0 {
			idle = []share{{fmt.Sprintf("idle or one of %d kernels and copies that are missing", lost), sum.Idle}}
		}
		whole := overlap.Sum(v.ranks)
		hidden, communicates = whole.OverlapPercent()
	}
	line, inside := v.sharesText(sum, idle), verdict.InsideText(v.workload, v.machine)
	switch {
	case communicates:
		line += fmt.Sprintf("; %.0f %% of communication is hidden behind compute", hidden)
		if inside != "" {
			line += "; " + strings.Replace(inside, "the communication", "other communication", 1)
		}
	case inside != "":
		line += "; " + inside
	case len(v.summary.Collectives) == 0 && v.workload.Opaque():
		line += "; the trace shows no communication, and not what whole graphs consist of"
	case len(v.summary.Collectives) == 0 && float64(sum.Copies) >= leastWaiting*float64(sum.Total()):
		var all, beside, within trace.Time // within devices: as compute, beside which others can run
		for _, c := range v.summary.Copies {
			all, beside = all+c.TotalNs, beside+c.BesideNs
			if !strings.Contains(c.Direction, "host") {
				within += c.TotalNs
			}
		}
		seen := float64(sum.Copies) / float64(max(1, all-beside))
		share := 100 * max(0, min(seen*float64(all-within), float64(sum.Compute)+seen*float64(within-beside))) / float64(sum.Total())
		line += fmt.Sprintf("; no communication: copies on a stream of their own could hide at most %.1f %% of the time", share)
	case len(v.summary.Collectives) == 0:
		line += "; nothing to overlap, as the trace has no communication"
	}
	return line
}

// sharesText are the parts of an iteration in percent, the largest first; idle are those of its idle time.
func (v *Inspection) sharesText(sum overlap.Times, idle []share) string {
	transfer := "transfer"
	if v.blind() {
		transfer = "transfer and waiting"
	}
	parts := append([]share{
		{"compute", sum.Compute},
		{transfer, sum.Transfer},
		{"waiting for ranks", sum.Waiting},
		{"copies", sum.Copies},
	}, idle...)
	slices.SortStableFunc(parts, func(a, b share) int { return cmp.Compare(b.time, a.time) })
	var list []string
	for _, p := range parts {
		if part := 100 * float64(p.time) / float64(max(1, sum.Total())); part >= 0.05 {
			list = append(list, fmt.Sprintf("%s %.1f %%", p.of, part)+v.slowdownText(p.of))
		}
	}
	return strings.Join(list, ", ")
}

// slowdownText says how much of compute time is what collectives beside it add; "" for other parts, and if it is
// not worth it.
func (v *Inspection) slowdownText(part string) string {
	s := engines.SlowdownOf(v.workload)
	share := float64(s.Time) / float64(max(1, v.steps.Time()))
	if part != "compute" || share < leastWaiting || len(v.each) > 1 { // of which phase is not known
		return ""
	}
	var by []string
	for op, n := range s.Collectives {
		if n > 0 {
			by = append(by, fmt.Sprintf("%d %s", n, trace.CollectiveOp(op)))
		}
	}
	return fmt.Sprintf(" (%.1f %% of the time is slowdown of %s beside %s, against instances alone)", 100*share, cli.Counted(s.Kernels, "kernel"), strings.Join(by, ", "))
}

// leftOut is how many kernels and copies are launched or numbered and could not be read, where damage is worth a word: devices may
// run them while they seem idle.
func (v *Inspection) leftOut() int {
	if verdict.DamageOf(v.workload) == "" {
		return 0
	}
	return v.workload.Damage.Skipped + v.workload.Damage.Missing
}

// hostShare is the part of idle time in which the device had nothing to do, as the host had
// not launched it yet.
func (v *Inspection) hostShare() float64 {
	var host, all trace.Time
	for _, r := range v.ranks {
		c := r.IdleCauses
		host, all = host+c.Host+c.Sync+c.Launch, all+c.Host+c.Sync+c.Launch+c.Queued+c.Unknown
	}
	return float64(host) / float64(max(1, all))
}

// blind reports whether no waiting can be told from transfer, as the ranks that were waited
// for were not captured.
func (v *Inspection) blind() bool {
	waits := func(p phasePart) bool { return p.of.Mean.Waiting > 0 }
	return v.summary.Captured < v.summary.World && len(v.summary.Collectives) > 0 && !slices.ContainsFunc(v.each, waits)
}

// leastWaiting is the share of an iteration below which waiting is not worth a line.
const leastWaiting = 0.005

// waitingText names the rank that others wait for, and what takes it longer; "" if nobody
// waits long.
func (v *Inspection) waitingText(p *phasePart) string {
	unaligned := slices.ContainsFunc(v.workload.Run.Ranks, func(r trace.Rank) bool { return r.Uncertainty == trace.None })
	switch {
	case v.blind():
		return cmp.Or(v.unseenText(p), "unknown, as the other ranks were not captured")
	case unaligned && len(v.summary.Collectives) > 0:
		return "unknown, as the clocks of the ranks cannot be aligned: no collective that all of them join was matched"
	case p.late == nil || p.late.Share < leastWaiting:
		return ""
	}
	return fmt.Sprintf("rank %d: %s", p.late.Rank, verdict.LateText(p.late))
}

// unseenText says how long collectives of a captured rank waited for ranks that were not captured: at least what they take
// beyond the shortest of their size and, where the machine's law is known, at most what they take beyond that. "" if neither is
// known.
func (v *Inspection) unseenText(p *phasePart) string {
	w := v.workload
	of, n := workload.IterationsOf(w)
	counts := func(op *workload.Op) bool { return (n == 0 || of[op.ID] >= 0) && p.Has(int(of[op.ID])) }
	if len(v.each) > 1 {
		n = p.Phase().Steps
	}
	var least, more trace.Time
	w.UnseenWaits(func(op *workload.Op, wait trace.Time) {
		if counts(op) {
			least += wait
		}
	})
	if v.machine != nil {
		lift.BeyondLaw(w, v.machine, func(c *workload.Collective, beyond trace.Time, _ bool) {
			for _, id := range c.Members {
				if op := &w.Ops[id]; !w.Copies[op.Rank] && counts(op) {
					more += beyond
				}
			}
		})
	}
	each, ranks := "", trace.Time(max(1, w.Captured*n))
	if n > 0 {
		each = " an iteration"
	}
	from, to := trace.Micros(least/ranks), trace.Micros((least+more)/ranks)
	switch {
	case from != to:
		return fmt.Sprintf("%s to %s%s for ranks that were not captured: what collectives take beyond the shortest of their size, and beyond the library's law on %s",
			from, to, each, v.machine.Name)
	case w.Unseen():
		return fmt.Sprintf("at least %s%s for ranks that were not captured: collectives take so much longer than the shortest of their size", from, each)
	}
	return ""
}

// nextCommand is the command to run next, as it can be pasted.
func (v *Inspection) nextCommand() string {
	copies := func(p phasePart) bool { return float64(p.of.Mean.Copies) >= leastWaiting*float64(p.of.Mean.Total()) }
	if len(v.summary.Collectives) == 0 && len(v.summary.Pairs) == 0 && !slices.ContainsFunc(v.each, copies) {
		return "overlapse view " + v.Input
	}
	command := "overlapse replay " + v.Input
	switch {
	case v.Machine != "":
		command += " --machine " + cli.ShellWord(v.Machine)
	case v.machine == nil:
		name, why := cli.Likely(v.workload)
		command += fmt.Sprintf("  # on %s, a guess (%s); --machine names the GPU", name, why)
	}
	return command
}

// iterationsIn says how many iterations there are, what one takes, and how unequal the captured ones are.
func iterationsIn(n int, took trace.Time, captured *plan.Steps) string {
	text := fmt.Sprintf("%s of %s", cli.Counted(n, "iteration"), trace.Micros(took))
	shortest, longest, out := captured.Disturbed()
	if longest > 0 {
		text += fmt.Sprintf(" (captured ones take %s to %s", trace.Micros(shortest), trace.Micros(longest))
		if out > 0 {
			text += fmt.Sprintf(": %d disturbed, left out", out)
		}
		text += ")"
	}
	return text
}
