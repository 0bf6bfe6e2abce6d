package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/inputs"
	"github.com/overlapse/overlapse/cmd/overlapse/schema"
	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/cmd/overlapse/usage"
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

	dataflow string // a file of corrections

	compat  string
	explain bool
	top     int
}

func (a *app) inspectCommand() *cobra.Command {
	var o inspectOptions
	c := &cobra.Command{
		Use:   "inspect PATH...",
		Short: "Show the contents of a trace: ranks, kernels, collectives, pairs and the evidence for them",
		Long: `Reads a trace and prints its contents: a summary; ranks and devices; kernels with shapes and
tiles; collectives matched across ranks, with transfer time and arrival skew; the pairs
of computation and communication that a strategy can overlap, with the evidence for
each; how many operations have known dependencies of data; and the assumptions of the
reader.`,
		Example: `  overlapse inspect samples/moe-ep4
  overlapse inspect samples/moe-ep4 --ledger
  overlapse inspect samples/moe-ep4 --format json | jq .workload.pairs`,
		Args: tracePaths,
		RunE: func(_ *cobra.Command, args []string) error {
			o.path = a.Input(args)
			return a.inspect(o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.machine, "machine", "", "machine that unknown sizes of collectives are estimated for, or that a workload file runs on; default: sizes stay unknown, and the machine that the workload file names")
	usage.ChoiceFlag(c, &o.format, "format", "table", "table or json", "table", "json")
	f.BoolVar(&o.ledger, "ledger", false, "also list the events that were skipped, repaired or noted, with file, position and reason")
	usage.ChoiceFlag(c, &o.compat, "compat", "", "use the metric definitions of another tool: hta, hta-last or tracelens", "hta", "hta-last", "tracelens")
	usage.IntFlag(f, &o.top, "top", 10, usage.Range[int]{Most: usage.MaxRows}, "rows of each table; 0: all")
	inputs.DataflowFlag(c, &o.dataflow)
	a.OutsideFlag(c)
	f.BoolVar(&o.explain, "explain", false, "also print the definition of every metric")
	return c
}

// An inspected is the JSON form.
type inspected struct {
	Schema   int                  `json:"schema"`
	Workload workload.Summary     `json:"workload"`
	Metrics  overlap.Metrics      `json:"metrics"`
	Flows    workload.FlowSummary `json:"dependencies"`
	Compat   []overlap.Breakdown  `json:"compat,omitempty"` // by rank row, with the definitions of --compat
	Spans    map[string]int       `json:"spans"`            // by kind
	Ledger   []ledgerEntry        `json:"ledger"`
	LeftOut  leftOut              `json:"left_out"`
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
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	run, err := a.One(o.path, o.machine)
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // temporary memory of the reader
	debug.SetGCPercent(5)
	corrections, err := inputs.ReadCorrections(o.dataflow)
	if err != nil {
		return err
	}
	w, err := workload.Lift(run, workload.Options{Dataflow: corrections})
	if err != nil {
		return inputs.LiftError(o.path, err)
	}
	debug.FreeOSMemory() // temporary memory of lifting
	if o.machine != "" && !inputs.IsYAML(o.path) {
		m, err := a.MachineFor(o.machine, w)
		if err != nil {
			return err
		}
		if note := workload.GuessSizes(w, &m); note != "" {
			w.Notes = append(w.Notes, note)
		}
	}
	s, m := w.Summary(), overlap.Measure(run)
	if o.format == "json" {
		left := leftOut{truncateList(&m.Collectives), truncateList(&m.CriticalPath.Steps)}
		r := inspected{Schema: schema.Version, Workload: s, Metrics: m, Flows: w.Flows(), Spans: map[string]int{}, LeftOut: left}
		if o.compat != "" {
			r.Compat = overlap.Compat(run, overlap.Tool(o.compat))
		}
		for _, sp := range run.Spans {
			r.Spans[sp.Kind.String()]++
		}
		for _, e := range run.Ledger.Entries {
			r.Ledger = append(r.Ledger, ledgerEntry{e.Action.String(), e.File, e.Reason, e.Count, e.Unit, e.Positions})
		}
		return schema.WriteJSON(a.Out, r)
	}
	a.printSummary(s, run, &m)
	a.printMetrics(run, &m, o)
	a.printContents(s, &m, o.top)
	a.printDependencies(w)
	if o.explain {
		a.explainMetrics(o.compat)
	}
	a.printLedger(run, o.ledger)
	return nil
}

// printSummary prints what the tables below say, in a few lines.
func (a *app) printSummary(s workload.Summary, run *trace.Run, m *overlap.Metrics) {
	captured := fmt.Sprintf("%d of %d ranks captured", s.Captured, s.World)
	if s.Estimated {
		captured = fmt.Sprintf("%d ranks, none captured", s.World)
	}
	fmt.Fprintf(a.Out, "%s: %s, %d spans, %s\n", plain.Line(s.Name), captured, len(run.Spans), text.Micros(run.End))
	if sum := m.Sum(); sum.Total > 0 {
		part := func(t trace.Time) float64 { return 100 * float64(t) / float64(sum.Total) }
		fmt.Fprintf(a.Out, "time of the ranks: compute %.1f %%, exposed communication %.1f %%, exposed copies %.1f %%, idle %.1f %%",
			part(sum.Compute), part(sum.Exposed), part(sum.Copies), part(sum.Idle))
		if p, ok := sum.OverlapPercent(); ok {
			fmt.Fprintf(a.Out, "; %.1f %% of communication is overlapped", p)
		}
		fmt.Fprintln(a.Out)
	}
	pairs := 0
	for _, p := range s.Pairs {
		pairs += p.Count
	}
	fmt.Fprintf(a.Out, "%s, %s of collectives, %s of %s, %s\n", text.Counted(len(s.Kernels), "kernel"), text.Counted(len(s.Collectives), "kind"),
		text.Counted(pairs, "pair"), text.Counted(len(s.Pairs), "kind"), text.Counted(len(s.Steps), "step"))
	for _, n := range s.Notes {
		fmt.Fprintf(a.Out, "note: %s\n", plain.Line(n))
	}
}

// printContents prints the tables of what the trace holds, at most top rows of each.
func (a *app) printContents(s workload.Summary, m *overlap.Metrics, top int) {
	t := a.Section("ranks", "rank", "device", "operations", "queues", "from", "to", "clock alignment ±", "source")
	a.AtMost(t, len(s.Ranks), top, func(i int) {
		r, source := s.Ranks[i], s.Ranks[i].Source
		if r.CopyOf != nil {
			source = fmt.Sprintf("copy of rank %d", *r.CopyOf)
		}
		t.AppendRow(table.Row{r.Rank, r.Device, r.Ops, r.Queues, text.Micros(r.StartNs), text.Micros(r.EndNs), uncertainty(r.UncertaintyNs), source})
	})
	var all trace.Time // of kernels and copies
	for _, k := range m.Kernels {
		all += k.Total
	}
	t = a.Section("kernels and copies", "kernel", "count", "total", "share", "median", "shape", "WGs", "tiles", "schedule")
	a.AtMost(t, len(s.Kernels), top, func(i int) {
		k, tiles := s.Kernels[i], ""
		if k.Tile != "" {
			tiles = fmt.Sprintf("%d of %s", k.Tiles, k.Tile)
		}
		t.AppendRow(table.Row{text.Shorten(layout.ShortName(k.Name), 50), k.Count, text.Micros(k.TotalNs), text.ShareOf(k.TotalNs, all), text.Micros(k.MedianNs), k.Shape, k.Workgroups, tiles, k.Schedule})
	})
	if len(s.Collectives) > 0 {
		t = a.Section("collectives", "operation", "size", "group", "ranks", "channels", "count", "transfer", "arrival skew", "max skew")
		a.AtMost(t, len(s.Collectives), top, func(i int) {
			c := s.Collectives[i]
			t.AppendRow(table.Row{c.Op, sizeOrUnknown(c.Bytes, c.Op != trace.Barrier.String()), c.Group, c.Ranks, c.Channels, c.Count, text.Micros(c.TransferNs), text.Micros(c.SkewNs), text.Micros(c.MaxSkewNs)})
		})
	}
	if len(s.Pairs) > 0 {
		t = a.Section("pairs (numbers for --pair)", "pair", "kind", "first", "second", "size", "count", "confidence", "evidence")
		a.AtMost(t, len(s.Pairs), top, func(i int) {
			p := s.Pairs[i]
			t.AppendRow(table.Row{
				p.Number, p.Direction, text.Shorten(layout.ShortName(p.First), 28), text.Shorten(layout.ShortName(p.Second), 28), sizeOrUnknown(p.Bytes, p.Direction != workload.ComputeThenCompute.String()), p.Count,
				fmt.Sprintf("%.0f %%", 100*p.Confidence), strings.Join(p.Evidence, "; "),
			})
		})
	}
	if len(s.Steps) > 0 {
		t = a.Section("steps", "step", "operations", "from", "median over ranks")
		a.AtMost(t, len(s.Steps), top, func(i int) {
			st := s.Steps[i]
			t.AppendRow(table.Row{st.Name, st.Ops, text.Micros(st.StartNs), text.Micros(st.MedianNs)})
		})
	}
}

// sizeOrUnknown is a number of bytes; "unknown" for 0 where bytes are moved.
func sizeOrUnknown(bytes int64, moves bool) string {
	if bytes == 0 && moves {
		return "unknown"
	}
	return layout.Bytes(bytes)
}

func (a *app) printLedger(run *trace.Run, all bool) {
	l := &run.Ledger
	fmt.Fprintf(a.Out, "\nledger: %d events skipped, %d repaired, %d noted", l.Count(trace.Skipped), l.Count(trace.Repaired), l.Count(trace.Noted))
	if !all {
		fmt.Fprintln(a.Out, " (--ledger lists them)")
		return
	}
	fmt.Fprintln(a.Out)
	t := a.Table("action", "count", "reason", "file", "first at")
	for _, e := range l.Entries {
		var at []string
		for i, p := range e.Positions {
			if i == 3 {
				at = append(at, "…")
				break
			}
			at = append(at, fmt.Sprint(p))
		}
		t.AppendRow(table.Row{e.Action, e.Count, text.Shorten(e.Reason, 80), e.File, e.Unit + " " + strings.Join(at, ", ")})
	}
	t.Render()
}

// printMetrics prints the time breakdown of each rank, with overlapse's definitions or another tool's.
func (a *app) printMetrics(run *trace.Run, m *overlap.Metrics, o inspectOptions) {
	compat := o.compat
	title := "time breakdown"
	parts := make([]overlap.Breakdown, len(m.Ranks))
	for i, r := range m.Ranks {
		parts[i] = r.Breakdown
	}
	if compat != "" {
		title += ", as defined by " + compat
		parts = overlap.Compat(run, overlap.Tool(compat))
	}
	t := a.Section(title, "rank", "total", "overlap", "exposed", "exposed %", "idle", "idle %", "compute", "communication", "overlapped", "exposed copies", "idle: waiting for")
	a.AtMost(t, len(parts), o.top, func(i int) {
		b, percent := parts[i], "-"
		if p, ok := b.OverlapPercent(); ok {
			percent = fmt.Sprintf("%.2f %%", p)
		}
		t.AppendRow(table.Row{
			m.Ranks[i].Rank, text.Micros(b.Total), percent, text.Micros(b.Exposed), text.ShareOf(b.Exposed, b.Total), text.Micros(b.Idle), text.ShareOf(b.Idle, b.Total),
			text.Micros(b.Compute), text.Micros(b.Communication), text.Micros(b.Overlapped), text.Micros(b.Copies), idleWaits(m.Ranks[i].IdleCauses),
		})
	})
}

// idleWaits lists what idle time waited for, the causes of at least a tenth of it.
func idleWaits(c overlap.Causes) string {
	all := c.Host + c.Sync + c.Launch + c.Queued + c.Unknown
	var words []string
	for _, x := range c.Parts() {
		if x.Time*10 >= all {
			words = append(words, fmt.Sprintf("%s %.0f %%", x.Name, 100*float64(x.Time)/float64(all)))
		}
	}
	return strings.Join(words, ", ")
}

// explainMetrics prints the definition of every figure.
func (a *app) explainMetrics(compat string) {
	fmt.Fprintln(a.Out)
	for _, d := range overlap.Explain() {
		fmt.Fprintf(a.Out, "%s: %s\n", d.Term, d.Meaning)
	}
	if compat != "" {
		fmt.Fprintf(a.Out, "%s: %s\n", compat, overlap.Tool(compat).Definition())
	}
}

// uncertainty formats the alignment error of a rank's clock against the first rank's.
func uncertainty(t trace.Time) string {
	if t == trace.None {
		return "unknown"
	}
	return text.Micros(t)
}

// printDependencies prints the dataflow graph in numbers.
func (a *app) printDependencies(w *workload.Workload) {
	s := w.Flows()
	total := 0
	for _, n := range s.Operations {
		total += n
	}
	if total == 0 {
		return
	}
	t := a.Section("dependencies", "operations", "exact", "annotated", "guessed", "given", "edges", "of these by stream order only", "more by reused memory", "longest chain", "of step")
	edges := 0
	for _, n := range s.Edges {
		edges += n
	}
	chain := fmt.Sprintf("%s, %d operations", text.Micros(s.ChainNs), s.ChainOps)
	if s.ChainNs == 0 {
		chain = "unknown"
	}
	t.AppendRow([]any{
		total, s.Operations["exact"], s.Operations["annotated"], s.Operations["guessed"], s.Operations["given"],
		edges, s.Edges[workload.StreamOnly.String()], s.Reused, chain, text.Micros(s.StepNs),
	})
	t.Render()
	for _, e := range w.Run.Ledger.Entries {
		if strings.Contains(e.Reason, "execution trace ") && strings.Contains(e.Reason, "ignored") {
			fmt.Fprintf(a.Out, "note: %s: %s\n", plain.Line(e.File), plain.Line(e.Reason))
		}
	}
	if guessed := s.Operations["guessed"]; 2*guessed > total {
		fmt.Fprintln(a.Out, strings.Join([]string{
			"Most dependencies are guessed from streams, events and names. To record them, profile one more step with",
			"torch.profiler.profile(execution_trace_observer=torch.profiler.ExecutionTraceObserver().register_callback(\"et/rank0.et.json\")),",
			"export its trace to et/rank0.json, and keep the folder et beside these files.",
		}, "\n"))
	}
}
