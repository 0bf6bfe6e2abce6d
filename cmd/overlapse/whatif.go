package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/overlapse/overlapse/engines/explain"
	"github.com/overlapse/overlapse/replay"
	"github.com/overlapse/overlapse/replay/program"
	"github.com/overlapse/overlapse/viz/plain"
)

// parseWhatIf reads "links=2,memory=1.2": how many times as fast each is.
// "" changes nothing.
func parseWhatIf(s string) (x program.WhatIf, err error) {
	if s == "" {
		return x, nil
	}
	factors := map[string]*float64{"links": &x.Links, "memory": &x.Memory, "compute": &x.Compute}
	for part := range strings.SplitSeq(s, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		at := factors[key]
		if at == nil {
			return x, usageError{fmt.Errorf("--what-if %q: %q is none of links, memory, compute (links=2,memory=1.2; another number of CUs is another plan: give --machine a file with base: and gpu.cus:)", s, key)}
		}
		f, err := strconv.ParseFloat(value, 64)
		if err != nil || !(f >= 0.01 && f <= 100) {
			return x, usageError{fmt.Errorf("--what-if %q: %s is how many times as fast: a number from 0.01 to 100, not %q", s, key, value)}
		}
		*at = f
	}
	return x, nil
}

// whatIf replays every strategy on the machine that was asked for.
func (a *app) whatIf(ctx context.Context, r *replayed, asked string, x program.WhatIf, opts replay.Options) error {
	bar := a.progress(len(r.Rows), "replaying what if")
	found, err := explain.Altered(r.workload, r.outcomes, asked, x, opts.Stop, func() { _ = bar.Add(1) })
	_ = bar.Finish()
	if err != nil {
		return stopped(ctx, err)
	}
	if len(found) > len(r.Rows) {
		return errors.New("strategies and what-ifs differ in number")
	}
	for i := range found {
		if found[i].Name != "" {
			r.Rows[i].WhatIf = &found[i]
		}
	}
	return nil
}

// printWhatIf prints what the machine that was asked about changes.
func (a *app) printWhatIf(r *replayed, asked string) {
	if asked == "" {
		return
	}
	t := a.section("what if "+plain.Line(asked)+": the same plans on that machine", "strategy", "parameters", "change of its time")
	for _, row := range r.Rows {
		if x := row.WhatIf; x != nil {
			t.AppendRow(table.Row{row.Strategy, row.settings, percent(x.Change)})
		}
	}
	t.Render()
}
