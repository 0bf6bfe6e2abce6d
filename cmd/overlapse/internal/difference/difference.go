// Package difference compares two traces, results or strategies, and has the forms of the
// comparison: printed tables, Markdown, JSON and HTML.
package difference

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/console"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/input"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/results"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/schema"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/words"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/lift"
	"github.com/overlapse/overlapse/replay/summary"
	"github.com/overlapse/overlapse/replay/workload"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/names"
	"github.com/overlapse/overlapse/trace/overlap"
	"github.com/overlapse/overlapse/trace/regular"
)

// A Difference is two runs, or two results.
type Difference struct {
	Schema  int     `json:"schema"`
	A       Side    `json:"a"`
	B       Side    `json:"b"`
	Change  float64 `json:"change"` // of the time: 0.1 is 10 % more
	PerStep bool    `json:"per_step"`
	// Explanation says what makes the difference; Causes are its parts, the largest first, none
	// of results.
	Explanation string           `json:"explanation"`
	Notes       []string         `json:"notes,omitempty"` // why the times may not compare
	Causes      []cause          `json:"causes"`
	Rows        []overlap.Change `json:"rows"`
	Checks      []check          `json:"checks,omitempty"`

	under string  // of results: the strategy whose times are compared
	above float64 // of Checks: what they allow
}

// byStrategy is the group of the times of results.
const byStrategy = "strategy"

// A Side is one of the two.
type Side struct {
	Name  string     `json:"name"`
	Time  trace.Time `json:"time_ns"`
	steps int
	items []overlap.Item

	samples []sample   // of its iterations; nil: too few
	run     *trace.Run // nil for results
	start   trace.Time // of its first iteration
	gaps    []overlap.Reason
}

// Print prints at most top rows of each group; 0: all.
func (d *Difference) Print(con *console.Console, top int) {
	con.Say(d.Explanation)
	for _, note := range d.Notes {
		con.Labelled("warning", note)
	}
	con.Labelled("A", fmt.Sprintf("%s: %s %s, mean over ranks", d.A.Name, words.Micros(d.A.Time), d.unit()))
	con.Labelled("B", fmt.Sprintf("%s: %s %s, %s", d.B.Name, words.Micros(d.B.Time), d.unit(), words.Percent(d.Change)))
	if t := d.checked(); t != nil {
		con.Show(t)
	}
	for group := range d.groups() {
		t, _ := d.table(group, top, false)
		con.Show(t)
	}
}

// WriteMarkdown writes a difference as a comment on a pull request, at most top rows of each group; 0: all.
func (d *Difference) WriteMarkdown(w io.Writer, top int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### overlapse: %s and %s\n\n**%s**\n", words.Markdown(d.A.Name), words.Markdown(d.B.Name), words.Markdown(d.Explanation))
	for _, note := range d.Notes {
		fmt.Fprintf(&b, "\n%s\n", words.Markdown(note))
	}
	if t := d.checked(); t != nil {
		fmt.Fprintf(&b, "\n%s:\n\n%s\n", words.Markdown(t.Title), t.Markdown())
	}
	for group := range d.groups() {
		t, _ := d.table(group, top, false)
		fmt.Fprintf(&b, "\n%s:\n\n%s\n", words.Markdown(t.Title), t.Markdown())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// table has a group of changes, at most top of them, and the unit of their times; top 0: all.
func (d *Difference) table(group []overlap.Change, top int, counts bool) (*console.Table, words.Unit) {
	var times []trace.Time
	for _, c := range group {
		times = append(times, c.A, c.B)
	}
	u := words.UnitOf(times...)
	t := &console.Table{
		Title: "by " + group[0].Group, Top: top,
		Columns: []string{"", "A, " + u.Name, "B, " + u.Name, "B − A", "share of A"},
	}
	if counts {
		t.Columns = append(t.Columns, "count in A", "count in B")
	}
	for _, c := range group {
		t.Add(words.Middle(names.Short(c.Name), 58), u.Number(c.A), u.Number(c.B), u.Signed(c.Diff),
			words.Percent(float64(c.Diff)/float64(max(1, d.A.Time))), c.CountA, c.CountB)
	}
	return t, u
}

// Of compares two sides.
func Of(a, b Side) Difference {
	d := Difference{
		Schema: schema.Version, A: a, B: b, PerStep: a.steps > 0 && b.steps > 0,
		Change: float64(b.Time)/float64(max(1, a.Time)) - 1, Rows: overlap.Diff(a.items, b.items), Causes: []cause{},
	}
	if a.run == nil && b.run == nil && len(a.items) > 0 && a.items[0].Group == byStrategy {
		d.under = a.items[0].Name
	}
	if a.run != nil && b.run != nil {
		kinds, operations := kernelKinds(a.run, b.run)
		rows, moved := joinFused(d.Rows, operations)
		d.Rows, d.Causes = rows, causesOf(rows, moved, kinds)
		d.sortCauses()
	}
	d.Explanation = d.explain()
	return d
}

// sortCauses puts the largest causes first.
func (d *Difference) sortCauses() {
	slices.SortStableFunc(d.Causes, func(a, b cause) int { return cmp.Compare(max(b.Diff, -b.Diff), max(a.Diff, -a.Diff)) })
}

// unit is what times are of.
func (d *Difference) unit() string {
	if d.PerStep {
		return "per step"
	}
	return "of the whole runs"
}

// groups are the rows group by group.
func (d *Difference) groups() iter.Seq[[]overlap.Change] {
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

// Measured compares two traces: per step if both have iterations, else as whole runs.
func Measured(r *input.Reader, a, b string) (Difference, error) {
	var sides [2]Side
	var lifted [2]*workload.Workload
	for i, path := range []string{a, b} {
		run, err := r.One(path, "")
		if err != nil {
			return Difference{}, err
		}
		sides[i] = Side{Name: path, Time: run.End, run: run}
		if lifted[i], err = r.Workload(run, path, lift.Options{}); err == nil {
			sides[i].steps = workload.Iterations(lifted[i])
		}
	}
	x, y := &sides[0], &sides[1]
	note := wholeRuns(x, y)
	for i, w := range lifted {
		sides[i].measure(r, w)
	}
	d := Of(*x, *y)
	if note != "" {
		d.Notes = append(d.Notes, note)
	}
	inBoth := func(row overlap.Change) bool { return row.Group == overlap.ByKernel && row.A > 0 && row.B > 0 }
	if !slices.ContainsFunc(d.Rows, inBoth) {
		d.Notes = append(d.Notes, "A and B have no kernel in common: they may be two programs, and the times say nothing about a change of one.")
	}
	return d, nil
}

// wholeRuns makes times of both sides those of whole runs if only one side has iterations, and says so; else "".
func wholeRuns(x, y *Side) string {
	if (x.steps > 0) == (y.steps > 0) {
		return ""
	}
	with, without := "A", "B"
	if y.steps > 0 {
		with, without = without, with
	}
	note := fmt.Sprintf("%s has %d iterations and none were found in %s: times are of the whole runs.", with, x.steps+y.steps, without)
	x.steps, y.steps = 0, 0
	return note
}

// measure fills in the times of a captured run, divided by its steps; w may be nil.
func (s *Side) measure(r *input.Reader, w *workload.Workload) {
	if w == nil {
		s.items = overlap.Items(s.run, nil, nil)
		return
	}
	steps, of := plan.MeasuredSteps(w), (*overlap.Iteration)(nil)
	s.Time, s.start = steps.Whole().Length(), results.MeasuredStart(w)
	if s.steps > 0 {
		s.Time, s.samples = steps.Time(), samplesOf(w)
		of = steps.Iteration(overlap.Collect(s.run), 0)
	}
	s.items = overlap.Items(s.run, nil, of)
	s.items = append(s.items, pairItems(w, func(op int32) (start, end trace.Time, ok bool) { return w.Ops[op].Start, w.Ops[op].End, true })...)
	if m := input.KnownMachine(w); m != nil {
		lift.OnMachine(w, m)
	}
	s.tellUnseen(w, of)
}

// tellUnseen counts the time in which collectives waited for ranks that nobody captured (rule C27) as waiting instead
// of transfer.
func (s *Side) tellUnseen(w *workload.Workload, of *overlap.Iteration) {
	move := func(group, prefix string, late trace.Time) {
		for is, d := range map[overlap.Is]trace.Time{overlap.Transferring: -late, overlap.Waiting: late} {
			name := prefix + is.String()
			i := slices.IndexFunc(s.items, func(x overlap.Item) bool { return x.Group == group && x.Name == name })
			if i < 0 {
				i = slices.IndexFunc(s.items, func(x overlap.Item) bool { return x.Group == group })
				s.items = slices.Insert(s.items, i, overlap.Item{Group: group, Name: name})
			}
			s.items[i].Time += d
		}
	}
	w.UnseenWaits(func(op *workload.Op, late trace.Time) {
		if of != nil {
			if x := of.In[w.Rows[op.Rank]]; op.Start < x.Start || op.Start >= x.End {
				return
			}
			late /= trace.Time(of.Of)
		}
		move(overlap.ByState, "", late/trace.Time(len(w.Run.Ranks)))
		move(overlap.ByRank, fmt.Sprintf("rank %d ", w.Run.RankID(w.Rows[op.Rank])), late)
	})
}

// Replayed is a strategy that ran on a workload.
func Replayed(r *results.Replayed, w *workload.Workload, out *compare.Outcome) Side {
	run := out.Result.Run
	s := Side{Name: r.Named(run.Name), Time: out.Expected, steps: r.Iterations, run: run, start: results.StartOf(w, run), gaps: results.ReasonsOf(out.Result, 0, 0)}
	starts, ends := opTimes(run, len(w.Ops))
	of := plan.StepsOf(w, run).Iteration(overlap.Collect(run), out.Time)
	of.Mean = explain.TimesOf(w, *out)
	s.items = append(overlap.Items(run, results.ReasonsOf(out.Result, 0, 0), of), pairItems(w, func(op int32) (trace.Time, trace.Time, bool) {
		return starts[op], ends[op], starts[op] <= ends[op]
	})...)
	return s
}

// Recorded is a run of a folder written by replay -o.
func Recorded(run *trace.Run) Side {
	s := Side{Name: run.Name, items: overlap.Items(run, nil, nil), run: run}
	for _, item := range s.items {
		if item.Group == overlap.ByState {
			s.Time += item.Time
		}
	}
	return s
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
	for _, k := range summary.Pairs(w) {
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
		size := "" // none between kernels
		if k.Bytes > 0 {
			size = " " + names.Bytes(k.Bytes)
		}
		name := fmt.Sprintf("%s → %s%s", words.Shorten(names.Short(k.First), 24), words.Shorten(names.Short(k.Second), 24), size)
		items = append(items, overlap.Item{Group: "pair, mean of its kind", Name: name, Time: sum / trace.Time(max(1, n)), Count: n})
	}
	return items
}

// IsResult reports whether a path is a folder written by replay -o.
func IsResult(path string) bool { return input.IsFile(filepath.Join(path, "result.json")) }

// Results compares the strategies that two results have in common. The time of a side
// is that of the first of them: of the captured schedule, where it was selected.
func Results(a, b string) (Difference, error) {
	x, err := resultSide(a)
	if err != nil {
		return Difference{}, err
	}
	y, err := resultSide(b)
	if err != nil {
		return Difference{}, err
	}
	in := func(items []overlap.Item, i overlap.Item) bool {
		return slices.ContainsFunc(items, func(j overlap.Item) bool { return i.Group == j.Group && i.Name == j.Name })
	}
	x.items = slices.DeleteFunc(x.items, func(i overlap.Item) bool { return !in(y.items, i) })
	y.items = slices.DeleteFunc(y.items, func(i overlap.Item) bool { return !in(x.items, i) })
	if len(x.items) == 0 {
		return Difference{}, fmt.Errorf("%s and %s have no strategy in common", a, b)
	}
	times := [2]int{max(1, x.steps), max(1, y.steps)}
	note := wholeRuns(&x, &y)
	for k, s := range []*Side{&x, &y} {
		for i := range s.items {
			if note != "" {
				s.items[i].Time *= trace.Time(times[k])
			}
		}
		s.Time = s.items[slices.IndexFunc(s.items, func(j overlap.Item) bool { return j.Name == x.items[0].Name })].Time
	}
	d := Of(x, y)
	if note != "" {
		d.Notes = append(d.Notes, note)
	}
	return d, nil
}

// mostResult is the largest result.json that is read, in bytes.
const mostResult = 256 << 20

func resultSide(path string) (Side, error) {
	file := filepath.Join(path, "result.json")
	f, err := regular.Open(file)
	if err != nil {
		return Side{}, err
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
			overlap.Times
		} `json:"strategies"`
	}
	if err := json.NewDecoder(io.LimitReader(f, mostResult)).Decode(&r); err != nil {
		return Side{}, fmt.Errorf("%s: %w", file, err)
	}
	if r.Schema > schema.Version {
		return Side{}, fmt.Errorf("%s: has schema %d, this overlapse reads up to %d (read it with the overlapse that wrote it)", file, r.Schema, schema.Version)
	}
	s := Side{Name: path, steps: r.Iterations}
	for _, group := range []string{byStrategy, "transfer", "waiting", "idle"} {
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
			d := map[string]trace.Time{byStrategy: row.Time, "transfer": row.Transfer, "waiting": row.Waiting, "idle": row.Idle}[group]
			s.items = append(s.items, overlap.Item{Group: group, Name: name, Time: d})
		}
	}
	return s, nil
}
