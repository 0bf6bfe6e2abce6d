package results

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/console"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/words"
	"github.com/overlapse/overlapse/engines/verdict"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/trace/names"
)

// A column is one of a result's table, which the terminal and Markdown show. Columns without a
// value in any row are left out.
type column struct {
	name string
	of   func(*replayRow) any // a trace.Time or text; "": no value
}

// columns describes the result's table, which has more of them on a page.
func (r *Replayed) columns(page bool) []column {
	list := []column{
		{"strategy", func(row *replayRow) any { return r.named(row) }},
		{"steps", func(row *replayRow) any { return unless(!page, row.Phase) }},
		{"time", func(row *replayRow) any {
			if !row.Applies {
				return nil
			}
			return trace.Time(row.Time)
		}},
		{"change", func(row *replayRow) any { return unless(row.given() || !row.Applies, words.Percent(row.Change)) }},
		{"±", func(row *replayRow) any {
			if row.Unproven {
				return "?"
			}
			return unless(row.Error == 0, fmt.Sprintf("%.1f", 100*row.Error))
		}},
		{"faster", func(row *replayRow) any {
			if row.Same {
				return "same program"
			}
			return unless(row.Error == 0, verdict.PercentOf(row.PFaster))
		}},
		{"effort", func(row *replayRow) any { return unless(row.Same, string(row.Effort)) }},
	}
	if r.pipeline {
		list = append(list,
			column{"bubble", func(row *replayRow) any { return unless(!row.Applies, fmt.Sprintf("%.1f %%", 100*row.Bubble)) }},
			column{"sends", func(row *replayRow) any { return unless(!row.Applies, words.Micros(row.Transfer)) }})
	}
	list = append(list, column{"memory", func(row *replayRow) any { return MemoryText(row.PeakMemory, row.MemoryLacks) }})
	for _, row := range r.Rows {
		if x := row.WhatIf; x != nil {
			list = append(list, column{x.Name, func(row *replayRow) any {
				if row.WhatIf == nil {
					return ""
				}
				return trace.Time(row.WhatIf.Time)
			}}, column{"change there", func(row *replayRow) any {
				change, ok := r.there(row)
				return unless(!ok || row.given(), words.Percent(change))
			}})
			break
		}
	}
	for i, name := range []string{"fastest", "median", "slowest"} {
		list = append(list, column{name, func(row *replayRow) any {
			if row.Seeds == nil {
				return ""
			}
			return []trace.Time{row.Seeds.Fastest(), row.Seeds.Median(), row.Seeds.Slowest()}[i]
		}})
	}
	if !page {
		return append(list, column{"exposed", func(row *replayRow) any { return row.Exposed() }})
	}
	for i, name := range console.StateNames {
		list = append(list, column{name, func(row *replayRow) any {
			if !row.Applies {
				return nil
			}
			return console.States(row.Times)[i]
		}})
	}
	return append(list, column{"time breakdown", func(row *replayRow) any {
		if !row.Applies {
			return row.reason()
		}
		return row.Limit
	}})
}

// unless is a cell that is empty on a condition.
func unless(empty bool, cell string) any {
	if empty {
		return ""
	}
	return cell
}

// MemoryText is a difference of the most memory that a rank holds, "≥" before a lower bound; "" for
// none.
func MemoryText(bytes int64, lacks []string) string {
	switch {
	case bytes > 0 && len(lacks) > 0:
		return "≥ +" + names.Bytes(bytes)
	case bytes > 0:
		return "+" + names.Bytes(bytes)
	case len(lacks) > 0:
		return "unknown"
	case bytes < 0:
		return "-" + names.Bytes(-bytes)
	}
	return ""
}

// given reports whether a row is the captured schedule, without settings.
func (r *replayRow) given() bool { return r.Strategy == "captured" && r.Settings == "" }

// named is a row's strategy with its settings.
func (r *Replayed) named(row *replayRow) string {
	name := strings.TrimSpace(r.Named(row.Strategy) + " " + row.Settings)
	if row.bound != "" {
		name += " (" + row.bound + ")"
	}
	if row.Experimental {
		name += " (experimental)"
	}
	return name
}

// phased is a row's name with its phase.
func (r *Replayed) phased(row *replayRow) string {
	if row.Phase == "" {
		return r.named(row)
	}
	return r.named(row) + ", " + row.Phase
}

// alike is the change below which a row that was not selected by name has no line of its own.
const alike = 0.005

// sorted are the rows of a phase (0: of all iterations) that apply: the captured schedule, then the same simulated, then the
// fastest first, then bounds;
// rows with about its time apart, if they are to be folded; and those that do not apply.
func (r *Replayed) sorted(fold bool, phase int) (rows, folded, refused []*replayRow) {
	var all []*replayRow
	for i := range r.Rows {
		if row := &r.Rows[i]; row.phase == phase || row.phase == 0 {
			all = append(all, row)
		}
	}
	if r.Control != nil {
		all = append(all, &r.Control.rows[max(0, phase-1)])
	}
	for _, row := range all {
		switch {
		case !row.Applies:
			refused = append(refused, row)
		case fold && !row.given() && row.bound == "" && row.Change < alike && row.Change > -alike:
			folded = append(folded, row)
		default:
			rows = append(rows, row)
		}
	}
	place := func(row *replayRow) int {
		switch {
		case row.given():
			return 0
		case r.Control != nil && row == &r.Control.rows[max(0, phase-1)]:
			return 1
		case row.bound != "":
			return 3
		}
		return 2
	}
	slices.SortStableFunc(rows, func(a, b *replayRow) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Time, b.Time))
	})
	return rows, folded, refused
}

// names are those of rows, joined.
func (r *Replayed) names(rows []*replayRow) string {
	var names []string
	for _, row := range rows {
		if name := r.named(row); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// proseFrom is the width of a terminal from which the table has columns of words.
const proseFrom = 100

// table is that of rows, with one unit for all times, for a terminal of a width; 0: of any.
func (r *Replayed) table(rows []*replayRow, width int) *console.Table {
	return tableOf(r.columns(false), rows, width)
}

func tableOf(columns []column, rows []*replayRow, width int) *console.Table {
	if width > 0 && width < proseFrom {
		columns = slices.DeleteFunc(columns, func(c column) bool { return c.name == "effort" })
	}
	t := &console.Table{OneUnit: true}
	for _, c := range columns {
		t.Columns = append(t.Columns, c.name)
	}
	for _, row := range rows {
		var cells []any
		for _, c := range columns {
			cells = append(cells, c.of(row))
		}
		t.Add(cells...)
	}
	return t
}
