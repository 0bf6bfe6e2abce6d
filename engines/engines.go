// Package engines is the table of overlap strategies and the parser of their names and
// settings.
package engines

import (
	_ "embed" // the page
	"slices"
	"strings"

	"github.com/overlapse/overlapse/engines/decompose"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/engines/schedule"
	"github.com/overlapse/overlapse/engines/tiles"
)

//go:embed STRATEGIES.md
var page string

// About is what STRATEGIES.md says about a strategy, without its tables; "" if nothing.
func About(name string) string {
	_, text, _ := strings.Cut(page, "\n## "+name+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	before, tables, _ := strings.Cut(text, "<!-- parameters of ")
	_, after, _ := strings.Cut(tables, "<!-- end -->\n")
	return strings.TrimSpace(before + strings.TrimSpace(after))
}

// All lists the strategies in the order of tables.
func All() []plan.Strategy {
	return []plan.Strategy{schedule.Captured, schedule.Bulk, schedule.Ideal, decompose.Strategy, schedule.Multistream, tiles.Fused, tiles.Tilesync, tiles.Onesided, tiles.Trigger}
}

// Named returns the strategy of a name.
func Named(name string) (plan.Strategy, bool) {
	all := All()
	i := slices.IndexFunc(all, func(e plan.Strategy) bool { return e.Name == name })
	if i < 0 {
		return plan.Strategy{}, false
	}
	return all[i], true
}

// CapturedSelection is the captured schedule, with which every comparison starts.
func CapturedSelection() plan.Selection {
	return plan.Selection{Strategy: schedule.Captured, Values: plan.Values{}}
}

// PlainSelection is the schedule that overlaps nothing, with its defaults.
func PlainSelection() plan.Selection {
	v, _ := schedule.Bulk.Values(nil)
	return plan.Selection{Strategy: schedule.Bulk, Values: v}
}
