package results

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/overlapse/overlapse/cmd/overlapse/console"
	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/engines/compare"
	"github.com/overlapse/overlapse/engines/plan"
	"github.com/overlapse/overlapse/replay/machine"
)

// Spread replays every strategy under n seeds.
func Spread(ctx context.Context, con *console.Console, r *Replayed, m machine.Machine, sel []plan.Selection, n int, stop func() bool) error {
	bar := con.Progress(len(sel)*n, "replaying with other random seeds")
	found, err := compare.Spreads(r.workload, m, sel, r.scenario, n, stop, func() { bar.Add(1) })
	bar.Finish()
	if err != nil {
		return Stopped(ctx, err)
	}
	if len(found) != len(r.Rows) {
		return errors.New("strategies and their distributions differ in number")
	}
	for i, s := range found {
		if len(s.Times) > 0 {
			r.Rows[i].Seeds = &s
		}
	}
	return nil
}

// printSpreads prints the fastest, median and slowest time over the seeds of --seeds.
func printSpreads(con *console.Console, r *Replayed) {
	if !slices.ContainsFunc(r.Rows, func(row replayRow) bool { return row.Seeds != nil }) {
		return
	}
	t := con.Section("with other random seeds (dispatch order, arrival of ranks)", "strategy", "parameters", "seeds", "fastest", "median", "slowest", "modes")
	for _, row := range r.Rows {
		if s := row.Seeds; s != nil {
			t.AppendRow(table.Row{row.Strategy, row.Settings, len(s.Times), text.Micros(s.Fastest()), text.Micros(s.Median()), text.Micros(s.Slowest()), modesOf(s)})
		}
	}
	t.Render()
}

// modesOf describes the two modes of a bimodal distribution; "" if there is one mode.
func modesOf(s *compare.Spread) string {
	if len(s.Modes) < 2 {
		return ""
	}
	var words []string
	for _, m := range s.Modes {
		words = append(words, fmt.Sprintf("%d near %s", m.Seeds, text.Micros(m.Median)))
	}
	return strings.Join(words, ", ")
}
