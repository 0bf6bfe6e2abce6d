package results

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/engines"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/guard"
	"github.com/overlapse/overlapse/trace/overlap"
)

// A column is one of a result's rows, in CSV, on terminals, in Markdown and on pages.
type column struct {
	key   string         // in CSV; "": not there
	name  string         // in tables, which choose their columns by it; "": in none
	value func(*Row) any // nil: absent
	text  func(*Row) any // in tables, a trace.Time or text; nil: as value
}

// columns are all columns of a result, in the order of CSV.
func (r *Replayed) columns() []column {
	list := []column{
		{key: "path", value: func(*Row) any { return r.Path }},
		{key: "machine", value: func(*Row) any { return r.Machine }},
		{key: "ranks", value: func(*Row) any { return r.Ranks }},
		{"strategy", "strategy", func(row *Row) any { return row.Strategy }, func(row *Row) any { return r.named(row) }},
		{name: "schedule", value: func(row *Row) any { return r.says(row) }},
		{key: "settings", value: func(row *Row) any { return row.Settings }},
		{key: "applies", value: func(row *Row) any { return row.Applies }},
		{key: "recommended", value: func(row *Row) any { return r.recommended(row) }},
		{key: "experimental", value: func(row *Row) any { return row.Experimental }},
		{key: "time_ns", name: "time", value: func(row *Row) any { return unless(row.Time == 0, trace.Time(row.Time)) }},
		{key: "fastest_ns", value: func(row *Row) any { return unless(row.Fastest == 0, row.Fastest) }},
		{key: "slowest_ns", value: func(row *Row) any { return unless(row.Slowest == 0, row.Slowest) }},
		{key: "captured_ns", value: func(row *Row) any { return r.reference.Of(row.phase).Expected }},
		{"change", "change", func(row *Row) any { return row.Change }, func(row *Row) any {
			return unless(row.given() || !row.Applies, trace.Percent(row.Change))
		}},
	}
	for i, key := range []string{"compute_ns", "transfer_ns", "waiting_ns", "copies_ns", "idle_ns", "hidden_ns"} {
		of := func(row *Row) any { return states(row.Times)[i] }
		list = append(list, column{key, stateNames[i], of, func(row *Row) any { return unless(!row.Applies, of(row)) }})
	}
	return append(list,
		column{"peak_memory_bytes", "memory", func(row *Row) any { return row.PeakMemory }, func(row *Row) any {
			return MemoryText(row.PeakMemory, row.MemoryLacks)
		}},
		column{key: "peak_memory_least", value: func(row *Row) any { return len(row.MemoryLacks) > 0 }},
		column{"bubble_share", "bubble", func(row *Row) any { return row.Bubble }, func(row *Row) any {
			return unless(!r.pipeline || !row.Applies || row.Strategy == unchanged, fmt.Sprintf("%.1f %%", 100*row.Bubble))
		}},
		column{"limited_by", "note", func(row *Row) any { return row.Limit }, func(row *Row) any {
			if !row.Applies {
				return row.reason()
			}
			_, beyond, _ := strings.Cut(row.Limit, "; ") // the states have columns
			return unless(beyond == "", beyond)
		}},
		column{"p_faster", "likely", func(row *Row) any { return row.PFaster }, func(row *Row) any {
			if row.Same {
				return "same program"
			}
			return unless(row.Error == 0, verdict.PercentOf(row.PFaster))
		}},
		column{"error", "±", func(row *Row) any { return row.Error }, func(row *Row) any {
			if row.Unproven {
				return "?"
			}
			return unless(row.Error == 0, fmt.Sprintf("%.1f", 100*row.Error))
		}},
		column{key: "confidence", value: func(row *Row) any { return row.Confidence.Level }},
		column{key: "confidence_why", value: func(row *Row) any { return row.Confidence.Why }},
		column{key: "why", value: func(row *Row) any { return row.Why }},
		column{"effort", "effort", func(row *Row) any { return row.Effort }, func(row *Row) any {
			return unless(row.Same, string(row.Effort))
		}},
		column{key: "phase", name: "steps", value: func(row *Row) any { return row.Phase }},
		column{key: "basis", value: func(*Row) any { return r.basis() }},
		column{name: "overlap", value: func(row *Row) any {
			hidden, ok := hiddenPercent(row.Times)
			return unless(!ok || !row.Applies, fmt.Sprintf("%.0f %%", hidden))
		}},
		column{name: "exposed", value: func(row *Row) any { return row.Exposed() }},
		column{name: "sends", value: func(row *Row) any { return unless(!r.pipeline || !row.Applies, trace.Micros(row.Transfer)) }},
		column{name: r.whatIf(), value: func(row *Row) any {
			if row.WhatIf == nil {
				return nil
			}
			return trace.Time(row.WhatIf.Time)
		}},
		column{name: "change there", value: func(row *Row) any {
			change, ok := r.there(row)
			return unless(!ok || row.given(), trace.Percent(change))
		}},
	)
}

// hiddenPercent is the overlap rate: the share of communication that compute runs beside; ok is false where nothing communicates.
func hiddenPercent(t overlap.Times) (percent float64, ok bool) {
	all := t.Hidden + t.Exposed()
	return 100 * float64(t.Hidden) / float64(max(1, all)), all > 0
}

// unless is a cell that is empty on a condition.
func unless(empty bool, cell any) any {
	if empty {
		return nil
	}
	return cell
}

// all are the rows of every file: those of the strategies, and behind them the captured schedule with nothing changed.
func (r *Replayed) all() (rows []*Row) {
	for i := range r.Rows {
		rows = append(rows, &r.Rows[i])
	}
	for i := range r.Control {
		rows = append(rows, &r.Control[i])
	}
	return rows
}

// CSV is the head, then the rows, but for some columns. Rows of several files can be put together.
func (r *Replayed) CSV(without ...string) iter.Seq[[]any] {
	columns := slices.DeleteFunc(r.columns(), func(c column) bool { return c.key == "" || slices.Contains(without, c.key) })
	line := func(cell func(column) any) (cells []any) {
		for _, c := range columns {
			x := cell(c)
			if text, ok := x.(string); ok {
				x = guard.Line(text)
			}
			cells = append(cells, x)
		}
		return cells
	}
	return func(yield func([]any) bool) {
		more := yield(line(func(c column) any { return c.key }))
		for _, row := range r.all() {
			more = more && yield(line(func(c column) any { return c.value(row) }))
		}
	}
}

// recommended reports whether the verdict, on the row's phase, recommends it.
func (r *Replayed) recommended(row *Row) bool {
	return row.Applies && slices.ContainsFunc(r.Verdict.Each(), func(v verdict.Verdict) bool {
		return row.Phase == v.Phase && row.Strategy == v.Strategy && maps.Equal(row.Parameters, v.Parameters)
	})
}

// MemoryText is a difference of the most memory that a rank holds, "≥" before a lower bound; "" for
// none.
func MemoryText(bytes int64, lacks []string) string {
	switch {
	case bytes > 0 && len(lacks) > 0:
		return "≥ +" + trace.Bytes(bytes)
	case bytes > 0:
		return "+" + trace.Bytes(bytes)
	case len(lacks) > 0:
		return "unknown"
	case bytes < 0:
		return "-" + trace.Bytes(-bytes)
	}
	return ""
}

// given reports whether a row is the captured schedule, without settings.
func (r *Row) given() bool { return r.Strategy == "captured" && r.Settings == "" }

// Name is a row's strategy with its settings, as --strategy and the names of runs have them.
func (r *Row) Name() string { return strings.TrimSpace(r.Strategy + " " + r.Settings) }

// named is a row's strategy with its settings.
func (r *Replayed) named(row *Row) string {
	return row.marked(strings.TrimSpace(r.scheduled(row.Strategy) + " " + row.Settings))
}

// marked is a row's name, and that no program can have its schedule, or that nothing measured has its setting.
func (r *Row) marked(name string) string {
	if r.bound != "" {
		name += " (" + r.bound + ")"
	}
	if r.Experimental {
		name += " (experimental)"
	}
	return name
}

// says is a row's change in words, else its name.
func (r *Replayed) says(row *Row) string {
	if row.short == "" || row.Experimental {
		return r.named(row)
	}
	return row.marked(row.short)
}

// RunName is what pages and views call the run of an outcome: as says calls its row, or its strategy where another run is called so too.
func (r *Replayed) RunName(outcome int) string {
	of := func(row Row) bool { return row.At == outcome }
	row := &r.Rows[slices.IndexFunc(r.Rows, of)]
	said := r.says(row)
	if slices.ContainsFunc(r.Rows, func(other Row) bool { return !of(other) && other.Applies && r.says(&other) == said }) {
		return r.named(row)
	}
	return said
}

// phased is a row's name with its phase.
func (r *Replayed) phased(row *Row) string {
	if row.Phase == "" {
		return r.named(row)
	}
	return r.named(row) + ", " + row.Phase
}

// alike is the change below which a row that was not selected by name has no line of its own.
const alike = 0.005

// A selected row stands in a table, or is folded: it cannot be told from no change, or nobody gets it tonight.
type selected struct{ rows, alike, later []*Row }

// sorted are the rows of a phase (0: of all iterations) that apply: the captured schedule, then the same simulated, then the
// fastest first, then bounds. If they are to be folded, what can be changed tonight and the captured schedule simulated, fastest first.
func (r *Replayed) sorted(fold bool, phase int) (of selected) {
	for _, row := range r.all() {
		switch {
		case !row.Applies || row.phase != phase && row.phase != 0:
		case !fold || row.Strategy == unchanged || r.recommended(row) && !row.given():
			of.rows = append(of.rows, row)
		case row.given() || row.bound == "bound" || row.Same: // the title and a sentence have their times
		case row.bound != "" || row.first || row.Experimental || plan.CompareEfforts(row.Effort, plan.ThirdParty) >= 0:
			of.later = append(of.later, row)
		case max(row.Change, -row.Change) < max(alike, row.Error) || row.Unproven:
			of.alike = append(of.alike, row)
		default:
			of.rows = append(of.rows, row)
		}
	}
	place := func(row *Row) int {
		switch {
		case fold:
			return 0
		case row.given():
			return 0
		case row.Strategy == unchanged:
			return 1
		case row.bound != "":
			return 3
		}
		return 2
	}
	slices.SortStableFunc(of.rows, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Time, b.Time))
	})
	return of
}

// refused are the rows that do not apply.
func (r *Replayed) refused() []*Row {
	return slices.DeleteFunc(r.all(), func(row *Row) bool { return row.Applies })
}

// names are those of rows, joined, each once.
func (r *Replayed) names(rows []*Row) string { return joined(rows, r.named) }

// sayings are the rows' changes in words, joined.
func (r *Replayed) sayings(rows []*Row) string {
	return joined(rows, func(row *Row) string { return strings.TrimSuffix(r.says(row), " ("+row.bound+")") })
}

func joined(rows []*Row, text func(*Row) string) string {
	var list []string
	for _, row := range rows {
		if t := text(row); !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	if slices.ContainsFunc(list, func(t string) bool { return strings.Contains(t, " and ") }) {
		return strings.Join(list, "; ") // a change of two parts is one of the list
	}
	return strings.Join(list, ", ")
}

// Table is that of rows without their runs, for a terminal of a width, 0: of any.
func Table(rows []*Row, width int) *cli.Table {
	names := []string{"schedule", "time", "change", "±", "likely", "memory", "strategy"}
	if width > 0 && width < proseFrom {
		names = names[:len(names)-1]
	}
	return (&Replayed{}).tableOf(rows, names)
}

// proseFrom is the width of a terminal from which a table has the columns that explain the others.
const proseFrom = 120

// table is that of rows of one phase.
func (r *Replayed) table(rows []*Row) *cli.Table {
	return r.tableOf(rows, append(slices.DeleteFunc(r.shown(), func(name string) bool { return name == "steps" }), "exposed"))
}

// intervals is the table of a terminal: what to change, and the interval of each around no change; of a wide one, the overlap rate
// too. chosen is that the user named the strategies.
func (r *Replayed) intervals(con *cli.Console, rows []*Row, chosen bool) *cli.Table {
	narrow := !chosen && !con.Wide && con.Width > 0 && con.Width < proseFrom
	names := slices.DeleteFunc(r.shown(), func(name string) bool {
		return name == "steps" || chosen && name == "strategy" || narrow && slices.Contains([]string{"±", "memory", "strategy"}, name)
	})
	if chosen {
		names[0] = "strategy"
	}
	if con.Wide {
		names = slices.Insert(names, slices.Index(names, "effort"), "overlap")
	}
	t := r.tableOf(rows, names)
	at, x := slices.Index(t.Columns, "change")+1, axisOf(rows)
	if narrow {
		x.width = narrowAxis
	}
	t.Columns = slices.Insert(t.Columns, at, x.header())
	for i, row := range rows {
		t.Rows[i] = slices.Insert(t.Rows[i], at, any(x.interval(row)))
	}
	return t
}

// page is the table of a page, which has all columns.
func (r *Replayed) page(rows []*Row) *cli.Table {
	return r.tableOf(rows, append(append(r.shown(), stateNames...), "overlap", "note"))
}

// shown names the first columns of every table.
func (r *Replayed) shown() []string {
	names := []string{"schedule", "steps", "time", "change", "±", "effort", "likely", "memory", "strategy", "bubble", "sends"}
	if on := r.whatIf(); on != "" {
		names = append(names, on, "change there")
	}
	return names
}

// tableOf has columns of rows, with one unit for all times. Columns without a value in any row are left out.
func (r *Replayed) tableOf(rows []*Row, names []string) *cli.Table {
	cells := r.cells()
	if !slices.ContainsFunc(rows, func(row *Row) bool { return r.says(row) != r.named(row) }) && names[0] == "schedule" {
		names = slices.DeleteFunc(names, func(name string) bool { return name == "strategy" })
	}
	t := &cli.Table{OneUnit: true, Columns: names}
	for _, row := range rows {
		var line []any
		for _, name := range t.Columns {
			line = append(line, cells[name](row))
		}
		t.Add(line...)
	}
	return t
}

// cells have what tables write of a row, by the name of its column.
func (r *Replayed) cells() map[string]func(*Row) any {
	cells := map[string]func(*Row) any{}
	for _, c := range r.columns() {
		if cells[c.name] = c.value; c.text != nil {
			cells[c.name] = c.text
		}
	}
	return cells
}

// briefly is the outcome without the spans, idle times and bytes of its run. times are those of
// verdict.TimesOf.
func briefly(o engines.Outcome, times overlap.Times) engines.Outcome {
	r := o.Result
	o.Result = &replay.Result{
		Run: &trace.Run{Name: r.Run.Name, Simulated: true}, Makespan: r.Makespan, Level: r.Level, Coarse: r.Coarse, Folded: r.Folded,
		Approximation: r.Approximation,
	}
	o.Program, o.Times = nil, &times
	return o
}

// stateNames are the columns of what a time consists of; states has the cells.
var stateNames = []string{"compute", "transfer", "waiting", "copies", "idle", "overlapped"}

// states are the cells of the columns stateNames.
func states(t overlap.Times) []any {
	return []any{t.Compute, t.Transfer, t.Waiting, t.Copies, t.Idle, t.Hidden}
}
