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

// parseWhatIf reads factors such as "links=2,memory=1.2"; "" changes nothing.
func parseWhatIf(s string) (x program.WhatIf, err error) {
	if s == "" {
		return x, nil
	}
	factors := map[string]*float64{"links": &x.Links, "memory": &x.Memory, "compute": &x.Compute}
	for part := range strings.SplitSeq(s, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		at := factors[key]
		if at == nil {
			return x, usageError{fmt.Errorf("--what-if %q: %q is none of links, memory, compute (example: links=2,memory=1.2; for another number of CUs, give --machine a file with base: and gpu.cus:)", s, key)}
		}
		f, err := strconv.ParseFloat(value, 64)
		if err != nil || !(f >= 0.01 && f <= 100) {
			return x, usageError{fmt.Errorf("--what-if %q: %s takes a factor from 0.01 to 100, not %q", s, key, value)}
		}
		*at = f
	}
	return x, nil
}

// whatIf replays every strategy on the machine of --what-if.
func (a *app) whatIf(ctx context.Context, r *replayed, factors string, x program.WhatIf, opts replay.Options) error {
	bar := a.progress(len(r.Rows), "replaying --what-if")
	found, err := explain.Altered(r.workload, r.outcomes, factors, x, opts.Stop, func() { _ = bar.Add(1) })
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

// printWhatIf prints the change of every strategy on the machine of --what-if.
func (a *app) printWhatIf(r *replayed, factors string) {
	if factors == "" {
		return
	}
	t := a.section("what if "+plain.Line(factors)+": the same schedules on that machine", "strategy", "parameters", "change")
	for _, row := range r.Rows {
		if x := row.WhatIf; x != nil {
			t.AppendRow(table.Row{row.Strategy, row.settings, percent(x.Change)})
		}
	}
	t.Render()
}
