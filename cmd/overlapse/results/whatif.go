package results

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/overlapse/overlapse/cmd/overlapse/console"
	"github.com/overlapse/overlapse/cmd/overlapse/text"
	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/machine"
	"github.com/overlapse/overlapse/trace"
	"github.com/overlapse/overlapse/viz/plain"
)

// WhatIf replays every strategy on the machine of --what-if.
func WhatIf(ctx context.Context, con *console.Console, r *Replayed, m machine.Machine, x machine.WhatIf, opts replay.Options) error {
	bar := con.Progress(len(r.Rows), "replaying --what-if")
	found, err := explain.Under(r.workload, m, r.Outcomes, []machine.WhatIf{x}, opts.Stop, func() { bar.Add(1) })
	bar.Finish()
	if err != nil {
		return Stopped(ctx, err)
	}
	for i := range found {
		if i < len(r.Rows) && len(found[i]) > 0 {
			r.Rows[i].WhatIf = &found[i][0]
		}
	}
	return nil
}

// PrintWhatIf prints the time of every strategy on the machine of --what-if.
func PrintWhatIf(con *console.Console, r *Replayed, x machine.WhatIf) {
	if len(x) == 0 {
		return
	}
	title := fmt.Sprintf("what if %s: each strategy planned for that machine, captured durations scaled to it", plain.Line(x.String()))
	t := con.Section(title, "strategy", "parameters", "time", "change", "vs "+r.given()+" there")
	var base int64
	for _, row := range r.Rows {
		if row.Strategy == "captured" && row.WhatIf != nil {
			base = row.WhatIf.Time
		}
	}
	for _, row := range r.Rows {
		y := row.WhatIf
		if y == nil {
			continue
		}
		there := "-"
		if base > 0 {
			there = text.Percent(float64(y.Time)/float64(base) - 1)
		}
		t.AppendRow(table.Row{r.shown(row.Strategy), row.Settings, text.Micros(trace.Time(y.Time)), text.Percent(y.Change), there})
	}
	t.Render()
}
