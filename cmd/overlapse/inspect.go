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
	"github.com/overlapse/overlapse/viz/plain"
)

// inspectOptions are the flags of `overlapse inspect`.
type inspectOptions struct {
	path   string
	format string
	ledger bool

	compat  string
	explain bool
}

func (a *app) inspectCommand() *cobra.Command {
	var o inspectOptions
	c := &cobra.Command{
		Use:   "inspect PATH...",
		Short: "Show what a trace holds: ranks, kernels, collectives, pairs and the evidence for them",
		Long: `Reads a trace and prints what was found in it: ranks and devices, kernels with their
shapes and tiles, collectives matched across ranks with transfer and arrival skew
apart, the pairs of computation and communication that a strategy can replan, each
with its evidence, and the assumptions that were made.`,
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
	f.BoolVar(&o.ledger, "ledger", false, "also list every event that is not simply a span, with file, position and reason")
	f.StringVar(&o.compat, "compat", "", "metrics as another tool defines them: hta, hta-last or tracelens")
	f.BoolVar(&o.explain, "explain", false, "also print what every metric means")
	return c
}

// An inspected is the JSON form.
type inspected struct {
	Workload workload.Summary    `json:"workload"`
	Metrics  overlap.Metrics     `json:"metrics"`
	Compat   []overlap.Breakdown `json:"compat,omitempty"` // by rank row, as the tool that was named defines it
	Spans    map[string]int      `json:"spans"`            // by kind
	Ledger   []ledgerEntry       `json:"ledger"`
	LeftOut  leftOut             `json:"left_out"`
}

// mostListed bounds the lists of the JSON form that grow with the trace.
const maxListed = 10_000

// leftOut is how many elements of metrics are not listed, beyond mostListed:
// sums and tables are of all.
type leftOut struct {
	Collectives  int `json:"collectives"`
	CriticalPath int `json:"critical_path_steps"`
}

// truncateList cuts a list to mostListed elements and returns how many it had more.
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
	// The run and its workload are held to the end, and few pointers are in them:
	// collecting early costs little time and saves as much memory as they take.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	run, err := a.one(o.path)
	if err != nil {
		return err
	}
	debug.FreeOSMemory() // what reading took beyond the run
	debug.SetGCPercent(5)
	w, err := workload.Lift(run, workload.Options{})
	if err != nil {
		return fmt.Errorf("%s: %w", o.path, err)
	}
	debug.FreeOSMemory() // what lifting took beyond the workload
	s, m := w.Summary(), overlap.Measure(run)
	if o.format == "json" {
		left := leftOut{truncateList(&m.Collectives), truncateList(&m.CriticalPath.Steps)}
		r := inspected{Workload: s, Metrics: m, Spans: map[string]int{}, LeftOut: left}
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
	t := a.section("ranks", "rank", "device", "operations", "queues", "from", "to", "clock ±", "source")
	for _, r := range s.Ranks {
		source := r.Source
		if r.CopyOf != nil {
			source = fmt.Sprintf("as rank %d", *r.CopyOf)
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
		t = a.section("collectives", "operation", "size", "group", "ranks", "channels", "count", "transfer", "arrival skew", "most")
		for _, c := range s.Collectives {
			t.AppendRow(table.Row{c.Op, bytesOf(c.Bytes), c.Group, c.Ranks, c.Channels, c.Count, micros(c.TransferNs), micros(c.SkewNs), micros(c.MaxSkewNs)})
		}
		t.Render()
	}
	if len(s.Pairs) > 0 {
		t = a.section("pairs (--pair takes the numbers)", "pair", "kind", "first", "second", "size", "count", "confidence", "evidence")
		for _, p := range s.Pairs {
			t.AppendRow(table.Row{
				p.Number, p.Direction, shorten(p.First, 28), shorten(p.Second, 28), bytesOf(p.Bytes), p.Count,
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

// printMetrics shows where each rank's time went, with our definitions or another tool's.
func (a *app) printMetrics(run *trace.Run, m *overlap.Metrics, compat string) {
	title := "where the time went"
	parts := make([]overlap.Breakdown, len(m.Ranks))
	for i, r := range m.Ranks {
		parts[i] = r.Breakdown
	}
	if compat != "" {
		title += ", as " + compat + " defines it"
		parts = overlap.Compat(run, overlap.Tool(compat))
	}
	t := a.section(title, "rank", "total", "compute", "communication", "overlapped", "overlap", "exposed", "exposed copies", "idle", "idle because")
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

// idleWaits lists causes of idle time, those that are a tenth of it or more.
func idleWaits(c overlap.Causes) string {
	all := c.Host + c.Sync + c.Launch + c.Queued + c.Unknown
	var words []string
	for _, x := range []struct {
		name string
		t    trace.Time
	}{{"host late", c.Host}, {"synchronised", c.Sync}, {"launch", c.Launch}, {"queued", c.Queued}, {"unknown", c.Unknown}} {
		if x.t > 0 && x.t*10 >= all {
			words = append(words, fmt.Sprintf("%s %.0f %%", x.name, 100*float64(x.t)/float64(all)))
		}
	}
	return strings.Join(words, ", ")
}

// explainMetrics prints what every figure means.
func (a *app) explainMetrics(compat string) {
	fmt.Fprintln(a.out)
	for _, d := range overlap.Explain() {
		fmt.Fprintf(a.out, "%s: %s\n", d.Term, d.Meaning)
	}
	if compat != "" {
		fmt.Fprintf(a.out, "%s: %s\n", compat, overlap.Tool(compat).Definition())
	}
}
