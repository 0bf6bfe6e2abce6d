package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/inputs"
	"github.com/overlapse/overlapse/cmd/overlapse/results"
	"github.com/overlapse/overlapse/cmd/overlapse/schema"
	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/cmd/overlapse/usage"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/viz/layout"
	"github.com/overlapse/overlapse/viz/plain"
)

// diffOptions are the flags of `overlapse diff`.
type diffOptions struct {
	inputs.Flags
	format string
	output string
	above  float64
	top    int
}

func (a *app) diffCommand() *cobra.Command {
	var o diffOptions
	c := &cobra.Command{
		Use:   "diff A B | diff TRACE --strategy a,b",
		Short: "Compare two traces, two results or two strategies",
		Long: `Prints where the time of two runs differs: by state of the ranks (compute, overlapped,
exposed communication, idle), cause of idle time, rank, kernel class, kernel and pair.
Times are per step if both traces mark steps, and means over ranks.

A and B are traces, or both folders written by replay -o, whose strategies are compared
by name. With one trace, --strategy names the two strategies to replay and compare; with
one such folder, two that it holds.`,
		Example: `  overlapse diff before/ after/ --fail-above 0.02
  overlapse diff samples/moe-ep4 --strategy bulk,fused
  overlapse diff monday/ tuesday/ --format html -o diff.html`,
		Args: func(c *cobra.Command, args []string) error {
			if two := o.Strategy != ""; len(args) != 2 && !two || len(args) != 1 && two {
				return usage.Errorf("diff takes two paths, or one path and --strategy a,b (see overlapse diff --help)")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.diff(c.Context(), o, args) },
	}
	f := c.Flags()
	f.StringVar(&o.Strategy, "strategy", "", "two strategies, with settings, to replay the one trace under")
	f.StringVar(&o.Machine, "machine", "", "machine to replay on, as for replay")
	usage.ChoiceFlag(c, &o.format, "format", "table", "table, json, markdown (a comment on a pull request) or html (with timelines of traces and strategies)", "table", "json", "markdown", "html")
	f.StringVarP(&o.output, "output", "o", "", "file to write; default: standard output")
	f.Float64Var(&o.above, "fail-above", -1, "exit with 3 if B takes longer than A by more than this fraction; negative: never")
	f.IntVar(&o.top, "top", 10, "rows of each group; 0: all")
	return c
}

// A difference is two runs, or two results.
type difference struct {
	Schema  int              `json:"schema"`
	A       side             `json:"a"`
	B       side             `json:"b"`
	Change  float64          `json:"change"` // of the time: 0.1 is 10 % more
	PerStep bool             `json:"per_step"`
	Rows    []overlap.Change `json:"rows"`
}

// A side is one of the two.
type side struct {
	Name  string     `json:"name"`
	Time  trace.Time `json:"time_ns"`
	steps int
	items []overlap.Item

	run   *trace.Run // nil for results
	start trace.Time // of its first iteration
	gaps  []layout.Gap
}

func (a *app) diff(ctx context.Context, o diffOptions, args []string) error {
	if o.output != "" && o.format == "table" {
		return usage.Errorf("-o needs --format json, html or markdown (see overlapse diff --help)")
	}
	d := difference{Schema: schema.Version}
	var err error
	switch {
	case len(args) == 1 && isResult(args[0]):
		d.A, d.B, err = a.diffRuns(args[0], o.Strategy)
	case len(args) == 1:
		d.A, d.B, err = a.diffStrategies(ctx, o, args[0])
	case isResult(args[0]) && isResult(args[1]):
		d.A, d.B, err = diffResults(args[0], args[1])
	default:
		if d.A, err = a.measuredSide(args[0]); err == nil {
			d.B, err = a.measuredSide(args[1])
		}
	}
	if err != nil {
		return err
	}
	d.PerStep = d.A.steps > 0 && d.B.steps > 0
	d.Change = float64(d.B.Time)/float64(max(1, d.A.Time)) - 1
	d.Rows = overlap.Diff(d.A.items, d.B.items)
	switch o.format {
	case "json":
		err = a.writeOut(o.output, func(w io.Writer) error { return schema.WriteJSON(w, d) })
	case "html":
		err = a.writeOut(o.output, func(w io.Writer) error { return d.writeDiff(w, o.top) })
	case "markdown":
		err = a.writeOut(o.output, func(w io.Writer) error { return d.writeMarkdown(w, o.top) })
	default:
		a.printDiff(&d, o.top)
	}
	if err == nil && o.above >= 0 && d.Change > o.above {
		return usage.Threshold{Err: fmt.Errorf("%s takes %s longer than %s, more than %s", d.B.Name, text.Percent(d.Change), d.A.Name, text.Percent(o.above))}
	}
	return err
}

func (a *app) printDiff(d *difference, top int) {
	fmt.Fprintf(a.Out, "A %s: %s\nB %s: %s, %s\ntimes %s, means over ranks\n",
		plain.Line(d.A.Name), text.Micros(d.A.Time), plain.Line(d.B.Name), text.Micros(d.B.Time), text.Percent(d.Change), d.unit())
	for group := range d.groups() {
		t := a.Section("by "+plain.Line(group[0].Group), "", "A", "B", "B − A", "share of A")
		a.AtMost(t, len(group), top, func(k int) {
			c := group[k]
			t.AppendRow(table.Row{text.Shorten(layout.ShortName(c.Name), 60), text.Micros(c.A), text.Micros(c.B), signed(c.Diff), text.Percent(float64(c.Diff) / float64(max(1, d.A.Time)))})
		})
	}
}

// sentence says how the times differ.
func (d *difference) sentence() string {
	return fmt.Sprintf("B takes %s %s, A %s: %s", text.Micros(d.B.Time), d.unit(), text.Micros(d.A.Time), text.Percent(d.Change))
}

// unit is what times are of.
func (d *difference) unit() string {
	if d.PerStep {
		return "per step"
	}
	return "of the whole runs"
}

// groups are the rows group by group.
func (d *difference) groups() iter.Seq[[]overlap.Change] {
	return func(yield func([]overlap.Change) bool) {
		for rest := d.Rows; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].Group == rest[0].Group {
				n++
			}
			if !yield(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

// signed writes a difference of times.
func signed(t trace.Time) string {
	switch {
	case t < 0:
		return "-" + text.Micros(-t)
	case t > 0:
		return "+" + text.Micros(t)
	}
	return "0"
}

// measuredSide reads a trace.
func (a *app) measuredSide(path string) (side, error) {
	run, err := a.One(path, "")
	if err != nil {
		return side{}, err
	}
	s := side{Name: path, Time: run.End, run: run}
	if w, err := a.Workload(run, path, workload.Options{}); err == nil {
		s.steps, s.Time, s.start = workload.Iterations(w), plan.MeasuredStepTime(w), results.MeasuredStart(w)
		s.items = pairItems(w, func(op int32) (start, end trace.Time, ok bool) { return w.Ops[op].Start, w.Ops[op].End, true })
	}
	s.items = append(overlap.Items(run, nil, s.steps), s.items...)
	return s, nil
}

// diffStrategies replays a trace under two strategies.
func (a *app) diffStrategies(ctx context.Context, o diffOptions, path string) (x, y side, err error) {
	o.Path = path
	sel, w, m, err := inputs.Prepare(&a.Reader, o.Flags, engines.ParseSelection)
	if err != nil {
		return x, y, err
	}
	if len(sel) != 2 {
		return x, y, usage.Errorf("--strategy %q: give two strategies to compare, not %d", o.Strategy, len(sel))
	}
	r, err := results.Of(ctx, a.Console, path, w, m, sel, o.Scenario(), replay.Options{Stop: inputs.StopFunc(ctx)})
	if err != nil {
		return x, y, err
	}
	if err := o.FailedError(r.Outcomes); err != nil {
		return x, y, err
	}
	sides := [2]side{}
	for i, out := range r.Outcomes {
		if out.Result == nil {
			return x, y, usage.NotRun{Err: fmt.Errorf("%s: %s", out.Strategy.Name, out.Why)}
		}
		run := out.Result.Run
		sides[i] = side{Name: r.Named(run.Name), Time: out.Expected, steps: r.Iterations, run: run, start: results.StartOf(w, run), gaps: results.Gaps(out.Result)}
		starts, ends := opTimes(run, len(w.Ops))
		sides[i].items = append(overlap.Items(run, results.ReasonsOf(out.Result, 0, 0), r.Iterations), pairItems(w, func(op int32) (trace.Time, trace.Time, bool) {
			return starts[op], ends[op], starts[op] <= ends[op]
		})...)
	}
	return sides[0], sides[1], nil
}

// diffRuns compares two runs of a folder written by replay -o.
func (a *app) diffRuns(path, strategies string) (x, y side, err error) {
	run, err := a.Open(filepath.Join(path, "timeline.json.gz"), "")
	if err != nil {
		return x, y, err
	}
	views, err := viewsOf(trace.Split(run), viewOptions{Flags: inputs.Flags{Path: path, Strategy: strategies}})
	if err == nil && len(views) != 2 {
		err = usage.Errorf("--strategy %q: the folder has %d runs of these names, diff compares two", strategies, len(views))
	}
	if err != nil {
		return x, y, err
	}
	sides := [2]side{}
	for i, v := range views {
		items := overlap.Items(v.Run, nil, 1)
		var sum trace.Time
		for _, item := range items {
			if item.Group == overlap.ByState {
				sum += item.Time
			}
		}
		sides[i] = side{Name: v.Run.Name, Time: sum, items: items, run: v.Run}
	}
	return sides[0], sides[1], nil
}

// opTimes is when the first kernel of each operation starts and the last ends; a start
// after the end: it did not run.
func opTimes(run *trace.Run, ops int) (starts, ends []trace.Time) {
	starts, ends = slices.Repeat([]trace.Time{trace.Infinity}, ops), make([]trace.Time, ops)
	for _, s := range run.Spans {
		if op := plan.OriginOf(run, s); op >= 0 {
			starts[op], ends[op] = min(starts[op], s.Start), max(ends[op], s.End)
		}
	}
	return starts, ends
}

// pairItems is the mean time of each kind of pair, from the start of the first operation
// to the end of the last.
func pairItems(w *workload.Workload, times func(op int32) (start, end trace.Time, ok bool)) []overlap.Item {
	var items []overlap.Item
	for _, k := range w.PairKinds() {
		var sum trace.Time
		n := 0
		for _, row := range k.Rows {
			p := &w.Pairs[row]
			for rank := range p.First {
				start, end, ok := times(p.First[rank])
				if second, last, ran := times(p.Second[rank]); ran {
					start, end, ok = min(start, second), max(end, last), true
				}
				if ok {
					sum, n = sum+end-start, n+1
				}
			}
		}
		name := fmt.Sprintf("%s → %s %s", text.Shorten(layout.ShortName(k.First), 24), text.Shorten(layout.ShortName(k.Second), 24), layout.Bytes(k.Bytes))
		items = append(items, overlap.Item{Group: "pair, mean of its kind", Name: name, Time: sum / trace.Time(max(1, n)), Count: n})
	}
	return items
}

// isResult reports whether a path is a folder written by replay -o.
func isResult(path string) bool { return inputs.IsFile(filepath.Join(path, "result.json")) }

// diffResults compares the strategies that two results have in common. The time of a side
// is that of the first of them: of the captured schedule, where it was selected.
func diffResults(a, b string) (x, y side, err error) {
	if x, err = resultSide(a); err != nil {
		return x, y, err
	}
	if y, err = resultSide(b); err != nil {
		return x, y, err
	}
	in := func(items []overlap.Item, i overlap.Item) bool {
		return slices.ContainsFunc(items, func(j overlap.Item) bool { return i.Group == j.Group && i.Name == j.Name })
	}
	x.items = slices.DeleteFunc(x.items, func(i overlap.Item) bool { return !in(y.items, i) })
	y.items = slices.DeleteFunc(y.items, func(i overlap.Item) bool { return !in(x.items, i) })
	if len(x.items) == 0 {
		return x, y, fmt.Errorf("%s and %s have no strategy in common", a, b)
	}
	first := slices.IndexFunc(y.items, func(j overlap.Item) bool { return j.Name == x.items[0].Name })
	x.Time, y.Time = x.items[0].Time, y.items[first].Time
	return x, y, nil
}

// mostResult is the largest result.json that is read, in bytes.
const mostResult = 256 << 20

func resultSide(path string) (side, error) {
	file := filepath.Join(path, "result.json")
	f, err := os.Open(file)
	if err != nil {
		return side{}, err
	}
	defer f.Close()
	var r struct {
		Schema     int `json:"schema"`
		Iterations int `json:"iterations"`
		Rows       []struct {
			Strategy   string          `json:"strategy"`
			Parameters json.RawMessage `json:"parameters"`
			Applies    bool            `json:"applies"`
			Time       trace.Time      `json:"time_ns"`
			Exposed    trace.Time      `json:"exposed_communication_ns"`
			Idle       trace.Time      `json:"idle_ns"`
		} `json:"strategies"`
	}
	if err := json.NewDecoder(io.LimitReader(f, mostResult)).Decode(&r); err != nil {
		return side{}, fmt.Errorf("%s: %w", file, err)
	}
	if r.Schema > schema.Version {
		return side{}, fmt.Errorf("%s: has schema %d, this overlapse reads up to %d (read it with the overlapse that wrote it)", file, r.Schema, schema.Version)
	}
	s := side{Name: path, steps: cmp.Or(r.Iterations, 1)}
	for _, group := range []string{"strategy", "exposed communication", "idle"} {
		seen := map[string]bool{}
		for _, row := range r.Rows {
			if !row.Applies {
				continue
			}
			name := row.Strategy
			if seen[name] { // with other parameters
				name += " " + strings.Join(strings.Fields(string(row.Parameters)), "")
			}
			seen[name] = true
			d := map[string]trace.Time{"strategy": row.Time, "exposed communication": row.Exposed, "idle": row.Idle}[group]
			s.items = append(s.items, overlap.Item{Group: group, Name: name, Time: d})
		}
	}
	return s, nil
}
