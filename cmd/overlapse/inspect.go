package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/plain"
)

// inspectOptions are the flags of `overlapse inspect`.
type inspectOptions struct {
	path   string
	format string
	ledger bool

	dataflow string // a file of corrections

	compat  string
	explain bool
}

func (a *app) inspectCommand() *cobra.Command {
	var o inspectOptions
	c := &cobra.Command{
		Use:   "inspect PATH...",
		Short: "Show the contents of a trace: ranks, kernels, collectives, pairs and the evidence for them",
		Long: `Reads a trace and prints its contents: ranks and devices; kernels with shapes and
tiles; collectives matched across ranks, with transfer time and arrival skew; the pairs
of computation and communication that a strategy can overlap, with the evidence for
each; how many operations have known dependencies of data; and the assumptions of the
reader.`,
		Example: `  overlapse inspect samples/moe-ep4
  overlapse inspect samples/moe-ep4 --ledger
  overlapse inspect samples/moe-ep4 --format json | jq .workload.pairs`,
		Args: tracePaths,
		RunE: func(_ *cobra.Command, args []string) error {
			o.path = a.input(args)
			return a.inspect(o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.format, "format", "table", "table or json")
	f.BoolVar(&o.ledger, "ledger", false, "also list the events that were skipped, repaired or noted, with file, position and reason")
	f.StringVar(&o.compat, "compat", "", "use the metric definitions of another tool: hta, hta-last or tracelens")
	dataflowFlag(c, &o.dataflow)
	a.outsideFlag(c)
	f.BoolVar(&o.explain, "explain", false, "also print the definition of every metric")
	return c
}

// An inspected is the JSON form.
type inspected struct {
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
	if err := choice("format", o.format, "table", "json"); err != nil {
		return err
	}
	if o.compat != "" {
		if err := choice("compat", o.compat, "hta", "hta-last", "tracelens"); err != nil {
			return err
		}
	}
	// The run and its workload live to the end and have few pointers: collecting
	// garbage early costs little time and saves as much memory as they take.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	run, err := a.one(o.path)
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // temporary memory of the reader
	debug.SetGCPercent(5)
	corrections, err := readCorrections(o.dataflow)
	if err != nil {
		return err
	}
	w, err := workload.Lift(run, workload.Options{Dataflow: corrections})
	if err != nil {
		return liftError(o.path, err)
	}
	debug.FreeOSMemory() // temporary memory of lifting
	s, m := w.Summary(), overlap.Measure(run)
	if o.format == "json" {
		left := leftOut{truncateList(&m.Collectives), truncateList(&m.CriticalPath.Steps)}
		r := inspected{Workload: s, Metrics: m, Flows: w.Flows(), Spans: map[string]int{}, LeftOut: left}
		if o.compat != "" {
			r.Compat = overlap.Compat(run, overlap.Tool(o.compat))
		}
		for _, sp := range run.Spans {
			r.Spans[sp.Kind.String()]++
		}
		for _, e := range run.Ledger.Entries {
			r.Ledger = append(r.Ledger, ledgerEntry{e.Action.String(), e.File, e.Reason, e.Count, e.Unit, e.Positions})
		}
		return writeJSON(a.out, r)
	}
	a.printSummary(s, run)
	a.printDependencies(w)
	a.printMetrics(run, &m, o.compat)
	if o.explain {
		a.explainMetrics(o.compat)
	}
	a.printLedger(run, o.ledger)
	return nil
}

func (a *app) printSummary(s workload.Summary, run *trace.Run) {
	captured := fmt.Sprintf("%d of %d ranks captured", s.Captured, s.World)
	if s.Estimated {
		captured = fmt.Sprintf("%d ranks, none captured", s.World)
	}
	fmt.Fprintf(a.out, "%s: %s, %d spans, %s\n", plain.Line(s.Name), captured, len(run.Spans), micros(run.End))
	for _, n := range s.Notes {
		fmt.Fprintf(a.out, "note: %s\n", plain.Line(n))
	}
	t := a.section("ranks", "rank", "device", "operations", "queues", "from", "to", "clock alignment ±", "source")
	for _, r := range s.Ranks {
		source := r.Source
		if r.CopyOf != nil {
			source = fmt.Sprintf("copy of rank %d", *r.CopyOf)
		}
		t.AppendRow(table.Row{r.Rank, r.Device, r.Ops, r.Queues, micros(r.StartNs), micros(r.EndNs), uncertainty(r.UncertaintyNs), source})
	}
	t.Render()
	t = a.section("kernels and copies", "kernel", "count", "total", "median", "shape", "WGs", "tiles", "schedule")
	for _, k := range s.Kernels {
		tiles := ""
		if k.Tile != "" {
			tiles = fmt.Sprintf("%d of %s", k.Tiles, k.Tile)
		}
		t.AppendRow(table.Row{shorten(k.Name, 50), k.Count, micros(k.TotalNs), micros(k.MedianNs), k.Shape, k.Workgroups, tiles, k.Schedule})
	}
	t.Render()
	if len(s.Collectives) > 0 {
		t = a.section("collectives", "operation", "size", "group", "ranks", "channels", "count", "transfer", "arrival skew", "max skew")
		for _, c := range s.Collectives {
			t.AppendRow(table.Row{c.Op, sizeOrUnknown(c.Bytes, c.Op != trace.Barrier.String()), c.Group, c.Ranks, c.Channels, c.Count, micros(c.TransferNs), micros(c.SkewNs), micros(c.MaxSkewNs)})
		}
		t.Render()
	}
	if len(s.Pairs) > 0 {
		t = a.section("pairs (numbers for --pair)", "pair", "kind", "first", "second", "size", "count", "confidence", "evidence")
		for _, p := range s.Pairs {
			t.AppendRow(table.Row{
				p.Number, p.Direction, shorten(p.First, 28), shorten(p.Second, 28), sizeOrUnknown(p.Bytes, p.Direction != workload.ComputeThenCompute.String()), p.Count,
				fmt.Sprintf("%.0f %%", 100*p.Confidence), strings.Join(p.Evidence, "; "),
			})
		}
		t.Render()
	}
	if len(s.Steps) > 0 {
		t = a.section("steps", "step", "operations", "from", "median over ranks")
		for _, st := range s.Steps {
			t.AppendRow(table.Row{st.Name, st.Ops, micros(st.StartNs), micros(st.MedianNs)})
		}
		t.Render()
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
	fmt.Fprintf(a.out, "\nledger: %d events skipped, %d repaired, %d noted", l.Count(trace.Skipped), l.Count(trace.Repaired), l.Count(trace.Noted))
	if !all {
		fmt.Fprintln(a.out, " (--ledger lists them)")
		return
	}
	fmt.Fprintln(a.out)
	t := a.table("action", "count", "reason", "file", "first at")
	for _, e := range l.Entries {
		var at []string
		for i, p := range e.Positions {
			if i == 3 {
				at = append(at, "…")
				break
			}
			at = append(at, fmt.Sprint(p))
		}
		t.AppendRow(table.Row{e.Action, e.Count, shorten(e.Reason, 80), e.File, e.Unit + " " + strings.Join(at, ", ")})
	}
	t.Render()
}

// printMetrics prints the time breakdown of each rank, with overlapse's definitions or another tool's.
func (a *app) printMetrics(run *trace.Run, m *overlap.Metrics, compat string) {
	title := "time breakdown"
	parts := make([]overlap.Breakdown, len(m.Ranks))
	for i, r := range m.Ranks {
		parts[i] = r.Breakdown
	}
	if compat != "" {
		title += ", as defined by " + compat
		parts = overlap.Compat(run, overlap.Tool(compat))
	}
	t := a.section(title, "rank", "total", "compute", "communication", "overlapped", "overlap", "exposed", "exposed copies", "idle", "idle: waiting for")
	for i, b := range parts {
		percent := "-"
		if p, ok := b.OverlapPercent(); ok {
			percent = fmt.Sprintf("%.2f %%", p)
		}
		t.AppendRow(table.Row{
			m.Ranks[i].Rank, micros(b.Total), micros(b.Compute), micros(b.Communication), micros(b.Overlapped), percent,
			micros(b.Exposed), micros(b.ExposedCopy), micros(b.Idle), idleWaits(m.Ranks[i].IdleCauses),
		})
	}
	t.Render()
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
	fmt.Fprintln(a.out)
	for _, d := range overlap.Explain() {
		fmt.Fprintf(a.out, "%s: %s\n", d.Term, d.Meaning)
	}
	if compat != "" {
		fmt.Fprintf(a.out, "%s: %s\n", compat, overlap.Tool(compat).Definition())
	}
}
