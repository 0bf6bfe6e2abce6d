package results

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/overlap"
)

// Differences
//
// A Difference compares two traces, results or strategies, and has the forms of the
// comparison: printed tables, Markdown, JSON and HTML.

// A Difference is two runs, or two results.
type Difference struct {
	Schema  int     `json:"schema"`
	A       side    `json:"a"`
	B       side    `json:"b"`
	Change  float64 `json:"change"` // of the time: 0.1 is 10 % more
	PerStep bool    `json:"per_step"`
	// Explanation says what makes the difference; Causes are its parts, the largest first, none
	// of results.
	Explanation string           `json:"explanation"`
	Changed     string           `json:"changed,omitempty"` // which operations of a step are removed, added, moved, longer and shorter in B
	Notes       []string         `json:"notes,omitempty"`   // why the times may not compare
	Causes      []cause          `json:"causes"`
	Rows        []overlap.Change `json:"rows"`
	Checks      []check          `json:"checks,omitempty"`
	Predicted   *predicted       `json:"predicted,omitempty"` // with --predicted
	// Phase is the steps that the times are of, where both have steps of several phases (rule V34); Phases are the differences of
	// each then, and the times, the causes and the rows of both together are 0 and empty.
	Phase  string       `json:"phase,omitempty"`
	Phases []Difference `json:"phases,omitempty"`

	lane  *trace.Run // of Changed; nil: unknown
	above float64    // of Checks: what they allow
}

// byStrategy is the group of the times of results.
const byStrategy = "strategy"

// A side is one of the two.
type side struct {
	Name       string     `json:"name"`
	Time       trace.Time `json:"time_ns"`
	Unprofiled trace.Time `json:"unprofiled_ns,omitempty"` // estimate without the profiler; 0: none, as of whole runs

	phase string // that the time is of; "": all steps
	under string // of a result: the strategy that the time is of
	steps int
	items []overlap.Item

	work    []overlap.Operation // of one step
	samples []sample            // of its iterations; nil: too few
	run     *trace.Run          // nil for results
	start   trace.Time          // of its first iteration
	gaps    []overlap.Reason
}

// without is the estimate without the profiler, where it is another time.
func (s *side) without() string {
	if s.Unprofiled == 0 || trace.Micros(s.Unprofiled) == trace.Micros(s.Time) {
		return ""
	}
	return "; " + trace.Micros(s.Unprofiled) + " without the profiler"
}

// Print prints at most top rows of each group; 0: all.
func (d *Difference) Print(con *cli.Console, top int) {
	for _, p := range d.Each() {
		con.Head(p.Explanation)
	}
	for _, note := range d.Notes {
		con.Labelled("warning", note)
	}
	for _, p := range d.Each() {
		if p.Changed != "" {
			con.Labelled("changed", p.title()+p.Changed)
		}
	}
	for _, p := range d.Each() {
		con.Labelled("A", fmt.Sprintf("%s: %s %s, mean over ranks%s", d.A.Name, trace.Micros(p.A.Time), p.unit(), p.A.without()))
		con.Labelled("B", fmt.Sprintf("%s: %s %s, %s%s", d.B.Name, trace.Micros(p.B.Time), p.unit(), trace.Percent(p.Change), p.B.without()))
	}
	for _, p := range d.Each() {
		if t := p.checked(); t != nil {
			con.Show(t)
		}
		for group := range p.groups() {
			t, _ := p.table(group, top, false)
			con.Show(t)
		}
	}
}

// Each are the differences of each phase where phases are answered apart, else the only one.
func (d *Difference) Each() (each []*Difference) {
	if d.Phases == nil {
		return []*Difference{d}
	}
	for i := range d.Phases {
		each = append(each, &d.Phases[i])
	}
	return each
}

// apart is the difference of two runs that were compared phase by phase, or as a whole.
func apart(each []Difference) Difference {
	if len(each) == 1 {
		return each[0]
	}
	first := &each[0]
	d := Difference{
		Schema: Version, A: side{Name: first.A.Name}, B: side{Name: first.B.Name}, PerStep: first.PerStep,
		Causes: []cause{}, Rows: []overlap.Change{}, Phases: each,
	}
	var says []string
	for i := range each {
		says = append(says, each[i].Explanation)
	}
	d.Explanation = strings.Join(says, " ")
	return d
}

// title begins what is said of a phase; "" of all steps.
func (d *Difference) title() string {
	if d.Phase == "" {
		return ""
	}
	return d.Phase + " steps: "
}

// WriteMarkdown writes a difference as a comment on a pull request, at most top rows of each group; 0: all.
func (d *Difference) WriteMarkdown(w io.Writer, top int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### overlapse: %s and %s\n\n**%s**\n", cli.Markdown(d.A.Name), cli.Markdown(d.B.Name), cli.Markdown(d.Explanation))
	for _, note := range d.Notes {
		fmt.Fprintf(&b, "\n%s\n", cli.Markdown(note))
	}
	for _, p := range d.Each() {
		if p.Changed != "" {
			fmt.Fprintf(&b, "\n%s\n", cli.Markdown(p.title()+p.Changed))
		}
		if t := p.checked(); t != nil {
			fmt.Fprintf(&b, "\n%s:\n\n%s\n", cli.Markdown(t.Title), t.Markdown())
		}
		for group := range p.groups() {
			t, _ := p.table(group, top, false)
			fmt.Fprintf(&b, "\n%s:\n\n%s\n", cli.Markdown(t.Title), t.Markdown())
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// table has a group of changes, at most top of them, and the unit of their times; top 0: all.
func (d *Difference) table(group []overlap.Change, top int, counts bool) (*cli.Table, cli.Unit) {
	var times []trace.Time
	for _, c := range group {
		times = append(times, c.A, c.B)
	}
	u := cli.UnitOf(times...)
	t := &cli.Table{
		Title: d.title() + "by " + group[0].Group, Top: top,
		Columns: []string{"", "A, " + u.Name, "B, " + u.Name, "B − A", "share of A"},
	}
	if counts {
		t.Columns = append(t.Columns, "count in A", "count in B")
	}
	for _, c := range group {
		t.Add(cli.Middle(trace.Short(c.Name), 58), u.Number(c.A), u.Number(c.B), u.Signed(c.Diff),
			trace.Percent(float64(c.Diff)/float64(max(1, d.A.Time))), c.CountA, c.CountB)
	}
	return t, u
}

// differenceOf compares two sides.
func differenceOf(a, b side) Difference {
	d := Difference{
		Schema: Version, A: a, B: b, Phase: a.phase, PerStep: a.steps > 0 && b.steps > 0,
		Change: float64(b.Time)/float64(max(1, a.Time)) - 1, Rows: overlap.Diff(a.items, b.items), Causes: []cause{},
	}
	if a.run != nil && b.run != nil {
		kinds, operations := kernelKinds(a.run, b.run)
		rows, moved := joinFused(d.Rows, kinds, operations)
		d.Rows, d.Causes = rows, causesOf(rows, moved, kinds)
		d.sortCauses()
	}
	if a.work != nil && b.work != nil {
		d.lane, d.Changed = overlap.ChangesOf(a.run.Ranks, a.work, b.work, a.Time)
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
		return "per " + strings.TrimSpace(d.Phase+" step")
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
