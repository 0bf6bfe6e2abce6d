package main

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/console"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/input"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/schema"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/words"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/replay/summary"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/plain"
)

// inspectOptions are the flags of `overlapse inspect`.
type inspectOptions struct {
	path    string
	machine string
	format  string
	ledger  bool
	all     bool

	dataflow string // a file of corrections

	explain bool
	top     int
}

func (a *app) inspectCommand() *cobra.Command {
	var o inspectOptions
	c := &cobra.Command{
		Use:   "inspect PATH...",
		Short: "Show the contents of a trace: ranks, kernels, collectives, pairs and the evidence for them",
		Long: `Reads a trace and prints what bounds a step (compute, transfer, waiting for a late rank, the
host, copies), which rank the others wait for, and the next command. Then: the collectives by
kind and size, with bandwidths as nccl-tests defines them; the kernels that take most time; the
pairs of computation and communication that a strategy can overlap; the states of each rank.
--all adds the evidence for what is inferred: tiles, pairs, dependencies, steps and files.`,
		Example: `  overlapse inspect samples/moe-ep4
  overlapse inspect samples/moe-ep4 --all
  overlapse inspect samples/moe-ep4 --format json | jq .workload.pairs`,
		Args: tracePaths,
		RunE: func(_ *cobra.Command, args []string) error {
			o.path = a.Input(args)
			return a.inspect(o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.machine, "machine", "", "machine that unknown sizes of collectives are estimated for, or that a workload file runs on; default: sizes stay unknown, and the machine that the workload file names")
	cli.ChoiceFlag(c, &o.format, "format", "table", "table or json", "table", "json")
	f.BoolVar(&o.all, "all", false, "also print the evidence for pairs, tiles and dependencies, every step, and the file of each rank")
	f.BoolVar(&o.ledger, "ledger", false, "also list the events that were skipped, repaired or noted, with file, position and reason")
	cli.IntFlag(f, &o.top, "top", 10, cli.Range[int]{Most: cli.MaxRows}, "rows of each table; 0: all")
	input.DataflowFlag(c, &o.dataflow)
	a.OutsideFlag(c)
	f.BoolVar(&o.explain, "explain", false, "also print the definition of every metric")
	return c
}

// An inspected is the JSON form.
type inspected struct {
	Schema   int                 `json:"schema"`
	Workload summary.Summary     `json:"workload"`
	Metrics  overlap.Metrics     `json:"metrics"`
	Times    []overlap.Times     `json:"iteration"`            // what one consists of, by rank row
	Late     *overlap.LateRank   `json:"waited_for,omitempty"` // by the other ranks
	Flows    summary.FlowSummary `json:"dependencies"`
	Spans    map[string]int      `json:"spans"` // by kind
	Ledger   []ledgerEntry       `json:"ledger"`
	LeftOut  leftOut             `json:"left_out"`
}

// maxListed bounds the lists of the JSON form that grow with the trace.
const maxListed = 10_000

// leftOut counts the elements of metrics beyond maxListed, which are not listed.
// Sums and tables include them.
type leftOut struct {
	Collectives  int `json:"collectives"`
	CriticalPath int `json:"critical_path_steps"`
}

// truncateList cuts a list to maxListed elements and returns the number that it cut.
func truncateList[T any](list *[]T) (more int) {
	more = max(0, len(*list)-maxListed)
	*list = (*list)[:len(*list)-more]
	return more
}

type ledgerEntry struct {
	Action    string  `json:"action"`
	File      string  `json:"file"`
	Reason    string  `json:"reason"`
	Count     int     `json:"count"`
	Unit      string  `json:"unit"`
	Positions []int64 `json:"positions"` // of the first
}

func (a *app) inspect(o inspectOptions) error {
	// The run and its workload live to the end and have few pointers: collecting
	// garbage early costs little time and saves as much memory as they take.
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	run, err := a.One(o.path, o.machine)
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // temporary memory of the reader
	debug.SetGCPercent(10)
	corrections, err := input.ReadCorrections(o.dataflow)
	if err != nil {
		return err
	}
	done := a.Waiting(func() string { return "finding operations and what they wait for" }, nil)
	w, err := lift.Workload(run, lift.Options{Dataflow: corrections})
	done()
	if err != nil {
		return input.LiftError(o.path, err)
	}
	debug.FreeOSMemory() // temporary memory of lifting
	on := input.KnownMachine(w)
	if o.machine != "" && !input.IsYAML(o.path) {
		m, err := a.MachineFor(o.machine, w)
		if err != nil {
			return err
		}
		if note := lift.GuessSizes(w, &m); note != "" {
			w.Notes = append(w.Notes, note)
		}
		on = &m
	}
	s, m, steps := summary.Of(w), overlap.Measure(run), plan.MeasuredSteps(w)
	times, late := steps.Times(run, 0), steps.WaitedFor(run)
	if o.format == "json" {
		left := leftOut{truncateList(&m.Collectives), truncateList(&m.CriticalPath.Steps)}
		r := inspected{Schema: schema.Version, Workload: s, Metrics: m, Times: times, Late: late, Flows: summary.Flows(w), Spans: map[string]int{}, LeftOut: left}
		for _, sp := range run.Spans {
			r.Spans[sp.Kind.String()]++
		}
		for _, e := range run.Ledger.Entries {
			r.Ledger = append(r.Ledger, ledgerEntry{e.Action.String(), e.File, e.Reason, e.Count, e.Unit, e.Positions})
		}
		return schema.WriteJSON(a.Out, r)
	}
	v := inspection{app: a, inspectOptions: o, workload: w, summary: s, metrics: &m, machine: on, times: times, late: late}
	v.print()
	return nil
}

// An inspection is a trace, and what is printed of it.
type inspection struct {
	*app
	inspectOptions
	workload *workload.Workload
	summary  summary.Summary
	metrics  *overlap.Metrics
	machine  *machine.Machine  // nil: unknown
	times    []overlap.Times   // of an iteration, by rank row
	late     *overlap.LateRank // the one that others wait for; nil: none
}

// print prints the answer, then the tables behind it.
func (v *inspection) print() {
	v.printAnswer()
	if len(v.workload.Ops) > 0 {
		v.printCollectives()
		v.printKernels()
		v.printPairs()
		v.printRanks()
		v.printSteps()
		if v.all {
			v.printDependencies()
		}
	}
	if v.explain {
		v.explainMetrics()
	}
	fmt.Fprintln(v.Out)
	if len(v.workload.Ops) > 0 && !v.all {
		v.dependenciesText()
	}
	v.printLedger(v.workload.Run, v.ledger)
}

// printAnswer prints what bounds the step, who is waited for, and what to do next.
func (v *inspection) printAnswer() {
	s := &v.summary
	title := plain.Line(s.Name) + " · " + v.ranksText()
	if took := v.iterationsText(); took != "" {
		title += " · " + took
	}
	v.Say(title)
	if len(v.workload.Ops) == 0 {
		v.Labelled("bound by", "nothing: the trace has no kernel and no copy of a GPU")
	} else {
		v.Labelled("bound by", v.boundText())
		if waits := v.waitingText(); waits != "" {
			v.Labelled("waiting", waits)
		}
		fmt.Fprintf(v.Out, "%-10s%s\n", "next", plain.Line(v.nextCommand())) // in one line, to be pasted
	}
	for _, n := range s.Notes {
		if len(v.workload.Ops) > 0 || n != lift.NoDeviceOperation {
			v.Labelled("note", n)
		}
	}
}

// ranksText is how many ranks were captured, and on what.
func (v *inspection) ranksText() string {
	s := &v.summary
	ranks := words.Counted(s.World, "rank")
	if s.Captured < s.World {
		ranks = fmt.Sprintf("%d of %s captured", s.Captured, ranks)
	}
	if device := v.workload.Run.Ranks[0].Device.Name; device != "" {
		ranks += " on " + device
	}
	if s.Estimated {
		ranks += ", none captured"
	}
	return plain.Line(ranks)
}

// iterationsText is how many iterations there are, and how long one takes.
func (v *inspection) iterationsText() string {
	took := words.Micros(plan.MeasuredStepTime(v.workload))
	switch n := workload.Iterations(v.workload); {
	case len(v.workload.Ops) == 0:
		return ""
	case n == 0:
		return took + " in all, no step is marked"
	default:
		return fmt.Sprintf("%s of %s", words.Counted(n, "iteration"), took)
	}
}

// A share is a part of the ranks' time.
type share struct {
	of   string
	time trace.Time
}

// boundText says what an iteration consists of, the largest part first.
func (v *inspection) boundText() string {
	sum := overlap.MeanOf(v.times)
	if sum.Total() == 0 {
		return "nothing: the device work takes no time"
	}
	transfer := "transfer"
	if v.blind() {
		transfer = "transfer and waiting"
	}
	host := trace.Time(float64(sum.Idle) * v.hostShare())
	parts := []share{
		{"compute", sum.Compute},
		{transfer, sum.Transfer},
		{"waiting for ranks", sum.Waiting},
		{"host", host},
		{"copies", sum.Copies},
		{"other idle time", sum.Idle - host},
	}
	slices.SortStableFunc(parts, func(a, b share) int { return cmp.Compare(b.time, a.time) })
	var list []string
	for _, p := range parts {
		if part := 100 * float64(p.time) / float64(sum.Total()); part >= 0.05 {
			list = append(list, fmt.Sprintf("%s %.1f %%", p.of, part))
		}
	}
	line := strings.Join(list, ", ")
	whole := v.metrics.Sum()
	switch p, ok := whole.OverlapPercent(); {
	case ok:
		line += fmt.Sprintf("; %.0f %% of communication is hidden behind compute", p)
	case len(v.summary.Collectives) == 0:
		line += "; nothing to overlap, as the trace has no communication"
	}
	return line
}

// hostShare is the part of idle time in which the device had nothing to do, as the host had
// not launched it yet.
func (v *inspection) hostShare() float64 {
	var host, all trace.Time
	for _, r := range v.metrics.Ranks {
		c := r.IdleCauses
		host, all = host+c.Host+c.Sync+c.Launch, all+c.Host+c.Sync+c.Launch+c.Queued+c.Unknown
	}
	return float64(host) / float64(max(1, all))
}

// blind reports whether no waiting can be told from transfer, as the ranks that were waited
// for were not captured.
func (v *inspection) blind() bool {
	return v.summary.Captured < v.summary.World && len(v.summary.Collectives) > 0 && overlap.MeanOf(v.times).Waiting == 0
}

// leastWaiting is the share of an iteration below which waiting is not worth a line.
const leastWaiting = 0.005

// waitingText names the rank that others wait for, and what takes it longer; "" if nobody
// waits long.
func (v *inspection) waitingText() string {
	unaligned := slices.ContainsFunc(v.workload.Run.Ranks, func(r trace.Rank) bool { return r.Uncertainty == trace.None })
	switch {
	case v.blind():
		return "unknown, as the other ranks were not captured: capture all ranks of one step"
	case unaligned && len(v.summary.Collectives) > 0:
		return "unknown, as the clocks of the ranks cannot be aligned: no collective that all of them join was matched"
	case v.late == nil || v.late.Share < leastWaiting:
		return ""
	}
	return fmt.Sprintf("rank %d: %s", v.late.Rank, verdict.LateText(v.late))
}

// nextCommand is the command to run next, as it can be pasted.
func (v *inspection) nextCommand() string {
	path := words.ShellWord(v.path)
	if paths := v.Inputs[v.path]; paths != nil {
		path = words.ShellWords(paths)
	}
	if len(v.summary.Collectives) == 0 && len(v.summary.Pairs) == 0 {
		return "overlapse view " + path
	}
	command := "overlapse replay " + path
	switch {
	case v.inspectOptions.machine != "":
		command += " --machine " + words.ShellWord(v.inspectOptions.machine)
	case v.machine == nil:
		name, why := input.Likely(v.workload)
		command += fmt.Sprintf(" --machine %s  # %s", name, why)
	}
	return command
}

// printCollectives prints collectives by kind and size class, with their bandwidths.
func (v *inspection) printCollectives() {
	if len(v.summary.Collectives) == 0 {
		return
	}
	title := "collectives (bandwidths in GB/s, as nccl-tests defines them"
	if v.machine != nil {
		if rate := v.machine.LinkRate(v.summary.World); rate > 0 && v.machine.Nodes() == 1 {
			title += fmt.Sprintf("; links of %s: %.0f out of a GPU", v.machine.Name, rate/1e9)
		}
	}
	title += ")"
	all := v.summary.Collectives
	several := slices.ContainsFunc(all, func(c summary.CollectiveSummary) bool { return c.Group != all[0].Group })
	columns := []string{"operation", "size", "group", "ranks", "count", "transfer", "algbw", "busbw", "of links", "waiting"}
	if v.all {
		columns = append(columns, "channels", "matched by")
	}
	t := console.Table{Title: title, Columns: columns, Top: v.top}
	for _, c := range all {
		group := ""
		if several {
			group = words.Shorten(c.Group, 14)
		}
		algorithm, bus, links, waiting := "", "", "", ""
		if c.Bus > 0 && !c.Guessed {
			algorithm, bus = fmt.Sprintf("%.1f", c.Algorithm/1e9), fmt.Sprintf("%.1f", c.Bus/1e9)
			if v.machine != nil && v.machine.Nodes() == 1 && v.machine.LinkRate(c.Ranks) > 0 {
				links = fmt.Sprintf("%.0f %%", 100*c.Bus/v.machine.LinkRate(c.Ranks))
			}
		}
		if !v.blind() && c.Ranks > 1 {
			waiting = fmt.Sprintf("%.0f %%", 100*c.Waiting)
		}
		t.Add(c.Op, sizesOf(c), group, c.Ranks, c.Count, c.TransferNs, algorithm, bus, links, waiting, c.Channels, c.Evidence)
	}
	v.Show(&t)
}

// sizesOf is the size of a class of collectives: its only size, or the smallest and the largest.
func sizesOf(c summary.CollectiveSummary) string {
	size := sizeOrUnknown(c.Bytes, c.Op != trace.Barrier.String())
	if most := layout.Bytes(c.MostBytes); most != size && c.MostBytes > c.Bytes {
		least, unit, _ := strings.Cut(size, " ")
		if strings.HasSuffix(most, " "+unit) {
			size = least
		}
		size += " to " + most
	}
	if c.Guessed && c.Bytes > 0 {
		size = "≤ " + size
	}
	return size
}

// printKernels prints the kernels and copies that take most time. Without --all, those of one
// name and shape are one row, whatever their grids.
func (v *inspection) printKernels() {
	ks, whole := v.summary.Kernels, v.metrics.Sum().Total
	if len(ks) == 0 {
		return
	}
	columns := []string{"kernel", "count", "total", "of time", "mean", "shape"}
	if v.all {
		columns = append(columns, "WGs", "tiles", "schedule")
	} else {
		ks = merged(ks)
	}
	names := kernelNames(ks)
	t := console.Table{Title: "kernels and copies", Columns: columns, Top: v.top}
	for i, k := range ks {
		tiles := ""
		if k.Tile != "" {
			tiles = fmt.Sprintf("%d of %s", k.Tiles, k.Tile)
		}
		t.Add(names[i], k.Count, k.TotalNs, words.ShareOf(k.TotalNs, whole), k.TotalNs/trace.Time(k.Count), k.Shape, k.Workgroups, tiles, k.Schedule)
	}
	v.Show(&t)
}

// merged joins kernels of the same name and shape; the longest in total come first.
func merged(ks []summary.KernelSummary) (joined []summary.KernelSummary) {
	at := map[[2]string]int{}
	for _, k := range ks {
		key := [2]string{k.Name, k.Shape}
		i, ok := at[key]
		if !ok {
			i = len(joined)
			at[key], joined = i, append(joined, summary.KernelSummary{Name: k.Name, Shape: k.Shape})
		}
		joined[i].Count, joined[i].TotalNs = joined[i].Count+k.Count, joined[i].TotalNs+k.TotalNs
	}
	slices.SortStableFunc(joined, func(a, b summary.KernelSummary) int { return cmp.Compare(b.TotalNs, a.TotalNs) })
	return joined
}

// nameWidth is the longest name of a kernel in a table.
const nameWidth = 28

// kernelNames are short names of kernels. One that would look like another shows where its
// full name begins to differ from the most similar one.
func kernelNames(ks []summary.KernelSummary) []string {
	shown := func(k summary.KernelSummary) string { return words.Middle(layout.ShortName(k.Name), nameWidth) }
	alike := map[[2]string][]string{} // full names, by what is shown
	for _, k := range ks {
		key := [2]string{shown(k), k.Shape}
		if !slices.Contains(alike[key], k.Name) {
			alike[key] = append(alike[key], k.Name)
		}
	}
	names := make([]string, len(ks))
	for i, k := range ks {
		names[i] = shown(k)
		all := alike[[2]string{names[i], k.Shape}]
		if len(all) < 2 {
			continue
		}
		at := 0 // where it differs from the most similar one
		for _, other := range all {
			n := 0
			for other != k.Name && n < min(len(k.Name), len(other)) && k.Name[n] == other[n] {
				n++
			}
			at = max(at, n)
		}
		rest := strings.ToValidUTF8(k.Name[at:], "")
		name := words.Shorten(layout.ShortName(k.Name), nameWidth/2)
		names[i] = name + " …" + words.Shorten(rest, max(2, nameWidth-2-len([]rune(name))))
	}
	return names
}

// printPairs prints the pairs that strategies can overlap.
func (v *inspection) printPairs() {
	ps := v.summary.Pairs
	if len(ps) == 0 {
		return
	}
	columns := []string{"pair", "kind", "first", "second", "size", "count", "sure"}
	if v.all {
		columns = append(columns, "evidence")
	}
	t := console.Table{Title: "pairs (numbers for --pair)", Columns: columns, Top: v.top}
	for _, p := range ps {
		size := ""
		if p.Direction != workload.ComputeThenCompute.String() {
			size = sizeOrUnknown(p.Bytes, true)
		}
		t.Add(p.Number, p.Direction, words.Middle(layout.ShortName(p.First), 22), words.Middle(layout.ShortName(p.Second), 22),
			size, p.Count, fmt.Sprintf("%.0f %%", 100*p.Confidence), strings.Join(p.Evidence, "; "))
	}
	v.Show(&t)
}

// printRanks prints what the time of each captured rank goes to.
func (v *inspection) printRanks() {
	run, m := v.workload.Run, v.metrics
	names := make([]int, len(run.Ranks)) // by row: the trace need not say which rank it is
	copies := 0
	for _, r := range v.summary.Ranks {
		if r.CopyOf == nil {
			names[v.workload.Rows[r.Rank]] = r.Rank
		} else {
			copies++
		}
	}
	title, transfer := "ranks: where the time goes", "transfer"
	if workload.Iterations(v.workload) > 0 {
		title = "ranks: where the time of an iteration goes"
	}
	if v.blind() {
		transfer = "transfer and waiting"
	}
	columns := []string{"rank", "device", "compute", transfer, "waiting", "copies", "idle", "hidden", "idle waits for"}
	if v.all {
		columns = append(columns, "clock ±", "file")
	}
	rows := console.Table{Title: title, Columns: columns, OneUnit: true, Top: v.top}
	for i := range m.Ranks {
		r, hidden, device := &m.Ranks[i], "", ""
		if p, ok := r.OverlapPercent(); ok {
			hidden = fmt.Sprintf("%.1f %%", p)
		}
		if slices.ContainsFunc(run.Ranks, func(x trace.Rank) bool { return x.Device.Name != run.Ranks[0].Device.Name }) {
			device = run.Ranks[i].Device.Name
		}
		t := v.times[i]
		rows.Add(fmt.Sprint(names[i]), device, t.Compute, t.Transfer, t.Waiting, t.Copies, t.Idle, hidden, idleWait(r.IdleCauses),
			uncertainty(run.Ranks[i].Uncertainty), run.Ranks[i].Source)
	}
	v.Show(&rows)
	if copies > 0 {
		fmt.Fprintf(v.Out, " and %s that no file has: copies of these\n", words.Counted(copies, "rank"))
	}
}

// printSteps prints the time of every step.
func (v *inspection) printSteps() {
	if !v.all || len(v.summary.Steps) == 0 {
		return
	}
	t := console.Table{Title: "steps", Columns: []string{"step", "operations", "from", "median over ranks"}, Top: v.top}
	for _, st := range v.summary.Steps {
		t.Add(st.Name, st.Ops, st.StartNs, st.MedianNs)
	}
	v.Show(&t)
}

// sizeOrUnknown is a number of bytes; "unknown" for 0 where bytes are moved.
func sizeOrUnknown(bytes int64, moves bool) string {
	if bytes == 0 && moves {
		return "unknown"
	}
	return layout.Bytes(bytes)
}

// mostReasons is how many reasons of damage are printed without --ledger.
const mostReasons = 3

// printLedger prints how many events were skipped, repaired or noted, with the reasons for
// those skipped or repaired; all: every entry.
func (a *app) printLedger(run *trace.Run, all bool) {
	l := &run.Ledger
	if len(l.Entries) == 0 {
		return
	}
	if !all {
		a.Labelled("ledger", fmt.Sprintf("%d events skipped, %d repaired, %d noted (--ledger lists them)",
			l.Count(trace.Skipped), l.Count(trace.Repaired), l.Count(trace.Noted)))
		shown := 0
		for _, e := range l.Entries {
			if e.Action != trace.Noted && shown < mostReasons {
				a.Labelled("", fmt.Sprintf("%d %s: %s", e.Count, e.Action, e.Reason))
				shown++
			}
		}
		return
	}
	t := console.Table{Title: "ledger", Columns: []string{"action", "count", "reason", "file", "first at"}}
	for _, e := range l.Entries {
		var at []string
		for i, p := range e.Positions {
			if i == 3 {
				at = append(at, "…")
				break
			}
			at = append(at, fmt.Sprint(p))
		}
		t.Add(e.Action.String(), e.Count, words.Shorten(e.Reason, 80), e.File, e.Unit+" "+strings.Join(at, ", "))
	}
	a.Show(&t)
}

// idleWait is what most of a rank's idle time waits for; "" without idle time.
func idleWait(c overlap.Causes) string {
	parts := c.Parts()
	if len(parts) == 0 {
		return ""
	}
	all := trace.Time(0)
	for _, p := range parts {
		all += p.Time
	}
	most := slices.MaxFunc(parts, func(a, b overlap.Part) int { return cmp.Compare(a.Time, b.Time) })
	return fmt.Sprintf("%s %.0f %%", most.Name, 100*float64(most.Time)/float64(all))
}

// explainMetrics prints the definition of every figure.
func (a *app) explainMetrics() {
	fmt.Fprintln(a.Out)
	for _, d := range overlap.Explain() {
		fmt.Fprintf(a.Out, "%s: %s\n", d.Term, d.Meaning)
	}
}

// uncertainty formats the alignment error of a rank's clock against the first rank's.
func uncertainty(t trace.Time) string {
	if t == trace.None {
		return "unknown"
	}
	return words.Micros(t)
}

// dependenciesText says in a line how much of the dataflow is recorded.
func (v *inspection) dependenciesText() {
	for _, e := range v.workload.Run.Ledger.Entries {
		if strings.Contains(e.Reason, "execution trace ") && strings.Contains(e.Reason, "ignored") {
			v.Labelled("note", e.File+": "+e.Reason)
		}
	}
	s := summary.Flows(v.workload)
	total, guessed := len(v.workload.Ops), s.Operations["guessed"]
	n, how := total-guessed, "recorded (--all counts them)"
	if 2*guessed > total {
		n, how = guessed, "guessed (--all says how to record them)"
	}
	v.Labelled("depends", fmt.Sprintf("dependencies of %d of %s are %s", n, words.Counted(total, "operation"), how))
}

// printDependencies prints the dataflow graph in numbers.
func (v *inspection) printDependencies() {
	s := summary.Flows(v.workload)
	edges := 0
	for _, n := range s.Edges {
		edges += n
	}
	t := console.Table{Title: "dependencies", Columns: []string{
		"operations", "exact", "annotated", "guessed", "given", "edges",
		"of these by stream order only", "more by reused memory", "longest chain", "its operations",
	}}
	guessed := s.Operations["guessed"]
	t.Add(len(v.workload.Ops), s.Operations["exact"], s.Operations["annotated"], guessed, s.Operations["given"],
		edges, s.Edges[workload.StreamOnly.String()], s.Reused, s.ChainNs, s.ChainOps)
	v.Show(&t)
	if 2*guessed > len(v.workload.Ops) {
		fmt.Fprintln(v.Out, strings.Join([]string{
			"Most dependencies are guessed from streams, events and names. To record them, profile one more step with",
			"torch.profiler.profile(execution_trace_observer=torch.profiler.ExecutionTraceObserver().register_callback(\"et/rank0.et.json\")),",
			"export its trace to et/rank0.json, and keep the folder et beside these files.",
		}, "\n"))
	}
}
